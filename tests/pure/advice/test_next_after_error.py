"""Advice after an error: what helped in like circumstances, whatever order the sessions came in."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.advice.action_traces import Recommendation, under_way
from hmx_pipeline.advice.next_after_error import AfterErrorCounts, RecoveryStep, advise, recoveries, steps_of
from hmx_pipeline.contracts.event_types import Role
from tests.support.segments import Script

READ, EDIT, TEST, PUSH = RecoveryStep("read"), RecoveryStep("edit"), RecoveryStep("run pytest"), RecoveryStep("push")
MISSING = RecoveryStep("edit", "not_read")
RED = RecoveryStep("run pytest", "red")

verbs = st.sampled_from(["read", "edit", "run pytest", "run git push", "push"])
courses = st.lists(
    st.lists(st.builds(RecoveryStep, verbs, st.none() | st.sampled_from(["", "red", "not_read"])), max_size=12),
    max_size=8,
)


def test_advises_what_followed_the_same_error_of_the_same_action() -> None:
    counts = AfterErrorCounts([[READ, MISSING, READ, EDIT, RED, EDIT, TEST, PUSH]] * 4)
    assert advise(counts, [READ, MISSING])[0].verb == "read"
    assert advise(counts, [READ, EDIT, RED])[0].verb == "edit"


def test_an_error_class_that_is_new_is_judged_by_what_is_known_of_errors() -> None:
    counts = AfterErrorCounts([[EDIT, RED, EDIT, TEST]] * 4 + [[PUSH, PUSH, PUSH]] * 4)
    assert advise(counts, [EDIT, RecoveryStep("run pytest", "timeout")])[0].verb == "edit"


def test_what_helped_in_this_session_weighs_more_than_what_helped_elsewhere() -> None:
    counts = AfterErrorCounts([[RED, EDIT]] * 2)
    assert advise(counts, [RED, READ, RED, READ, RED])[0].verb == "read"


def test_of_what_helped_as_often_the_more_usual_comes_first() -> None:
    counts = AfterErrorCounts([[RED, EDIT], [RED, READ]] * 4)
    assert advise(counts, [RED])[0].verb == "edit"
    assert advise(counts, [RED], [Recommendation("read", 0.6), Recommendation("edit", 0.1)])[0].verb == "read"


def test_says_nothing_where_nothing_failed_or_nothing_is_known() -> None:
    assert advise(AfterErrorCounts([[RED, EDIT]]), [READ, EDIT]) == []
    assert advise(AfterErrorCounts([]), [RecoveryStep("", "format")]) == []


def test_an_error_after_which_nothing_was_done_teaches_nothing() -> None:
    assert list(recoveries([RED, RED, EDIT, RED])) == [(RED, "run pytest"), (RED, "edit")]


@given(courses, st.randoms(use_true_random=False), courses.map(lambda all_: [d for one in all_ for d in one]))
def test_any_order_of_sessions_gives_the_same_advice_whose_shares_make_one(
    past: list[list[RecoveryStep]], dice: Random, now: list[RecoveryStep]
) -> None:
    mixed = sorted(past, key=lambda _: dice.random())
    advice = advise(AfterErrorCounts(past), [*now, RED])
    assert advice == advise(AfterErrorCounts(mixed), [*now, RED])
    assert abs(sum(one.share for one in advice) - 1) < 1e-4


def test_a_course_is_read_as_it_was_told() -> None:
    made = Script("s")
    made.user("Fix the login page")
    made.tool("read")
    said = made.agent("Two answers at once")
    made.add(Role.ERROR, name="FormatError", text="one answer, please", parent=said)
    made.tool("edit", ok=False, error="read it first", kind="not_read")
    assert steps_of(under_way(made.segment().steps)) == [READ, RecoveryStep("", "FormatError"), MISSING]
