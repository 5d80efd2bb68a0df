"""A step says what its event says, in any dialect, and no more than it may hold."""

from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.event_types import EVENT_TYPES, Role
from hmx_pipeline.contracts.evidence import Step
from hmx_pipeline.contracts.limits import STEP_TAGS, STEP_TEXT, STEP_VALUE, STEP_VALUES, TAG
from hmx_pipeline.intake.steps import step_of
from tests.support.events import event

VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
)
PLACES = sorted(
    {
        place.split(".")[0]
        for row in EVENT_TYPES.values()
        for places in (row.name, row.text, row.arguments, row.ok, row.exit_code, row.call_id, row.target, row.actor)
        for place in places
    }
)


def step(event_type: str, content: dict[str, Any], **fields: Any) -> Step:
    return step_of(event(event_type=event_type, content=content, **fields), 7, 3)


@given(st.sampled_from([*EVENT_TYPES, "unknown", "memory.corrected"]), st.dictionaries(st.sampled_from(PLACES), VALUE))
def test_any_content_gives_a_bounded_step(event_type: str, content: dict[str, Any]) -> None:
    made = step(event_type, content)
    assert max(map(len, (made.text, made.name, made.actor, made.call_id, made.target))) <= STEP_TEXT
    assert len(made.values) <= STEP_VALUES
    assert all(0 < len(value) <= STEP_VALUE for value in made.values)
    assert made == step(event_type, content)


def test_a_long_text_keeps_its_beginning() -> None:
    assert step("message", {"text": "ab" * STEP_TEXT}).text == ("ab" * STEP_TEXT)[:STEP_TEXT]


@pytest.mark.parametrize(
    ("told", "own"),
    [
        ("[hmx] Deploy\n1. build\n2. apply\n\nNow deploy search", "Now deploy search"),
        ("Context:\n[hmx] one\n \t\n[hmx] two\n\nWhat next?", "Context:\nWhat next?"),
        ("As memory says: [hmx] Deploy\n1. build", "As memory says:"),
        ("[hmx] " + "x" * 2 * STEP_TEXT + "\n\nWhat next?", "What next?"),
        ("nothing [of] the hmx kind", "nothing [of] the hmx kind"),
    ],
)
def test_what_a_pack_has_said_is_no_text_of_the_event(told: str, own: str) -> None:
    assert step("message", {"role": "user", "text": told}).text == own
    assert step("message", {"role": "user", "text": told}).text == step("message", {"content": told}).text


def test_a_pack_as_a_tool_has_returned_it_says_nothing() -> None:
    entries = [{"section": "procedures", "content": "[hmx] Deploy\n1. build"}]
    made = step("tool_result", {"tool_name": "recall", "result": {"entries": entries, "query_context": "deploy"}})
    assert "Deploy" not in made.text
    assert "Deploy" not in step("tool_result", {"result": orjson.dumps({"entries": entries}).decode()}).text


@pytest.mark.requirement("E-17")
def test_the_first_tags_come_along_once_each_but_for_those_too_long() -> None:
    tags = [f"t{n}" for n in range(STEP_TAGS + 1)]
    assert step("message", {}, tags=["x" * TAG, "x" * (TAG + 1), "é", "é"]).tags == ("x" * TAG, "é")
    assert step("message", {}, tags=tags).tags == tuple(tags[:STEP_TAGS])
    assert step("message", {}).tags == ()


def test_the_events_references_come_along() -> None:
    made = step("tool_call", {"call_id": "c"}, parent_event_id="p", correlation_id="q")
    assert (made.event_id, made.at, made.index, made.call_id, made.parent, made.correlation) == (
        "e-1",
        7,
        3,
        "c",
        "p",
        "q",
    )


@pytest.mark.requirement("O-03", "X08")
@pytest.mark.parametrize(
    "content",
    [
        {"tool_name": "deploy", "arguments": {"service": "api", "retries": 3, "dry": True}},
        {"tool_name": "deploy", "input": '{"service": "api", "retries": 3, "dry": true}'},
        {"tool": "deploy", "args": {"retries": 3, "service": "api"}},
        {"name": "deploy", "args": [3, ["api"]]},
    ],
)
def test_all_dialects_of_a_call_give_the_same_step(content: dict[str, Any]) -> None:
    made = step("tool_call", content)
    assert (made.role, made.name, made.values) == (Role.CALL, "deploy", ("3", "api"))


