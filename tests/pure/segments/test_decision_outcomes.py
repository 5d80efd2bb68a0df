"""How a decision turned out: what says it most directly counts."""

import pytest

from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import SegmentOutcome
from hmx_pipeline.segments.decision_outcomes import Consequence, consequences
from tests.support.segments import Script

GOOD, BAD, OPEN = SegmentOutcome.SUCCESS, SegmentOutcome.FAILURE, SegmentOutcome.UNKNOWN


def turned(made: Script, at: str, until: str = "", outcome: SegmentOutcome = OPEN) -> Consequence:
    places = {step.event_id: place for place, step in enumerate(made.steps)}
    return consequences(made.steps, {places[at]: places.get(until, len(made.steps))}, outcome)[places[at]]


@pytest.fixture
def made() -> Script:
    script = Script("s")
    script.user("Speed up the report")
    return script


def test_feedback_on_the_decision_beats_everything_however_late(made: Script) -> None:
    at = made.decide("Which index?", "hash")
    made.add(Role.TEST, name="pytest", ok=False, parent=at)
    again = made.decide("Which index?", "tree")
    made.add(Role.FEEDBACK, name="positive", text="Lookups are fast now", target=at)
    assert turned(made, at, again, BAD)[:2] == (True, "Lookups are fast now")
    assert turned(made, again, outcome=BAD)[:2] == (False, "the work failed")


@pytest.mark.parametrize("link", ["parent", "correlation"])
def test_what_leads_back_to_the_decision_beats_what_stands_nearer(made: Script, link: str) -> None:
    at = made.decide("Which index?", "hash")
    made.add(Role.TEST, name="pytest other", ok=True)
    linked = at
    for _ in range(7):
        linked = made.add(Role.OBSERVATION, **{link: linked})
    made.add(Role.TEST, name="pytest", ok=False, **{link: linked})
    assert turned(made, at, outcome=GOOD)[:2] == (False, "run `pytest` failed")


def test_a_chain_longer_than_eight_links_leads_nowhere(made: Script) -> None:
    at = linked = made.decide("Which index?", "hash")
    for _ in range(8):
        linked = made.add(Role.OBSERVATION, parent=linked)
    made.add(Role.RESULT, name="measure", ok=True, parent=linked)
    assert turned(made, at).ok is None


def test_a_call_that_the_decision_led_to_brings_its_result(made: Script) -> None:
    at = made.decide("Which index?", "hash")
    made.add(Role.CALL, name="build", call_id="c", parent=at)
    result = made.add(Role.RESULT, name="build", ok=False, call_id="c")
    assert turned(made, at)[::2] == (False, result)


def test_of_linked_outcomes_the_last_test_beats_results(made: Script) -> None:
    at = made.decide("Which index?", "hash")
    made.add(Role.RESULT, name="build", ok=False, parent=at)
    made.add(Role.TEST, name="pytest", ok=False, parent=at)
    test = made.add(Role.TEST, name="pytest", ok=True, parent=at)
    made.add(Role.RESULT, name="tidy", ok=False, parent=at)
    assert turned(made, at)[::2] == (True, test)


def test_an_id_that_only_one_decision_bears_links_what_bears_it_too(made: Script) -> None:
    at = made.decide("Which index?", "hash", correlation="c-1")
    other = made.decide("Which page size?", "50", correlation="c-2")
    made.add(Role.RESULT, name="build", ok=False, correlation="c-1")
    made.add(Role.RESULT, name="build", ok=True, correlation="c-2")
    assert (turned(made, at).ok, turned(made, other).ok) == (False, True)


def test_else_the_first_outcome_before_the_next_decision_counts(made: Script) -> None:
    at = made.decide("Which index?", "hash")
    made.tool("read_plan")
    made.add(Role.ACTION, name="ls", ok=True)
    error = made.add(Role.ERROR, name="Timeout", text="the query took too long")
    made.add(Role.TEST, name="pytest", ok=True)
    again = made.decide("Which index?", "tree")
    test = made.add(Role.TEST, name="pytest", ok=True)
    assert turned(made, at, again) == (False, "Timeout: the query took too long", error)
    assert turned(made, again)[::2] == (True, test)


def test_feedback_on_what_came_before_says_nothing_about_the_decision(made: Script) -> None:
    before = made.tool("read_plan")
    at = made.decide("Which index?", "hash")
    made.add(Role.FEEDBACK, name="negative", target=before)
    assert turned(made, at).ok is None


def test_a_correction_says_that_the_choice_was_wrong(made: Script) -> None:
    at = made.decide("Which index?", "hash")
    made.add(Role.FEEDBACK, name="correction", text="No, a tree")
    assert turned(made, at)[:2] == (False, "No, a tree")


def test_without_any_outcome_it_went_as_the_segment_did(made: Script) -> None:
    at = made.decide("Which index?", "hash")
    made.tool("create_index")
    assert turned(made, at, outcome=GOOD) == (True, "the work succeeded", "")
    assert turned(made, at, outcome=OPEN) == (None, "", "")
