"""The pages: what is generated is up to date, what is linked is there, what is shown exists."""

import ast
import builtins
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from hmx_pipeline.intake.decode import Accepted, decode
from tests.support.documents import DOCS, README, ROOT, marks, pages, with_parts
from tests.support.generated import COMMANDS, PARTS, command_of

OTHERS = [
    ROOT / path
    for path in (
        "CHANGELOG.md", "deploy/README.md", "topics/README.md", "tests/act/README.md", "tests/bench/README.md",
        "tests/quality/README.md", "tests/quality/statements.md", "tests/secrets/README.md",
    )
]  # fmt: skip
PAGES = pages()
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """The files that a page links, each with the heading that is meant."""
    prose = re.sub(r"^```.*?^```", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\((?!https?:|<)([^)\s]*)\)", prose):
        path, _, heading = target.partition("#")
        yield ((page.parent / path).resolve() if path else page), heading


def headings(page: Path) -> set[str]:
    """As GitHub and mkdocs spell them in addresses."""
    found = re.findall(r"^#+ (.*)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in found}


def hmx_lines(text: str) -> list[list[str]]:
    """The words after `hmx` in every line that runs it, inside sentences too."""
    lines = re.findall(r"^ {4}(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?hmx (.+)$|`hmx ([^`\n]+)`", text, re.MULTILINE)
    parts = [part for block, inline in lines for part in re.split(r" && (?:\.venv/bin/)?hmx ", block or inline)]
    return [shlex.split(part, comments=True) for part in parts]


@every_page
def test_what_is_generated_is_what_the_code_says(page: Path) -> None:
    assert with_parts(text_of(page)) == text_of(page), "run: make docs"


def test_every_part_that_can_be_generated_stands_on_one_page() -> None:
    assert sorted(name for page in PAGES for name in marks(text_of(page))) == sorted(PARTS)


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_to_a_heading_that_is_there(page: Path) -> None:
    for target, heading in links(page):
        assert target.exists(), target
        assert not heading or heading in headings(target), (target, heading)


def test_every_page_is_two_clicks_from_the_readme() -> None:
    first = {target for target, _ in links(README)}
    second = {target for page in first if page.suffix == ".md" and page.exists() for target, _ in links(page)}
    assert {page for page in [*PAGES, *OTHERS] if page not in first | second | {README}} == set()


def test_the_readme_is_one_page() -> None:
    assert len(README.read_bytes()) <= 12 * 1024


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_is_shown_exists_with_its_options(page: Path) -> None:
    for words in hmx_lines(text_of(page)):
        if words == ["--version"]:
            continue
        command = command_of([word for word in words if not word.startswith("-")])
        assert command is not None, words
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert {word for word in words if word.startswith("-") and word != "-"} <= known | {"--help"}, words
        if "--help" not in words and not re.fullmatch("[a-z ]+", " ".join(words)):  # more than a mention
            assert all({*each.opts} & {*words} for each in command.params if each.required and is_option(each)), words


def is_option(parameter: click.Parameter) -> bool:
    return parameter.param_type_name == "option"


def test_every_command_is_described() -> None:
    said = [words[0] for page in PAGES for words in hmx_lines(text_of(page))]
    assert set(getattr(COMMANDS, "commands", {})) <= set(said)


@every_page
def test_python_is_python_and_json_is_json(page: Path) -> None:
    for language, code in re.findall(r"^```(\w+)\n(.*?)^```", text_of(page), re.MULTILINE | re.DOTALL):
        if language == "python":
            ast.parse(code)
        if language == "json":
            values = code.splitlines() if code.count('{"hmx_version"') > 1 else [code]
            for value in values:
                json.loads(value)


@pytest.mark.parametrize("page", sorted((DOCS / "how-to" / "extend").glob("*.md")), ids=lambda page: page.stem)
def test_code_to_add_uses_names_of_the_files_that_its_page_names(page: Path) -> None:
    """Those since the code before it: the same name means another thing elsewhere."""
    for before, code in re.findall(r"(.*?)^```python\n(.*?)^```", text_of(page), re.MULTILINE | re.DOTALL):
        named = [ROOT / path for path in re.findall(r"`((?:pipeline|tests)/[\w./-]*)`", before)]
        files = [file for path in named for file in ([path] if path.is_file() else path.glob("*.py"))]
        known = {word for file in files for word in re.findall(r"\w+", file.read_text(encoding="utf-8"))}
        names = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)]
        assert {node.id for node in names if isinstance(node.ctx, ast.Load)} - {*vars(builtins), *bound(code)} <= known


def bound(code: str) -> Iterator[str]:
    """The names that a text defines, imports or assigns."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.FunctionDef(name=name):
                yield name
            case ast.ImportFrom(names=names):
                yield from (each.name for each in names)


def test_the_event_of_the_readme_is_accepted() -> None:
    (event,) = re.findall(r"^```json\n(.*?)^```", text_of(README), re.MULTILINE | re.DOTALL)
    assert isinstance(decode(event.encode()), Accepted)


@every_page
def test_every_path_of_the_project_that_a_page_names_is_there(page: Path) -> None:
    named = re.findall(r"`((?:pipeline|tests|topics|schemas|deploy)/[\w./-]*)`", text_of(page))
    assert [path for path in named if not (ROOT / path).exists()] == []


def names_in_files(page: Path) -> list[tuple[str, str]]:
    """What a page says stands in a file: "`Name` in `a.py`", "`Name` of `a.py`" or "`Name` (`a.py`)"."""
    return re.findall(r"`(\w+)(?:\(\))?`\s+(?:in\s+|of\s+|\()`([\w./-]+/[\w.-]+\.py)`", text_of(page))


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_name_that_a_page_sees_in_a_file_occurs_there(page: Path) -> None:
    for name, path in names_in_files(page):
        assert re.search(rf"\b{name}\b", (ROOT / path).read_text(encoding="utf-8")), (name, path)


def test_the_pages_see_names_in_files() -> None:
    assert sum(len(names_in_files(page)) for page in PAGES) > 20


def test_every_word_of_the_glossary_stands_there_once_and_where_it_is_said_to_be() -> None:
    rows = re.findall(
        r"^\| (.+?) \| .+ \| `(pipeline/[\w./]+)`(?: `(\w+)`)? \|$", text_of(DOCS / "glossary.md"), re.MULTILINE
    )
    words = [word for word, _, _ in rows]
    assert len(words) == len(set(words)) > 90
    assert words == sorted(words, key=str.lower)
    for word, path, name in rows:
        assert re.search(rf"\b{name}\b", (ROOT / path).read_text(encoding="utf-8")), word


def test_decisions_are_numbered_and_listed_and_have_their_parts() -> None:
    records = sorted((DOCS / "decisions").glob("0*.md"))
    assert [int(path.name[:4]) for path in records] == list(range(1, len(records) + 1))
    assert {target for target, _ in links(DOCS / "decisions" / "index.md")} >= set(records)
    for path in records:
        assert all(
            part in text_of(path) for part in ("**Problem.**", "**Measured", "**Decision.**", "**How to leave it.**")
        )


def test_the_changelog_begins_with_the_version_of_the_project() -> None:
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert (
        re.findall(r"^## \[([\d.]+)\] - \d{4}-\d\d-\d\d$", text_of(ROOT / "CHANGELOG.md"), re.MULTILINE)[0]
        == version[1]
    )
