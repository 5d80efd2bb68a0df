"""Dead letters by reason: counted, the newest as an example, values only where they are asked for."""

from dataclasses import replace

from hmx_pipeline.audit.dead_letter_report import EXCERPT, by_reason
from hmx_pipeline.contracts.rejections import Reason
from hmx_pipeline.topology import EVENTS_DLQ
from tests.support.conserved import everything, staged
from tests.support.records import LogRecord, log

SECRET = b"hunter2 " * 100


def letters(*values: bytes | None) -> list[LogRecord]:
    return staged(log(list(enumerate(values)))).letters


def test_reasons_are_counted_the_most_frequent_first() -> None:
    found = by_reason(EVENTS_DLQ, letters(b"a", None, b"b", b"[]"))
    assert [(each.reason, each.count) for each in found] == [("not_json", 2), ("null_value", 1), ("not_an_object", 1)]
    assert all(each.advice == Reason(each.reason).advice for each in found)


def test_the_example_is_the_newest_and_names_its_origin() -> None:
    (found,) = by_reason(EVENTS_DLQ, reversed(letters(b"a", b"b")))
    assert (found.example.value, found.example.origin, found.example.offset) == (b"b", "0:1", 1)


def test_every_letter_of_the_stage_has_its_path_and_step() -> None:
    found = {each.reason: each for each in by_reason(EVENTS_DLQ, everything().letters)}
    assert set(found) == {"not_json", "event_id_reused", "null_value", "reserved"}
    assert found["event_id_reused"].advice == "give it a new event_id"
    assert found["reserved"].advice == "choose another tenant_id and event_type"
    assert (found["event_id_reused"].step, found["event_id_reused"].example.path) == ("order", "$.event_id")


def test_values_are_left_out_unless_asked_for_and_cut_then() -> None:
    (found,) = by_reason(EVENTS_DLQ, letters(SECRET))
    assert "hunter2" not in str(found.as_json(with_values=False))
    assert found.as_json(with_values=True)["example"]["value"] == SECRET[:EXCERPT].decode()
    assert found.as_json(with_values=False)["example"]["size"] == len(SECRET)


def test_what_is_no_text_and_what_nobody_explains_is_shown_all_the_same() -> None:
    (letter,) = letters(b"\xff\x00")
    (found,) = by_reason(EVENTS_DLQ, [replace(letter, key=b"\xfe", headers=[])])
    assert (found.reason, found.step, found.advice) == ("unknown", "unknown", "")
    assert found.as_json(with_values=True)["example"]["key"] == "\\xfe"
