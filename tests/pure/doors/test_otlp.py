"""OTLP bodies: protobuf and JSON say the same, no body breaks the reader, and what is no record is counted."""

from base64 import b64encode
from typing import Any

import orjson
import pytest
from google.protobuf.json_format import ParseDict
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from hmx_pipeline.doors import otlp
from hmx_pipeline.doors.otlp import Export, OtlpError, partial_success, read_logs, read_traces
from tests.support.spans import Json, export, log, span

scalars = (
    st.text() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=8
)
attributes = st.dictionaries(st.text(min_size=1), values, max_size=4)


def as_protobuf(export: Json, message: Any) -> bytes:
    """As the library writes it. Its JSON has ids in base64, which OTLP's has in hex."""

    def ids(value: Any) -> Any:
        if isinstance(value, list):
            return [ids(one) for one in value]
        if not isinstance(value, dict):
            return value
        return {n: _base64(v) if n in ("traceId", "spanId", "parentSpanId") else ids(v) for n, v in value.items()}

    written: bytes = ParseDict(ids(export), message).SerializeToString()
    return written


def _base64(digits: str) -> str:
    return b64encode(bytes.fromhex(digits)).decode()


@given(attributes, attributes, st.text(), st.booleans())
def test_protobuf_and_json_say_the_same(given: Json, resource: Json, status: str, failed: bool) -> None:
    event = {"name": "exception", "timeUnixNano": "1", "attributes": span(1, given)["attributes"]}
    spans = [span(1, given, "a", failed=status if failed else None, events=[event]), span(2, {}, "b", parent="a")]
    told = export(spans, resource)
    found = read_traces(as_protobuf(told, ExportTraceServiceRequest()), protobuf=True)
    assert found == read_traces(orjson.dumps(told), protobuf=False)
    assert len(found.records) == 2
    assert found.records[0].attributes == given
    assert (found.records[0].failed, found.records[0].resource) == (failed, resource)


@given(values, attributes)
def test_log_records_say_the_same_in_both_forms(body: Any, given: Json) -> None:
    told = export([log(1, "gen_ai.choice", body, given, of="a")], logs=True)
    found = read_logs(as_protobuf(told, ExportLogsServiceRequest()), protobuf=True)
    assert found == read_logs(orjson.dumps(told), protobuf=False)
    (record,) = found.records
    assert (record.name, record.body, record.attributes) == ("gen_ai.choice", body, given)


def read(body: bytes, protobuf: bool) -> Export | None:
    try:
        return read_traces(body, protobuf=protobuf)
    except OtlpError:
        return None


@given(st.binary(max_size=200), st.integers(0, 400), st.booleans())
def test_no_body_breaks_the_reader(noise: bytes, place: int, protobuf: bool) -> None:
    told = export([span(1, {"a": [1, {"b": "c"}]}, "a")])
    whole = as_protobuf(told, ExportTraceServiceRequest()) if protobuf else orjson.dumps(told)
    for body in (noise, whole[:place], whole[:place] + noise + whole[place:]):
        read(body, protobuf)


@given(st.recursive(st.none() | scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_no_json_breaks_the_reader(anything: Any) -> None:
    part = {"spans": [anything, {"attributes": anything, "events": anything, "endTimeUnixNano": anything}]}
    for body in (anything, {"resourceSpans": anything}, {"resourceSpans": [{"scopeSpans": [part, anything]}]}):
        read(orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS), protobuf=False)


def test_a_bad_span_is_named_and_loses_itself_alone() -> None:
    good = span(1, {}, "a")
    bad = [{**good, "traceId": "0" * 32}, {**good, "spanId": "abc"}, {**good, "endTimeUnixNano": "0"}, 7]
    found = read_traces(orjson.dumps(export([*bad, good])), protobuf=False)
    assert len(found.records) == 1
    assert found.refused == {"no traceId and spanId": 2, "no time of its end": 1, "no object": 1}


def test_everything_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "RECORDS", 2)
    monkeypatch.setattr(otlp, "ATTRIBUTES", 3)
    body = export([span(at, {f"a{n}": n for n in range(9)}) for at in range(5)])
    for protobuf, written in ((False, orjson.dumps(body)), (True, as_protobuf(body, ExportTraceServiceRequest()))):
        found = read_traces(written, protobuf=protobuf)
        assert (len(found.records), found.refused) == (2, {"beyond 2 of a request": 3})
        assert found.records[0].attributes == {"a0": 0, "a1": 1, "a2": 2}
    monkeypatch.setattr(otlp, "PARTS", 50)
    with pytest.raises(OtlpError, match="more than 50 fields"):
        read_traces(as_protobuf(body, ExportTraceServiceRequest()), protobuf=True)


def test_no_body_becomes_more_objects_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "PARTS", 100)
    inside = span(1, {"gen_ai.input.messages": "[" + "{}," * 100 + "{}]"})
    packed = as_protobuf(export([inside]), ExportTraceServiceRequest())
    for body, protobuf in ((b'{"a":[' + b"{}," * 100 + b"{}]}", False), (packed, True)):
        with pytest.raises(OtlpError, match="send fewer"):
            read_traces(body, protobuf=protobuf)


def test_values_too_deep_in_each_other_are_left_out_or_refused() -> None:
    value: Any = "end"
    for _ in range(40):
        value = [value]
    body = export([span(1, {"deep": value, "flat": 1})])
    (record,) = read_traces(orjson.dumps(body), protobuf=False).records
    assert record.attributes["flat"] == 1
    with pytest.raises(OtlpError, match="too deep"):
        read_traces(as_protobuf(body, ExportTraceServiceRequest()), protobuf=True)


@pytest.mark.parametrize(("refused", "why"), [(0, ""), (3, "no traceId and spanId (3)"), (0, "é" * 200), (70_000, "x")])
def test_the_answer_is_otlps(refused: int, why: str) -> None:
    answer = ExportTraceServiceResponse.FromString(partial_success(refused, why, "spans", protobuf=True))
    assert (answer.partial_success.rejected_spans, answer.partial_success.error_message) == (refused, why)
    assert answer.HasField("partial_success") is bool(refused or why)
    told = orjson.loads(partial_success(refused, why, "log_records", protobuf=False))
    expected = {"partialSuccess": {"rejectedLogRecords": str(refused), "errorMessage": why}} if refused or why else {}
    assert told == expected
