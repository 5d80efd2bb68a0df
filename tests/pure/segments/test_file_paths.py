"""Files that texts name, and identifiers of code."""

import pytest

from hmx_pipeline.segments.file_paths import (
    dotted_names,
    file_named,
    files_in,
    files_removed,
    identifiers,
    located_lines,
    name_parts,
)


def test_a_file_is_what_ends_in_a_suffix() -> None:
    text = "see ./src/app.py, Makefile and https://example.org/a.html or v1.2 (docs/README.md:12)"
    assert files_in(text) == ["src/app.py", "docs/README.md"]


@pytest.mark.parametrize(
    ("text", "path"),
    [("src/app.py", "src/app.py"), ("./a.go", "a.go"), ("/tmp/x.txt", "/tmp/x.txt"), ("a b.py", ""), ("12.5", "")],
)
def test_an_argument_is_a_file_or_is_none(text: str, path: str) -> None:
    assert file_named(text) == path


def test_removed_are_the_names_after_rm() -> None:
    assert files_removed("cd x && rm -f a.py ./b.py; ls c.py") == ["a.py", "b.py"]
    assert files_removed("git rm old.go") == ["old.go"]
    assert files_removed("npm run confirm a.py") == []


def test_lines_of_a_search_name_their_file() -> None:
    assert located_lines("src/a.py:12:def go():\n  plain text\n./b.go") == [
        ("src/a.py", "def go():"),
        ("", "  plain text"),
        ("b.go", ""),
    ]


def test_identifiers_are_what_only_code_would_write_so_and_as_many_as_asked_for() -> None:
    text = "func (s *Store) Save calls reload() on saveDraft, HTTPServer, reload() and a_b; Please stop"
    found = ["Save", "reload", "saveDraft", "a_b"]
    assert identifiers(text) == tuple(found)
    assert [identifiers(text, most) for most in range(5)] == [tuple(found[:most]) for most in range(5)]


def test_names_fall_into_their_words() -> None:
    assert name_parts("cmd/sessionState_test.go") == ["cmd", "session", "state", "test"]
    assert dotted_names("in app.models.user or so.") == ["app.models.user"]
