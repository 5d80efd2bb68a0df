"""What differs from HMX-E §3 and §4 is noted and passes; the notes stand in the episode."""

import tracemalloc
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from hmx_pipeline.contracts.content import Message
from hmx_pipeline.contracts.event_types import EVENT_TYPES
from hmx_pipeline.contracts.limits import NOTES, REDACTED_PATH, REDACTED_PATHS
from hmx_pipeline.intake.decode import Accepted, decode
from hmx_pipeline.intake.deviations import notes
from hmx_pipeline.intake.json_paths import path_of
from tests.support.events import encoded, event
from tests.support.inprocess import run, sessions_fold, tick_record
from tests.support.records import event as recorded
from tests.support.records import log

RIGHT: dict[str, dict[str, Any]] = {
    "message": {"role": "user", "text": "", "attachments": [{"type": "image", "url": "x"}]},
    "tool_call": {"tool_name": "exec", "arguments": {"a": [1]}, "call_id": "1"},
    "tool_result": {"tool_name": "exec", "call_id": "1", "result": {}, "success": True, "duration_ms": 12},
    "decision": {
        "question": "which?", "chosen_option": "a", "alternatives": ["b"], "reasoning": "", "confidence": 0.5,
    },
    "error": {"error_type": "E", "message": "m", "stack": "", "recoverable": False},
    "feedback": {"signal": "correction", "target_event_id": "e", "comment": ""},
}  # fmt: skip
FORM = ("event_type: custom types have the form x-{vendor}-{type}",)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-1, 1) | st.just("canary"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "url", "x"]), inner),
    max_leaves=6,
)


def accepted(**fields: Any) -> Accepted:
    outcome = decode(encoded(event(**fields)))
    assert isinstance(outcome, Accepted)
    return outcome


@pytest.mark.requirement("E-21")
def test_the_six_schemas_are_the_specifications() -> None:
    assert {name for name, row in EVENT_TYPES.items() if row.content is not None} == RIGHT.keys()
    for name, content in RIGHT.items():
        model = EVENT_TYPES[name].content
        assert model is not None
        assert list(model.model_fields) == list(content)


@pytest.mark.requirement("E-21", "E-22")
@pytest.mark.parametrize("name", RIGHT)
def test_content_of_its_schema_has_no_note_and_further_fields_make_none(name: str) -> None:
    assert notes(name, RIGHT[name]) == ()
    assert notes(name, RIGHT[name] | {"other": {"nested": [None]}}) == ()


@pytest.mark.requirement("E-21")
@pytest.mark.parametrize(("name", "field"), [(name, field) for name, content in RIGHT.items() for field in content])
def test_what_is_missing_or_of_another_type_is_named(name: str, field: str) -> None:
    less = {key: value for key, value in RIGHT[name].items() if key != field}
    assert notes(name, less) == (f"content.{field}: missing",)
    for wrong in (None, [7], "canary" if not isinstance(RIGHT[name][field], str) else 7):
        (note,) = notes(name, RIGHT[name] | {field: wrong})[:1]
        assert note.startswith(f"content.{field}")
        assert "canary" not in note


@pytest.mark.requirement("E-21")
def test_notes_name_what_is_within_and_are_bounded() -> None:
    attachments = [{"type": "image"}, *[{"url": "x"}] * 40]
    found = notes("message", RIGHT["message"] | {"attachments": attachments})
    assert found[:2] == ("content.attachments[0].url: missing", "content.attachments[1].type: missing")
    assert len(found) == NOTES


@given(st.lists(st.sampled_from([{"type": "x", "url": "x"}, {"type": 1}, {"type": "x"}, 1]), max_size=60))
def test_notes_of_a_list_are_its_first_mistakes(attachments: list[Any]) -> None:
    content = RIGHT["message"] | {"attachments": attachments}
    with pytest.raises(ValidationError) if notes("message", content) else nullcontext() as raised:
        Message.model_validate(content)
    all_of_them = raised.value.errors() if raised else []
    places = ["content." + path_of(each["loc"])[2:] for each in all_of_them[:NOTES]]
    assert [note.partition(":")[0] for note in notes("message", content)] == places


@pytest.mark.parametrize(
    ("name", "field", "wrong"),
    [("message", "attachments", 1), ("message", "attachments", {}), ("decision", "alternatives", 1)],
)
def test_what_notes_hold_does_not_grow_with_how_many_items_are_wrong(name: str, field: str, wrong: Any) -> None:
    content = RIGHT[name] | {field: [wrong] * 250_000}
    tracemalloc.start()
    found = notes(name, content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found) == NOTES
    assert peak < 16 * 250_000, "an error takes 1,000 bytes"


@pytest.mark.requirement("E-18", "E-19", "E-21", "E-22")
@given(
    st.sampled_from([*EVENT_TYPES, "decision.made", "foo"]),
    st.dictionaries(st.sampled_from(sorted({field for content in RIGHT.values() for field in content})), ANY),
)
def test_whatever_the_content_it_passes_as_written_and_no_note_repeats_a_value(
    name: str, content: dict[str, Any]
) -> None:
    outcome = accepted(event_type=name, content=content)
    assert outcome.fields["content"] == content
    assert len(outcome.notes) <= NOTES
    assert not any("canary" in note for note in outcome.notes)


@pytest.mark.requirement("E-19", "E-20", "X01")
@pytest.mark.parametrize(
    ("name", "noted"),
    [
        ("x-acme-a_b", ()), ("x-acme-custom_signal", ()), ("x-acme-a-b.c", ()), ("observation", ()), ("test_run", ()),
        ("x-acme", FORM), ("x--y", FORM), ("x-acme-", FORM), ("X-acme-y", FORM), ("x-acme-y\n", FORM), ("foo", FORM),
        ("decision.made", FORM),
    ],
)  # fmt: skip
def test_the_form_of_custom_types_is_noted_where_it_is_not_kept(name: str, noted: tuple[str, ...]) -> None:
    assert accepted(event_type=name, content={"any": "shape"}).notes == noted


@pytest.mark.requirement("E-21", "X01", "Y09")
@pytest.mark.parametrize("sequence", [0, 7])
def test_notes_and_places_of_secrets_stand_in_the_episode_also_of_an_event_that_waited(sequence: int) -> None:
    sent = recorded(sequence=sequence, event_type="foo", content={"password": "hunter22"})
    result = run(sessions_fold, [*log([(0, sent)]), tick_record(6_000, offset=1)], cut=lambda _: 1, restores=True)
    (episode,) = result.episodes
    assert episode["metadata"]["hmx"]["notes"] == [*FORM]
    assert episode["metadata"]["hmx"]["redacted"] == ["$.content.password"]


def test_where_nothing_is_to_note_the_episode_says_nothing_of_it() -> None:
    (episode,) = run(sessions_fold, log([(0, recorded(content=RIGHT["message"]))])).episodes
    assert {"notes", "redacted"}.isdisjoint(episode["metadata"]["hmx"])


@pytest.mark.requirement("Y09")
def test_of_very_many_secrets_the_first_places_are_named_in_short() -> None:
    deep: Any = {"password": "hunter22"}
    for _ in range(20):
        deep = {"a" * 60: deep}
    outcome = accepted(content={"deep": deep, "all": [{"password": "hunter22"}] * 1_000})
    assert len(outcome.redacted) == REDACTED_PATHS
    assert len(outcome.redacted[0]) == REDACTED_PATH
    assert "hunter22" not in str(outcome.fields)
