"""Feedback beats tests, tests beat exit codes, and silence is no verdict."""

import pytest

from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import SegmentOutcome
from hmx_pipeline.segments.outcome import outcome_of
from hmx_pipeline.segments.pairing import actions
from tests.support.segments import Script

SUCCESS, FAILURE, UNKNOWN = SegmentOutcome.SUCCESS, SegmentOutcome.FAILURE, SegmentOutcome.UNKNOWN


def outcome(script: Script) -> SegmentOutcome:
    segment = script.segment()
    return outcome_of(segment, actions(segment))


def test_nothing_said_is_unknown() -> None:
    script = Script("s")
    script.user("Hello")
    script.add(Role.CALL, name="get")
    assert outcome(script) is UNKNOWN


@pytest.mark.parametrize(("signal", "expected"), [("positive", SUCCESS), ("negative", FAILURE)])
def test_feedback_beats_tests_and_results(signal: str, expected: SegmentOutcome) -> None:
    script = Script("s")
    script.add(Role.TEST, name="pytest", ok=signal == "negative")
    script.tool("deploy", ok=signal == "negative")
    script.feedback(signal)
    assert outcome(script) is expected


def test_the_last_test_beats_later_results() -> None:
    script = Script("s")
    script.add(Role.TEST, name="pytest", ok=False)
    script.add(Role.TEST, name="pytest", ok=True)
    script.tool("notify", ok=False)
    assert outcome(script) is SUCCESS


def test_an_unrecovered_error_is_a_failure_and_a_recovered_one_is_not() -> None:
    script = Script("s")
    script.add(Role.CALL, name="get")
    script.add(Role.ERROR, name="Timeout", text="timed out")
    assert outcome(script) is FAILURE
    script.tool("get")
    assert outcome(script) is SUCCESS


def test_a_correction_is_no_verdict_on_the_whole() -> None:
    script = Script("s")
    script.tool("edit")
    script.feedback("correction")
    assert outcome(script) is SUCCESS


def test_a_rejection_that_the_agent_acted_upon_is_about_what_came_before() -> None:
    script = Script("s")
    script.tool("edit")
    script.feedback("negative")
    script.tool("edit")
    assert outcome(script) is SUCCESS
