"""What comes next: advised from what was done at the like place, whatever order it was learnt in."""

import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.advice.action_traces import ActionTrace, TracedAction
from hmx_pipeline.advice.next_command import CommandCounts, next_command


def course(number: int, verbs: Sequence[str], goal: str = "return", success: bool | None = True) -> ActionTrace:
    acts = tuple(TracedAction(verb, True, "") for verb in verbs)
    return ActionTrace(f"{number:04}", success, frozenset(goal.split()), acts)


def first(advised: Sequence[tuple[str, float]]) -> str:
    return advised[0][0]


def worded(number: int) -> ActionTrace:
    """Before a test it speaks of testing, before an edit of mending, in no order."""
    dice = random.Random(number)
    verbs = [dice.choice(["test", "edit"]) for _ in range(12)]
    said = {"test": ("run", "suit"), "edit": ("mend", "file")}
    acts = tuple(TracedAction(verb, True, "", said[verb]) for verb in verbs)
    return ActionTrace(f"{number:04}", None, frozenset(), acts)


def test_what_the_agent_says_decides_where_habits_do_not() -> None:
    habits = CommandCounts(map(worded, range(8)))
    for said, verb in ((("now", "suit"), "test"), (("now", "mend"), "edit")):
        assert first(next_command(habits, worded(99)._replace(said=said))) == verb


def test_what_was_asked_before_does_not_change_the_answer() -> None:
    """Other verbs stand in other courses, which whoever asks for looks up in vain."""
    known = [*map(worded, range(8)), *(course(20 + n, ["a", "b", "c"]) for n in range(3))]
    asked = [course(99, verbs)._replace(said=("unheard", "deploy")) for verbs in (["a"], ["x", "y"], ["a", "b"], [])]
    habits = CommandCounts(known)
    assert [next_command(habits, one) for one in asked * 2] == [
        next_command(CommandCounts(known), one) for one in asked * 2
    ]


def test_a_sessions_own_habits_come_in_as_it_grows() -> None:
    habits = CommandCounts(course(n, ["a", "b"] * 3) for n in range(3))
    assert first(next_command(habits, course(9, ["a"]))) == "b"
    shares = [dict(next_command(habits, course(9, ["a", "c"] * n + ["a"]))).get("c", 0.0) for n in range(6)]
    assert shares == sorted(set(shares))


_RUNS = st.lists(
    st.builds(course, st.integers(0, 9_999), st.lists(st.sampled_from("abc"), max_size=5)),
    max_size=8,
    unique_by=lambda made: made.session_id,
)


@given(_RUNS, st.lists(st.sampled_from("abc"), max_size=4), st.randoms(use_true_random=False))
def test_advice_does_not_depend_on_the_order_in_which_it_was_learnt(
    runs: list[ActionTrace], done: list[str], dice: random.Random
) -> None:
    mixed, now = dice.sample(runs, len(runs)), course(10_000, done)
    assert next_command(CommandCounts(mixed), now) == next_command(CommandCounts(runs), now)
    shares = [one.share for one in next_command(CommandCounts(runs), now)]
    assert not shares or abs(sum(shares) - 1) < 1e-3
