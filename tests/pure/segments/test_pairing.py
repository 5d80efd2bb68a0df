"""Calls find their results, errors find what failed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Segment, Step
from hmx_pipeline.segments.pairing import actions
from tests.support.segments import Script


def test_call_id_beats_position() -> None:
    script = Script("s")
    first = script.add(Role.CALL, name="get", call_id="1")
    second = script.add(Role.CALL, name="get", call_id="2")
    script.add(Role.RESULT, name="get", call_id="2", ok=False)
    script.add(Role.RESULT, name="get", call_id="1", ok=True)
    paired = {action.events[0]: action.ok for action in actions(script.segment())}
    assert paired == {first: True, second: False}


def test_without_call_id_the_oldest_open_call_of_the_tool_is_answered() -> None:
    script = Script("s")
    for name in ("get", "put", "get"):
        script.add(Role.CALL, name=name)
    for name, ok in (("get", False), ("put", True), ("get", True)):
        script.add(Role.RESULT, name=name, ok=ok)
    assert [(a.verb, a.ok) for a in actions(script.segment())] == [("get", False), ("put", True), ("get", True)]


def test_parent_names_the_call_where_no_call_id_does() -> None:
    script = Script("s")
    script.add(Role.CALL, name="get")
    second = script.add(Role.CALL, name="get")
    script.add(Role.RESULT, name="get", ok=True, parent=second)
    assert [a.ok for a in actions(script.segment())] == [None, True]


@pytest.mark.requirement("E-16")
def test_interleaved_calls_of_one_tool_pair_by_the_correlation_that_call_and_result_share() -> None:
    script = Script("s")
    first = script.add(Role.CALL, name="get", correlation="one")
    second = script.add(Role.CALL, name="get", correlation="two")
    script.add(Role.RESULT, name="get", ok=False, correlation="two")
    script.add(Role.RESULT, name="get", ok=True, correlation="one")
    paired = {action.events[0]: action.ok for action in actions(script.segment())}
    assert paired == {first: True, second: False}


def test_an_error_goes_to_the_action_it_names() -> None:
    script = Script("s")
    first = script.add(Role.ACTION, name="make build", ok=True)
    script.add(Role.ACTION, name="make test", ok=True)
    script.add(Role.ERROR, name="Broken", text="Error: it broke", parent=first)
    failed, fine = actions(script.segment())
    assert failed.ok is False
    assert failed.failure is not None
    assert (failed.failure.type, failed.failure.message) == ("Broken", "it broke")
    assert fine.ok is True


def test_an_error_that_names_nothing_goes_to_the_last_action() -> None:
    script = Script("s")
    script.add(Role.ACTION, name="make build", ok=True)
    script.add(Role.ACTION, name="make test", ok=True)
    script.add(Role.ERROR, name="Broken", text="it broke")
    assert [a.ok for a in actions(script.segment())] == [True, False]


def test_an_error_about_a_message_blames_no_action() -> None:
    script = Script("s")
    script.add(Role.ACTION, name="make build", ok=True)
    message = script.agent("two actions at once")
    script.add(Role.ERROR, name="FormatError", text="one action, please", parent=message)
    assert [(a.verb, a.ok) for a in actions(script.segment())] == [("run make build", True), ("", False)]


def test_asking_counts_once_answered() -> None:
    script = Script("s")
    script.tool("get")
    script.agent("Which one?")
    script.user("The red one")
    script.tool("put")
    script.agent("Shall I?")
    script.tool("put")
    assert [a.asked for a in actions(script.segment())] == [False, True, False]


STEPS = st.builds(
    Step,
    event_id=st.sampled_from("abcdefgh"),
    at=st.integers(0, 9),
    role=st.sampled_from(list(Role)),
    actor=st.sampled_from(["user", "assistant", ""]),
    name=st.text(max_size=8) | st.sampled_from(["get", "git commit -m x", "https://x.io/a/1"]),
    text=st.text(max_size=20),
    ok=st.none() | st.booleans(),
    call_id=st.sampled_from(["", "1", "2"]),
    parent=st.sampled_from(["", "a", "b", "z"]),
    correlation=st.sampled_from(["", "c", "z"]),
)


@given(st.lists(STEPS, max_size=40))
def test_every_doing_is_in_exactly_one_action(steps: list[Step]) -> None:
    steps = [
        Step(**{**{f: getattr(s, f) for f in s.__struct_fields__}, "event_id": str(i)}) for i, s in enumerate(steps)
    ]
    segment = Segment(tenant_id="t", session_id="s", agent_id="a", segment_id="0", steps=tuple(steps))
    doing = {Role.CALL, Role.RESULT, Role.ACTION, Role.TEST, Role.ERROR}
    told = [event for action in actions(segment) for event in action.events]
    assert sorted(told) == sorted(s.event_id for s in steps if s.role in doing)
