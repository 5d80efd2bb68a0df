"""`python -m tests.quality.gather_statements REPOSITORIES FOLDER` finds the sentences of
`statements_sources.jsonl` again, so that the weights can be learnt anew from them and more (`train_statements`).

Enters: a folder with a git directory for each repository, as `owner+name` or `owner+name/repo`. Leaves in FOLDER
`known.jsonl`, and `requests.jsonl` of the subjects of commits. It cuts each file in every way that the readers may have
cut it, and keeps what has a listed hash: 97 of 100 sentences were found, of subjects of commits a third, since their
repositories go on. What was written for the classifier (`own`) stands in no repository, and is gone.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from hmx_pipeline.compiler.knowledge.plain_statements import spoken
from tests.quality.train_statements import DIGITS, SOURCES

_SUBJECTS: Final = "(commit subjects)"
_WHERE: Final = ("repo", "path", "commit", "licence")
_LONGEST: Final = 2_000
_LINK: Final = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
_MARK: Final = re.compile(r"^\s*(?:>\s*)*(?:(?:[-*+•]|\d{1,3}[.)]|[a-z][.)])\s+(?:\[[ xX]\]\s+)?)?")
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


def main(repositories: Path, folder: Path) -> None:
    found: dict[str, list[dict[str, Any]]] = {"known": [], "requests": []}
    for row in map(json.loads, SOURCES.read_text("utf-8").splitlines()):
        listed = {one: how for how, those in row.items() if how not in _WHERE for one in those.split()}
        said = {one: text for text in _texts(repositories, row) if (one := _hash(text)) in listed}
        about = {name: row[name] for name in _WHERE}
        for one, text in said.items():
            lang, kind = listed[one].split()
            found["requests" if row["path"] == _SUBJECTS else "known"].append(
                {"text": text, "kind": kind, "lang": lang, **about}
            )
    for name, rows in found.items():
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, "utf-8")


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:DIGITS]


def _texts(repositories: Path, row: dict[str, str]) -> Iterator[str]:
    place = repositories / row["repo"].replace("/", "+")
    place = place / "repo" if (place / "repo").is_dir() else place
    if not row["repo"].partition("/")[2] or not place.is_dir():
        return
    if row["path"] == _SUBJECTS:
        for line in _git(place, "log", "-n", "4000", "--format=%s", row["commit"]).split("\n"):
            yield from _forms(line)
        return
    text = _file(place, row["commit"], row["path"])
    if row["path"].endswith((".json", ".jsonl")):
        text = "\n\n".join(_unescaped(one) for one in _STRING.findall(text))
    for unit in _units(text):
        yield from _forms(unit)


def _file(place: Path, commit: str, path: str) -> str:
    text = _git(place, "show", f"{commit}:{path}")
    if not text.startswith("tree "):
        return text
    names = _git(place, "ls-tree", "-r", "--name-only", commit, f"{path}/").split("\n")
    return "\n".join(_git(place, "show", f"{commit}:{name}") for name in names if name)


def _git(place: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(place), *arguments], capture_output=True, check=False)
    return done.stdout.decode(errors="replace")


def _unescaped(quoted: str) -> str:
    try:
        return str(json.loads(quoted))
    except ValueError:
        return ""


def _units(text: str) -> Iterator[str]:
    """Lines, paragraphs and cells of tables, each whole and by sentence."""
    paragraph: list[str] = []
    for line in [*text.split("\n"), ""]:
        bare = _MARK.sub("", line).strip().lstrip("#").strip()
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.lstrip().startswith("|") else []
        marked = (mark := _MARK.match(line)) is not None and mark[0].strip()
        if paragraph and (not line.strip() or cells or marked or line.startswith("#")):
            yield from _sentences(" ".join(paragraph))
            paragraph = []
        yield from (one for each in (bare, *cells) for one in _sentences(each))
        paragraph += [bare] if bare else []


def _sentences(text: str) -> Iterator[str]:
    plain = _LINK.sub(r"\1", text)
    bold = plain.replace("**", "").replace("__", "")
    tagless, slanted = re.sub(r"<[^>]+>", "", bold), re.sub(r"(?<!\w)[*_]|[*_](?!\w)", "", bold)
    for one in dict.fromkeys((text, plain, bold, tagless, slanted)):
        yield one
        yield from _SENTENCE.split(one)
        if len(one) < _LONGEST:
            yield from spoken(one)


def _forms(text: str) -> Iterator[str]:
    one = " ".join(text.split())
    yield from (one, f"{one}.", one.replace("`", ""))
    yield from (one.rstrip(ends) for ends in (".", ".。 ", ":：", " :："))
    yield from (one.strip(edges) for edges in ("\"'“”", "*_ "))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
