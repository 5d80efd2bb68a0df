"""course: what was done in a segment, small, whoever says what; kept for advice, and never said to anyone."""

from itertools import cycle, islice, product

from hmx_pipeline.compiler.action_trace import ACTIONS, body_of
from hmx_pipeline.compiler.extract import contributions
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.limits import KB, STEP_FOUND, STEP_FOUND_CHARACTERS, STEP_TEXT
from hmx_pipeline.segments.pairing import actions
from tests.support.segments import Script


def shop() -> Script:
    made = Script("s")
    made.user("I want to return my order")
    made.agent("Let me look at it")
    made.tool("get_order", found=("status=delivered",))
    made.user("And the other one too")
    made.tool("return_order", ok=False, error="no such item", kind="NotFound")
    return made


def test_says_each_action_with_what_came_before_it_and_what_came_of_it() -> None:
    segment = shop().segment()
    body = body_of(segment, actions(segment))
    words = body["words"]

    def named(places: list[int]) -> list[str]:
        return [words[place] for place in places]

    assert named(body["goal"]) == ["return", "order", "one"]
    first, second = body["acts"]
    assert (words[first[0]], first[1]) == ("get_order", 1)
    assert named(first[4]) == ["status=delivered"]
    assert named(first[5]) == ["look"]
    assert (words[second[0]], second[1], words[second[2]], second[3]) == ("return_order", 0, "NotFound", 1)
    assert [named(asked) for asked in body["asked"]] == [["return", "order"], ["one"]]


def test_an_error_that_is_no_actions_has_its_place_among_the_actions() -> None:
    made = shop()
    said = made.agent("Two answers at once")
    made.add(Role.ERROR, name="FormatError", text="one answer, please", parent=said)
    made.tool("get_user")
    segment = made.segment()
    body = body_of(segment, actions(segment))
    assert [[at, body["words"][kind]] for at, kind in body["faults"]] == [[2, "FormatError"]]
    assert len(body["acts"]) == body["actions"] == 3


def test_stays_small_however_much_was_said_and_done() -> None:
    made = Script("s")
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ("".join(pair) + "o" * 20 for pair in cycle(product(letters, letters)))
    for _ in range(2 * ACTIONS):
        made.user(" ".join(islice(words, 30))[:STEP_TEXT])
        made.agent(" ".join(islice(words, 30))[:STEP_TEXT])
        found = tuple(word.ljust(STEP_FOUND_CHARACTERS, "=") for word in islice(words, STEP_FOUND))
        made.add(Role.ACTION, name="act_" + next(words), ok=True, found=found)
    (course,) = (c for c in contributions(made.segment()) if c.pattern_type == "course")
    assert len(course.to_json()) < 64 * KB
    assert len(course.body["acts"]) == ACTIONS
    assert course.body["actions"] == 2 * ACTIONS


def test_a_segment_without_a_goal_or_without_actions_says_nothing() -> None:
    silent = Script("s")
    silent.user("Good morning")
    acting = Script("s")
    acting.tool("get_order")
    for segment in (silent.segment(), acting.segment()):
        assert not any(c.pattern_type == "course" for c in contributions(segment))
