"""Text of tenants is data where it is shown: in a terminal or log, and in an entry of a pack."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hmx_pipeline.contracts.safe_text import INDENT, as_data, on_one_line
from tests.support.hostile import ALL, ESCAPES, HTML, MARKDOWN, MARKS, ORDINARY, TURNED

CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\u200b\ufeff\U000e0000-\U000e0fff]"
)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.found.append(tag)

    handle_endtag = handle_comment = handle_decl = handle_pi = unknown_decl = lambda self, tag: self.found.append(tag)  # type: ignore[assignment]


def tags(text: str) -> list[str]:
    """As a lenient reader of HTML finds them, with those that what comes later completes."""
    reader = Tags()
    reader.feed(f"{text} >-->")
    reader.close()
    return reader.found


def test_the_hostile_texts_are_many() -> None:
    assert len(set(ALL)) == len(ALL) > 80


@pytest.mark.parametrize("text", ALL)
def test_a_line_holds_only_what_can_be_printed(text: str) -> None:
    assert on_one_line(text).isprintable()


@given(st.text())
def test_any_text_is_one_printable_line_of_as_many_characters(text: str) -> None:
    assert on_one_line(text).isprintable()
    assert len(on_one_line(text)) == len(text)


def test_escapes_and_line_breaks_are_pictured() -> None:
    assert on_one_line("a\x1b[2J\nb\tc\x7f\x9b\u202e\xa0d") == "a␛[2J␊b c␡�� d"


@pytest.mark.parametrize("text", [*ESCAPES, *TURNED])
def test_data_has_no_control_or_unseen_character(text: str) -> None:
    assert not CONTROL.search(as_data(text))


@given(st.text())
@example("\u202e\x1b\u200b")
@example("[\u200bhmx]")
def test_no_text_makes_data_with_controls_marks_or_lines_that_are_not_indented(text: str) -> None:
    shown = as_data(text)
    assert not CONTROL.search(shown)
    assert "[hmx]" not in shown
    assert all(line.startswith(INDENT) and line.strip() for line in shown.split("\n")[1:])


@pytest.mark.parametrize("text", HTML)
def test_data_has_no_tag_or_comment(text: str) -> None:
    assert tags(text)[:1] or "<|" in text, "the text is hostile as it came"
    assert tags(as_data(text)) == []
    assert not re.search(r"<[/!?|]?[a-z]", as_data(text), re.IGNORECASE)


@pytest.mark.parametrize("text", MARKDOWN)
def test_data_has_no_structure_of_markdown_behind_its_first_line(text: str) -> None:
    """Text indented by eight is a paragraph that goes on, or code."""
    first, *rest = as_data(text).split("\n")
    assert all(line.startswith(INDENT) for line in rest)
    assert not re.search(r"!\[|\]\((?:javascript|data):", first)


@pytest.mark.parametrize("text", MARKS)
def test_data_has_nothing_that_looks_like_the_mark_of_an_entry(text: str) -> None:
    shown = as_data(text)
    assert not re.search(r"[\[［]\s*[hｈһ]\W*[mｍ]\W*[xｘ]\s*[\]］]", shown, re.IGNORECASE)
    assert "obey" in shown or "rm -rf" in shown


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_and_commands_stay_as_they_are(text: str) -> None:
    assert as_data(text) == text


@given(st.text(), st.text())
def test_data_stays_as_it_is_when_it_is_shown_again(left: str, right: str) -> None:
    once = as_data(left + right)
    assert as_data(once).replace(" ", "") == once.replace(" ", "")


def test_colours_of_tools_are_left_out() -> None:
    assert as_data("\x1b[31m1 failed\x1b[0m, 2 passed\x1b[K") == "1 failed, 2 passed"


@pytest.mark.parametrize(
    "part", ["<", "<a ", "<a /", "</", "![", "](", "[", "[ ", "\x1b[", "<x on", "\u200d", "<!-", "[h"]
)
def test_long_hostile_text_is_shown_as_well(part: str) -> None:
    """Work that grew with the square of its length would take minutes."""
    assert as_data(part * 100_000).count("\n") == 0
