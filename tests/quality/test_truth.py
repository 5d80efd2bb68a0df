"""What is hidden in a small planted world is found, through both stages; and a world is the same each time."""

import pytest

from tests.quality.planted import permuted, world
from tests.quality.sessions import Sessions
from tests.quality.truth import Size, task

SMALL = Size(seeds=[2], noise=[0.25], sessions=20, procedures=2)


@pytest.mark.requirement("A-09", "A-13", "A-14")
def test_what_is_hidden_in_a_small_world_is_found() -> None:
    found = {figure.metric: figure.value for figure in task(Sessions(), SMALL)}
    assert found["F1 of steps"] >= 0.95
    assert found["F1 of order"] >= 0.95
    assert found["counts and rates exact"] == 1.0
    assert found["better option first"] == 1.0
    assert found["flipped outcomes flip the advice"] == 1.0


def test_a_world_is_the_same_each_time() -> None:
    assert world(1, 0.25, 4, 2).events() == world(1, 0.25, 4, 2).events()
    assert world(1, 0.25, 4, 2).events() != world(2, 0.25, 4, 2).events()


def test_a_permuted_world_holds_the_same_moves_and_outcomes() -> None:
    made = world(1, 0.25, 4, 2)
    other = permuted(made, 5)
    assert made.sessions != other.sessions
    for kind in ("tool", "test", "feedback", "state", "decide"):
        one, two = ([move for _, moves in w.sessions for move in moves if move.kind == kind] for w in (made, other))
        assert sorted(move.name for move in one) == sorted(move.name for move in two)
        assert sorted((move.ok, move.error) for move in one) == sorted((move.ok, move.error) for move in two)
