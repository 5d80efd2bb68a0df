"""The window of one session, decision by decision."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.ordering.window import (
    Cursor,
    Verdict,
    Waiting,
    Window,
    follows,
    judge,
    judge_arrival,
    passed_aside,
    released,
    started_over,
)

WINDOW = 5_000


def after(*sequences: int) -> Cursor:
    """A cursor after these sequences went out in order, one second apart, each at its own instant."""
    cursor = Cursor()
    for at, sequence in enumerate(sequences):
        cursor = released(cursor, sequence, at, at * 1_000, WINDOW)
    return cursor


@pytest.mark.requirement("E-08", "E-28")
def test_the_next_expected_sequence_goes_out_at_once() -> None:
    assert judge(after(0, 1), 2, 9, 9_000) is Verdict.RELEASE


@pytest.mark.requirement("E-08")
def test_a_session_that_starts_above_zero_starts_behind_a_gap() -> None:
    assert judge(Cursor(), 0, 0, 0) is Verdict.RELEASE
    assert judge(Cursor(), 7, 0, 0) is Verdict.WAIT


@pytest.mark.requirement("E-25")
def test_a_tie_within_the_window_of_its_peer_is_not_late_and_after_it_is() -> None:
    cursor = after(0, 1)
    assert judge(cursor, 1, -1, 1_000 + WINDOW - 1) is Verdict.RELEASE
    assert judge(cursor, 1, -1, 1_000 + WINDOW) is Verdict.LATE


def test_below_what_went_out_is_late() -> None:
    assert judge(after(0, 1, 2), 1, 2, 3_000) is Verdict.LATE
    assert judge(after(0, 1, 2), 0, 1, 3_000) is Verdict.LATE


@pytest.mark.requirement("Y24")
def test_below_what_went_out_but_dated_after_all_of_it_waits_for_a_new_run() -> None:
    assert judge(after(0, 1, 2), 1, 3, 3_000) is Verdict.WAIT


def test_sequence_zero_dated_after_everything_opens_a_new_run() -> None:
    cursor = after(0, 1, 2)
    assert judge(cursor, 0, cursor.newest + 1, 3_000) is Verdict.NEW_RUN
    assert judge(cursor, 0, cursor.newest, 3_000) is Verdict.LATE
    assert judge(cursor, 1, cursor.newest, 3_000) is Verdict.LATE
    assert judge(cursor, 1, cursor.newest + 1, 3_000) is Verdict.WAIT
    fresh = started_over(cursor)
    assert (fresh.run, fresh.index, fresh.next) == (1, 3, 0)


def test_late_events_count_and_leave_the_order_alone() -> None:
    cursor = after(0, 1)
    late = passed_aside(cursor, cursor.newest - 1)
    assert late.index == cursor.index + 1
    assert (late.next, late.newest, late.peer_until) == (cursor.next, cursor.newest, cursor.peer_until)


@given(st.lists(st.integers(0, 2**53), max_size=5))
@pytest.mark.requirement("Y07")
def test_what_came_in_order_of_arrival_waits_for_nothing_and_leaves_the_counter_alone(counted: list[int]) -> None:
    cursor = after(*counted)
    assert judge_arrival(cursor, cursor.newest - 7, 7) is Verdict.RELEASE
    assert judge_arrival(cursor, cursor.newest - 8, 7) is Verdict.LATE
    beside = passed_aside(cursor, cursor.newest + 9)
    assert (beside.next, beside.peer_until, beside.last) == (cursor.next, cursor.peer_until, cursor.last)
    assert judge(beside, cursor.next, 0, 9_000) is Verdict.RELEASE


@pytest.mark.requirement("Y11")
def test_a_counter_starts_over_only_after_late_events_too() -> None:
    late = passed_aside(after(0, 1), 1_000_000)
    assert judge(late, 0, 1_000_000, 3_000) is Verdict.LATE
    assert judge(late, 0, 1_000_001, 3_000) is Verdict.NEW_RUN


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(-5, 5), st.text(max_size=3)), unique=True))
@pytest.mark.requirement("E-24", "E-25", "E-26")
def test_what_waits_stands_in_sequence_then_instant_then_id_order(entries: list[tuple[int, int, str]]) -> None:
    window = Window()
    for entry in entries:
        window.add(Waiting(*entry))
    assert window.all() == sorted(Waiting(*entry) for entry in entries)
    for entry in entries:
        window.remove(Waiting(*entry))
    assert len(window) == 0


def test_what_follows_is_the_next_or_a_tie() -> None:
    cursor = after(0, 1)
    assert follows(cursor, Waiting(2, 0, "a"))
    assert follows(cursor, Waiting(1, 0, "a"))
    assert not follows(cursor, Waiting(3, 0, "a"))
