"""procedure: what is advised was really done, is least wrong on the whole, and rests on no order of arrival."""

import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from pipeline.advice.courses import Act, Course
from pipeline.advice.experience import Experience, variant_of
from pipeline.advice.procedure import agreement, procedure


def course(number: int, goal: str, verbs: Sequence[str], success: bool | None = True) -> Course:
    acts = tuple(Act(verb, True, "", -1, (), ()) for verb in verbs)
    return Course(f"{number:04}", "agent", success, frozenset(goal.split()), frozenset(), (), acts, len(acts))


_RUNS = st.lists(
    st.builds(
        course,
        st.integers(0, 9_999),
        st.lists(st.sampled_from(["return", "lamp", "cancel", "order"]), min_size=1).map(" ".join),
        st.lists(st.sampled_from("abcde"), max_size=6),
        st.sampled_from([True, False, None]),
    ),
    max_size=12,
    unique_by=lambda made: made.session_id,
)


@given(_RUNS, st.randoms(use_true_random=False))
def test_somebody_really_did_it_and_the_order_of_the_sessions_does_not_matter(
    runs: list[Course], dice: random.Random
) -> None:
    advised = procedure(Experience(runs), ["return", "lamp"], frozenset())
    assert advised in {(), *map(variant_of, runs)}
    assert procedure(Experience(dice.sample(runs, len(runs))), ["return", "lamp"], frozenset()) == advised


@given(_RUNS)
def test_a_goal_is_most_like_one_with_the_same_words(runs: list[Course]) -> None:
    known = Experience(runs)
    for place, run in enumerate(known.courses):
        likeness = known.likeness(run.goal, run.classes)
        assert all(0 <= value <= 2 for value in likeness)
        assert likeness[place] == max(likeness)


def test_each_wish_has_its_own_procedure() -> None:
    returns = [course(n, "return lamp", ["find", "look", "return"]) for n in range(5)]
    cancels = [course(10 + n, "cancel order", ["find", "cancel"]) for n in range(7)]
    known = Experience(returns + cancels)
    assert procedure(known, ["return", "chair"], frozenset()) == ("find", "look", "return")
    assert procedure(known, ["cancel", "it"], frozenset()) == ("find", "cancel")


def test_the_middle_of_what_was_done_beats_what_was_done_most_often() -> None:
    common = [course(n, "ship", ["x", "y"]) for n in range(2)]
    close = [course(10 + n, "ship", ["a", "b", "c", *extra]) for n, extra in enumerate(("d", "e", "f", ""))]
    assert procedure(Experience(common + close), ["ship"], frozenset()) == ("a", "b", "c")


def test_agreement_is_whole_for_the_same_and_nothing_for_strangers() -> None:
    assert agreement(("a", "b"), ("a", "b")) == 4.0
    assert agreement(("a", "b"), ("c", "d")) == 0.0
    assert agreement(("a", "b"), ("b", "a")) == agreement(("b", "a"), ("a", "b")) == 2.5
