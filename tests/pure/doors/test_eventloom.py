"""Eventloom logs: what is imported can be written again byte for byte, and what was altered is named."""

import hashlib
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.rejections import Rejection
from hmx_pipeline.doors.eventloom import EventloomImport, is_of_a_log, line_of
from hmx_pipeline.intake.decode import decode
from tests.support.data import FOLDER

Json = dict[str, Any]
SAMPLES = FOLDER / "formats"
PAYLOADS = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**70), 2**70)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=5,
    ),
    max_size=4,
)  # fmt: skip


def sealed(record: Json, *, ascii_: bool = True) -> str:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=ascii_)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def chain(payloads: list[Json], *, ascii_: bool = True) -> list[bytes]:
    """Lines of both envelopes in turn, as Eventloom writes them."""
    lines, previous = [], None
    for n, payload in enumerate(payloads, 1):
        at = f"2026-06-05T02:50:{n % 60:02d}.614376Z"
        if n % 2:
            event = {"id": f"evt-{n}", "type": "goal.created", "actorId": "ann", "threadId": "main",
                     "parentEventId": f"evt-{n - 2}" if n > 2 else None, "causedBy": ["x"] if n > 2 else [],
                     "timestamp": at, "payload": payload}  # fmt: skip
            before = f"sha256:{previous}" if previous else None
            previous = sealed({"event": event, "previousHash": before}, ascii_=ascii_)
            record = event | {"integrity": {"hash": f"sha256:{previous}", "previousHash": before}}
        else:
            security = {"sensitivity": "public", "redacted_paths": []}
            record = {"seq": n, "timestamp": at, "type": "state.changed", "actor": "bot", "thread": "main",
                      "payload": payload, "security": security, "prev_hash": previous}  # fmt: skip
            previous = sealed(record, ascii_=ascii_)
            record["hash"] = previous
        lines.append(json.dumps(record, separators=(",", ":"), ensure_ascii=ascii_).encode(errors="surrogatepass"))
    return lines


def imported(lines: list[bytes], name: str = "log.jsonl") -> tuple[list[bytes], EventloomImport]:
    importing = EventloomImport("acme")
    return [orjson.dumps(one) for one in importing.events((name, line) for line in lines)], importing


@given(st.lists(PAYLOADS, min_size=1, max_size=5), st.booleans())
def test_a_log_comes_back_byte_for_byte_through_intake(payloads: list[Json], ascii_: bool) -> None:
    lines = chain(payloads, ascii_=ascii_)
    events, importing = imported(lines)
    assert not importing.report.unreadable
    accepted = [decode(event) for event in events]
    assert not [one for one in accepted if isinstance(one, Rejection)]
    assert [line_of(orjson.loads(event)) for event in events] == lines
    assert [json.loads(event)["sequence"] for event in events] == list(range(len(lines)))
    assert imported(lines)[0] == events, "imported again, it is a duplicate"


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="needs samples of other people's logs")
@pytest.mark.parametrize("name", ["eventloom_ts_sample.jsonl", "zaxy_eventloom_sample.jsonl"])
def test_logs_of_others_are_whole(name: str) -> None:
    lines = (SAMPLES / name).read_bytes().splitlines()
    events, importing = imported(lines, name)
    assert not importing.report.unreadable
    assert [line_of(orjson.loads(event)) for event in events] == lines
    assert all("line" not in json.loads(event)["metadata"]["zaxy"] for event in events)


def test_what_a_line_says_stands_where_events_have_it() -> None:
    event = json.loads(imported(chain([{"title": "a"}, {"b": 1.0}, {"title": "c"}]))[0][2])
    assert event["event_type"] == "x-zaxy-goal.created"
    assert (event["event_id"], event["parent_event_id"], event["agent_id"]) == ("evt-3", "evt-1", "ann")
    assert event["session_id"] == "log"
    assert event["provenance_ref"] == f"eventloom://log/events/3#{event['metadata']['zaxy']['hash']}"


def test_a_line_that_was_altered_is_named_and_left_out() -> None:
    lines = chain([{"a": 1}, {"a": 2}, {"a": 3}])
    lines[1] = lines[1].replace(b'"a":2', b'"a":7')
    events, importing = imported(lines)
    assert [json.loads(event)["event_id"] for event in events] == ["evt-1", "evt-3"]
    assert importing.report.unreadable == ["log.jsonl:2: it was altered: its hash differs"]
    assert all(is_of_a_log(json.loads(event)) for event in events)


def test_a_line_that_is_missing_is_named_and_the_rest_imported() -> None:
    lines = chain([{"a": 1}, {"a": 2}, {"a": 3}])
    events, importing = imported([lines[0], lines[2]])
    assert len(events) == 2
    (told,) = importing.report.noted
    assert told.startswith("log.jsonl:2: it does not follow")
    assert not importing.report.unreadable
    assert not +importing.report.left_out


@pytest.mark.parametrize(
    "line",
    [b"{", b"[]", b'{"seq":1}', b"\xff", b"[" * 100_000,
     b'{"id":1,"type":1,"actorId":"","threadId":"","timestamp":"","payload":{},"integrity":{}}',
     b'{"id":"a","type":"b","actorId":"c","threadId":"","timestamp":"never","payload":{},"integrity":{"hash":"x"}}',
     b'{"id":"a","type":"b","actorId":"c","threadId":"","timestamp":"2026-06-05T02:50:00Z","payload":[],"integrity":[]}'],
)  # fmt: skip
def test_what_is_no_line_of_a_log_is_named(line: bytes) -> None:
    good = chain([{"a": 1}, {"a": 2}])
    events, importing = imported([good[0], line, good[1]])
    assert len(events) == 2
    assert len(importing.report.unreadable) == 1


def test_two_files_of_one_name_are_two_sessions() -> None:
    importing = EventloomImport("acme")
    lines = [(name, line) for name in ("a/log.jsonl", "b/log.jsonl") for line in chain([{}])]
    assert [event["session_id"] for event in importing.events(lines)] == ["log", "log-2"]


def test_a_line_that_cannot_be_written_is_named_and_loses_itself_alone() -> None:
    deep: Json = {}
    for _ in range(400):
        deep = {"a": deep}
    (_, legacy) = map(json.loads, chain([{}, {}]))
    del legacy["hash"]
    legacy["seq"] = 10**30
    counted = json.dumps(legacy | {"hash": sealed(legacy)}).encode()
    lines = [*chain([{}, deep]), counted, *chain([{}])]
    importing = EventloomImport("acme")
    assert len(list(importing.events((f"{n}.jsonl", line) for n, line in enumerate(lines)))) == 2
    assert [told for told in importing.report.unreadable if "too deep" in told] == [
        f"{n}.jsonl:1: it is too deep, or its seq has more than 64 bits" for n in (1, 2)
    ]