@pytest.mark.requirement("O-03", "X08")
@pytest.mark.parametrize("content", [{"role": "user", "text": "hi"}, {"role": "user", "content": "hi"}])
def test_both_dialects_of_a_message_give_the_same_step(content: dict[str, Any]) -> None:
    made = step("message", content)
    assert (made.role, made.actor, made.text) == (Role.MESSAGE, "user", "hi")


@pytest.mark.requirement("O-03", "X08")
@pytest.mark.parametrize(
    "content", [{"result": {"text": "x"}}, {"result": "x"}, {"output": "x"}, {"result": None, "output": "x"}]
)
def test_all_dialects_of_a_result_give_the_same_step(content: dict[str, Any]) -> None:
    assert step("tool_result", {"tool_name": "t", **content}).text == "x"


def test_a_result_that_is_an_object_is_shown_as_compact_json() -> None:
    assert step("tool_result", {"result": {"b": [1], "a": "é"}}).text == '{"a":"é","b":[1]}'


@pytest.mark.parametrize("text", ["[not json", "{", "plain"])
def test_arguments_that_are_no_json_are_one_value(text: str) -> None:
    assert step("tool_call", {"input": text}).values == (text,)


def test_values_are_the_same_whatever_the_order_of_keys() -> None:
    one, other = {"a": 1, "b": {"c": "x", "d": "y"}}, {"b": {"d": "y", "c": "x"}, "a": 1}
    assert (
        step("tool_call", {"arguments": one}).values
        == step("tool_call", {"arguments": other}).values
        == ("1", "x", "y")
    )


@pytest.mark.parametrize(
    ("content", "ok"),
    [
        ({"success": True}, True),
        ({"success": False, "exit_code": 0}, False),
        ({"exit_code": 0}, True),
        ({"exit_code": 1}, False),
        ({"exit_code": 0.0}, True),
        ({"exit_code": False}, None),
        ({"passed": 22}, None),
        ({"passed": True}, True),
        ({"passed": 22, "exit_code": 1}, False),
        ({"success": "yes"}, None),
        ({}, None),
    ],
)
def test_success_is_what_the_event_says_or_its_exit_code(content: dict[str, Any], ok: bool | None) -> None:
    assert step("test_run", content).ok is ok


@pytest.mark.parametrize(
    "name", ["memory.feedback", "metacognition.unknown.recorded", "skill.proposed", "skill.contradicted"]
)
def test_audit_records_say_nothing_to_learn_from(name: str) -> None:
    made = step(name, {"text": "x", "success": True, "tool_name": "t"})
    assert msgspec.structs.replace(made, projected=None, teller="") == Step("e-1", 7, Role.OBSERVATION, 3)
    assert made.projected is None or made.projected.says == ()


def test_an_unknown_type_is_an_observation_with_its_text() -> None:
    made = step("release.published", {"summary": "x"})
    assert (made.role, made.text) == (Role.OBSERVATION, "x")


def test_a_structured_result_says_in_words_what_stands_far_out_first() -> None:
    result = {
        "id": "W1",
        "items": [{"name": "lamp", "size": 3}],
        "paid": True,
        "status": "pending",
        "at": {"city": "Ulm"},
    }
    seen = step("tool_result", {"tool_name": "get_order", "success": True, "result": result})
    assert seen.found == ("paid=true", "status=pending", "city=Ulm", "name=lamp")
    assert step("tool_result", {"tool_name": "get_order", "result": "status=pending"}).found == ()


def test_a_structured_result_lists_the_ids_of_its_first_list() -> None:
    result = {"names": ["Ann", "Bo"], "orders": ["#W1", "#W2"], "deeper": {"parts": ["p-1"]}}
    assert step("tool_result", {"tool_name": "get_user", "result": result}).listed == ("#W1", "#W2")
