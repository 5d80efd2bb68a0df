"""`deploy/Dockerfile`: what it copies exists, what it installs is locked, and it runs as nobody in particular."""

import fnmatch
import json
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.specifiers import SpecifierSet

from pipeline.kafka.topics import FOLDER

ROOT = Path(__file__).parents[3]


class Line(NamedTuple):
    instruction: str
    words: list[str]
    text: str


def read() -> list[Line]:
    text = (ROOT / "deploy" / "Dockerfile").read_text()
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    split = [line.split(None, 1) for line in text.splitlines() if line.strip()]
    return [Line(name, shlex.split(rest), rest) for name, rest in split]


LINES = read()
COPIED = [line.words for line in LINES if line.instruction == "COPY" and not line.words[0].startswith("--from")]


def ignored(path: str) -> bool:
    """The last pattern that matches decides; those of whole names are all that the file needs."""
    verdict = False
    for pattern in (ROOT / ".dockerignore").read_text().split():
        if fnmatch.fnmatch(path, pattern.removeprefix("!")):
            verdict = not pattern.startswith("!")
    return verdict


def test_it_has_two_stages_on_one_allowed_version_of_python() -> None:
    images = [line.words[0] for line in LINES if line.instruction == "FROM"]
    assert len(images) == 2
    assert len(set(images)) == 1
    version = re.fullmatch(r"python:(\d+\.\d+)-slim", images[0])
    assert version is not None
    required = re.search(r'^requires-python = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert required is not None
    assert version[1] in SpecifierSet(required[1])


@pytest.mark.parametrize("source", [source for *sources, _ in COPIED for source in sources])
def test_what_is_copied_exists_and_is_not_ignored(source: str) -> None:
    assert (ROOT / source).exists()
    assert not ignored(source)


def test_the_second_stage_takes_the_packages_of_the_first() -> None:
    (first, *_) = (line.words for line in LINES if line.instruction == "FROM")
    assert first[1:] == ["AS", "packages"]
    taken = [line.words for line in LINES if line.instruction == "COPY" and line.words[0].startswith("--from")]
    assert taken == [["--from=packages", "/venv", "/venv"]]
    (path,) = (word for line in LINES if line.instruction == "ENV" for word in line.words if word.startswith("PATH="))
    assert path.startswith("PATH=/venv/bin:")


def test_it_installs_the_hashed_lock_and_nothing_else() -> None:
    runs = [line.text for line in LINES if line.instruction == "RUN"]
    installs = [text for text in runs if "install" in text]
    assert len(installs) == 1
    assert "--require-hashes" in installs[0]
    assert "--only-binary :all:" in installs[0]
    assert installs[0].endswith("--requirement requirements.lock")
    assert not any(re.search(r"\b(curl|wget|apt|apt-get)\b", text) for text in runs)
    assert "--hash=sha256:" in (ROOT / "requirements.lock").read_text()


def test_it_runs_as_a_user_without_rights_and_without_a_shell() -> None:
    (user,) = (line.text for line in LINES if line.instruction == "USER")
    assert int(user) >= 10_000
    (made,) = (line.words for line in LINES if line.instruction == "RUN" and line.words[0] == "useradd")
    assert made[made.index("--uid") + 1] == user
    instructions = [line.instruction for line in LINES]
    assert instructions.index("USER") > max(n for n, name in enumerate(instructions) if name in ("RUN", "COPY"))
    (entry,) = (line.text for line in LINES if line.instruction == "ENTRYPOINT")
    assert json.loads(entry) == ["python", "-m", "pipeline.cli"]


def test_the_topics_are_where_the_pipeline_looks_for_them() -> None:
    (folder,) = (line.text for line in LINES if line.instruction == "WORKDIR")
    assert ["pipeline", "pipeline"] in COPIED
    assert ["topics", FOLDER.name] in COPIED
    (path,) = (word for line in LINES if line.instruction == "ENV" for word in line.words if "PYTHONPATH" in word)
    assert path == f"PYTHONPATH={folder}"
