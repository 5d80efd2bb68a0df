"""What time a question speaks of, against the time up to which the log goes: Saturday, 2026-03-14, 03:00 UTC."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.retrieval.times import TimeSpan, mention, time_reference
from tests.support.memory import T0

RANGES = {
    "What did we decide last March?": "2025-03-01/2025-04-01",
    "the releases of March 2024": "2024-03-01/2024-04-01",
    "what went wrong in February": "2026-02-01/2026-03-01",
    "what is planned in April": "2025-04-01/2025-05-01",
    "what happens next April": "2026-04-01/2026-05-01",
    "what broke this March": "2026-03-01/2026-04-01",
    "the deploy on March 5": "2026-03-05/2026-03-06",
    "the deploy of 5 May 2023": "2023-05-05/2023-05-06",
    "the deploy on December 24th": "2025-12-24/2025-12-25",
    "What broke yesterday?": "2026-03-13/2026-03-14",
    "and the day before yesterday": "2026-03-12/2026-03-13",
    "today's errors": "2026-03-14/2026-03-15",
    "3 days ago it worked": "2026-03-11/2026-03-12",
    "two weeks ago": "2026-02-23/2026-03-02",
    "a month ago": "2026-02-01/2026-03-01",
    "what changed a year ago": "2025-01-01/2026-01-01",
    "the last 2 days": "2026-03-12T03:00:00.000Z/2026-03-14T03:00:00.001Z",
    "an hour ago": "2026-03-14T01:30:00.000Z/2026-03-14T02:30:00.000Z",
    "last night": "2026-03-13T18:00:00.000Z/2026-03-14T06:00:00.000Z",
    "last week": "2026-03-02/2026-03-09",
    "last weekend": "2026-03-07/2026-03-09",
    "last quarter": "2025-10-01/2026-01-01",
    "this year": "2026-01-01/2027-01-01",
    "What broke on Tuesday?": "2026-03-10/2026-03-11",
    "next Monday": "2026-03-16/2026-03-17",
    "on 2026-02-03": "2026-02-03/2026-02-04",
    "in 2026-02 we moved": "2026-02-01/2026-03-01",
    "in 2024": "2024-01-01/2025-01-01",
    "since May": "2025-05-01/..",
    "since 2026-03-01": "2026-03-01/..",
    "after last week": "2026-03-09/..",
    "before March 2025": "../2025-03-01",
    "until yesterday": "../2026-03-14",
    "between 2026-01-10 and 2026-02-20": "2026-01-10/2026-02-21",
    "from last Monday to yesterday": "2026-03-09/2026-03-14",
}
NONE = [
    "may we go", "we march on", "ask April", "version 2024", "how do I rotate the keys", "on February 30", "in 0000",
    "a day", "from today to yesterday", "100 errors", "the week", "99999999 days ago",
]  # fmt: skip


def whole(text: str) -> str:
    return "/".join(part if part == ".." or "T" in part else f"{part}T00:00:00.000Z" for part in text.split("/"))


@pytest.mark.requirement("C-15")
@pytest.mark.parametrize("question", RANGES)
def test_a_question_names_a_range_of_time(question: str) -> None:
    assert str(time_reference(question, T0)) == whole(RANGES[question])


@pytest.mark.parametrize("question", NONE)
def test_what_names_no_time_has_none(question: str) -> None:
    assert time_reference(question, T0) is None


def test_the_words_that_name_it() -> None:
    assert mention("What did Caroline say  Last\nMarch about it?") == "last march"
    assert mention("may we go") is None


@given(st.text() | st.sampled_from(sorted(RANGES)), st.integers(-(2**60), 2**60))
def test_any_question_at_any_time_has_a_range_or_none(question: str, now: int) -> None:
    span = time_reference(question, now)
    assert span is None or span.start is None or span.end is None or span.start < span.end


@given(st.integers(), st.integers(0, 10**6), st.integers())
def test_distance_is_none_within_and_grows_outside(start: int, length: int, at: int) -> None:
    span = TimeSpan(start, start + length + 1)
    assert (span.distance(at) == 0) == (start <= at <= start + length)
    assert TimeSpan(None, None).distance(at) == 0
    assert span.distance(start - 5) == 5
    assert span.distance(start + length + 5) == 5
