"""OTLP: an export of traces or logs, as protobuf or JSON, becomes spans and log records.

Enters: a body. Leaves: records with their attributes as plain values; what is no record is counted by its reason. The
protobuf is read here rather than by a library, so that no small body can become much memory. Raises OtlpError.
"""

import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson

from hmx_pipeline.doors.draft import object_of, text_of

RECORDS: Final = 10_000
"""Spans or log records of a request; those beyond are refused."""
ATTRIBUTES: Final = 2_048
"""Of a record, the first."""
PARTS: Final = 1_000_000
"""Fields in a protobuf body; objects and lists in a body, and in the texts of its attributes."""
DEPTH: Final = 32
"""Messages, or values, in each other."""
MOST: Final = 1 << 63
"""Integers of OTLP are below it."""
FIRST_NS: Final = 1_577_836_800_000_000_000
LAST_NS: Final = 3_776_000_000_000_000_000
"""2020 and 2089: times that a sequence can be made of."""

Json = dict[str, Any]


class OtlpError(Exception):
    """The body is no export; the message is for its sender."""


class SpanEvent(NamedTuple):
    name: str
    attributes: Json


class OtelRecord(NamedTuple):
    """A span, or a log record. A log record ends when it begins, and has a body."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start_ns: int
    end_ns: int
    attributes: Json
    resource: Json
    scope: str
    failed: bool = False
    status: str = ""
    events: tuple[SpanEvent, ...] = ()
    body: Any = None


@dataclass
class Export:
    records: list[OtelRecord] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    """Why → records that are none."""


def read_traces(body: bytes, *, protobuf: bool) -> Export:
    return _read(_parsed(body, "Traces", protobuf), "resourceSpans", "scopeSpans", "spans")


def read_logs(body: bytes, *, protobuf: bool) -> Export:
    return _read(_parsed(body, "Logs", protobuf), "resourceLogs", "scopeLogs", "logRecords")


def partial_success(refused: int, why: str, unit: str, *, protobuf: bool) -> bytes:
    """Return the body of an answer; `unit` is `spans` or `log_records`."""
    if not protobuf:
        said = {f"rejected{unit.title().replace('_', '')}": str(refused), "errorMessage": why}
        return orjson.dumps({"partialSuccess": said} if refused or why else {})
    text = why.encode()
    inner = (b"\x08" + _varint(refused) if refused else b"") + (b"\x12" + _varint(len(text)) + text if text else b"")
    return b"\x0a" + _varint(len(inner)) + inner if inner else b""


def _parsed(body: bytes, kind: str, protobuf: bool) -> Json:
    if body.count(b"{") + body.count(b"[") > PARTS:
        raise OtlpError(f"more than {PARTS} objects and lists: send fewer spans at a time")
    return _message(body, kind) if protobuf else _json(body)


def _read(export: Json, resources: str, scopes: str, records: str) -> Export:
    found = Export()
    for group in _objects(export.get(resources)):
        resource = _attributes(object_of(group.get("resource")).get("attributes"))
        for scoped in _objects(group.get(scopes)):
            name = text_of(object_of(scoped.get("scope")).get("name"))
            listed = scoped.get(records)
            for one in listed if isinstance(listed, list) else ():
                if len(found.records) >= RECORDS:
                    found.refused[f"beyond {RECORDS} of a request"] += 1
                    continue
                spans = records == "spans"
                record = _record(one, resource, name, span=spans) if isinstance(one, dict) else "no object"
                if isinstance(record, str):
                    found.refused[record] += 1
                else:
                    found.records.append(record)
    return found


def _record(one: Json, resource: Json, scope: str, *, span: bool) -> OtelRecord | str:
    """Return the record, or why it is none."""
    times = ("endTimeUnixNano",) if span else ("timeUnixNano", "observedTimeUnixNano")
    end = next((at for at in map(_integer, map(one.get, times)) if at), 0)
    trace, name = text_of(one.get("traceId")).lower(), text_of(one.get("spanId")).lower()
    if span and not (_hex(trace, 32) and _hex(name, 16)):
        return "no traceId and spanId"
    if not FIRST_NS <= end < LAST_NS:
        return "no time of its end" if span else "no time"
    start = _integer(one.get("startTimeUnixNano"))
    status = object_of(one.get("status"))
    return OtelRecord(
        trace_id=trace,
        span_id=name,
        parent_id=text_of(one.get("parentSpanId")).lower(),
        name=text_of(one.get("name") or one.get("eventName")),
        start_ns=start if FIRST_NS <= start <= end else end,
        end_ns=end,
        attributes=_attributes(one.get("attributes")),
        resource=resource,
        scope=scope,
        failed=status.get("code") in (2, "2", "STATUS_CODE_ERROR"),
        status=text_of(status.get("message")),
        events=tuple(
            SpanEvent(text_of(event.get("name")), _attributes(event.get("attributes")))
            for event in _objects(one.get("events"))[:ATTRIBUTES]
        ),
        body=_value(one.get("body")),
    )


def _attributes(listed: Any) -> Json:
    pairs = _objects(listed)[:ATTRIBUTES]
    return {pair["key"]: _value(pair.get("value")) for pair in pairs if isinstance(pair.get("key"), str)}


def _value(given: Any, depth: int = 0) -> Any:
    """Return an AnyValue as a plain value; None if it is none, or too deep."""
    if not isinstance(given, dict) or depth > DEPTH:
        return None
    for kind, value in given.items():
        match kind:
            case "intValue":
                return _integer(value)
            case "arrayValue":
                return [_value(one, depth + 1) for one in _objects(object_of(value).get("values"))]
            case "kvlistValue":
                pairs = _objects(object_of(value).get("values"))
                return {text_of(pair.get("key")): _value(pair.get("value"), depth + 1) for pair in pairs}
            case "stringValue" | "boolValue" | "doubleValue":
                return value if isinstance(value, str | bool | float | int) else None
    return None


def _objects(value: Any) -> list[Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _integer(value: Any) -> int:
    """Return an integer, which JSON may write as text; 0 if it is none, or too large."""
    if isinstance(value, str) and len(value) <= 20 and value.removeprefix("-").isdecimal():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and -MOST <= value < MOST else 0


def _hex(text: str, digits: int) -> bool:
    return len(text) == digits and set(text) <= set("0123456789abcdef") and text.strip("0") != ""


def _json(body: bytes) -> Json:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise OtlpError(f"no JSON: {error}") from None
    if not isinstance(found, dict):
        raise OtlpError("no JSON object")
    return found


# protobuf


class _WireField(NamedTuple):
    name: str
    kind: str
    """A message of _MESSAGES, or a scalar."""
    repeated: bool = False


def _many(name: str, kind: str) -> _WireField:
    return _WireField(name, kind, repeated=True)


_ATTRIBUTES: Final = _many("attributes", "KeyValue")
_MESSAGES: Final[Mapping[str, Mapping[int, _WireField]]] = {
    "Traces": {1: _many("resourceSpans", "ResourceSpans")},
    "ResourceSpans": {1: _WireField("resource", "Resource"), 2: _many("scopeSpans", "ScopeSpans")},
    "Resource": {1: _ATTRIBUTES},
    "ScopeSpans": {1: _WireField("scope", "Scope"), 2: _many("spans", "Span")},
    "Scope": {1: _WireField("name", "text")},
    "Span": {
        1: _WireField("traceId", "hex"),
        2: _WireField("spanId", "hex"),
        4: _WireField("parentSpanId", "hex"),
        5: _WireField("name", "text"),
        7: _WireField("startTimeUnixNano", "fixed64"),
        8: _WireField("endTimeUnixNano", "fixed64"),
        9: _ATTRIBUTES,
        11: _many("events", "SpanEvent"),
        15: _WireField("status", "Status"),
    },
    "SpanEvent": {2: _WireField("name", "text"), 3: _ATTRIBUTES},
    "Status": {2: _WireField("message", "text"), 3: _WireField("code", "integer")},
    "Logs": {1: _many("resourceLogs", "ResourceLogs")},
    "ResourceLogs": {1: _WireField("resource", "Resource"), 2: _many("scopeLogs", "ScopeLogs")},
    "ScopeLogs": {1: _WireField("scope", "Scope"), 2: _many("logRecords", "LogRecord")},
    "LogRecord": {
        1: _WireField("timeUnixNano", "fixed64"),
        5: _WireField("body", "AnyValue"),
        6: _ATTRIBUTES,
        9: _WireField("traceId", "hex"),
        10: _WireField("spanId", "hex"),
        11: _WireField("observedTimeUnixNano", "fixed64"),
        12: _WireField("eventName", "text"),
    },
    "KeyValue": {1: _WireField("key", "text"), 2: _WireField("value", "AnyValue")},
    "AnyValue": {
        1: _WireField("stringValue", "text"),
        2: _WireField("boolValue", "truth"),
        3: _WireField("intValue", "integer"),
        4: _WireField("doubleValue", "double"),
        5: _WireField("arrayValue", "Values"),
        6: _WireField("kvlistValue", "Pairs"),
    },
    "Values": {1: _many("values", "AnyValue")},
    "Pairs": {1: _many("values", "KeyValue")},
}
"""Field numbers of opentelemetry-proto, of what is read; other fields are passed over."""
_WIRE: Final = {"integer": 0, "truth": 0, "fixed64": 1, "double": 1}


def _message(body: bytes, kind: str) -> Json:
    try:
        return _Wire(body).message(kind, 0, len(body), 0)
    except (IndexError, struct.error, ValueError) as error:
        raise OtlpError(f"no OTLP protobuf: {error}") from None


class _Wire:
    """Reads one body, within PARTS and DEPTH."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._left = PARTS

    def message(self, kind: str, at: int, end: int, depth: int) -> Json:
        if depth > 2 * DEPTH:
            raise ValueError("messages too deep in each other")
        fields, found = _MESSAGES[kind], dict[str, Any]()
        for number, wire, begin, stop in self._fields(at, end):
            known = fields.get(number)
            if known is None or wire != _WIRE.get(known.kind, 2):
                continue
            value = self._of(known.kind, begin, stop, depth)
            if known.repeated:
                found.setdefault(known.name, []).append(value)
            else:
                found[known.name] = value
        return found

    def _fields(self, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield number, wire type and place of each field."""
        while at < end:
            self._left -= 1
            if self._left < 0:
                raise ValueError(f"more than {PARTS} fields: send fewer spans at a time")
            tag, at = self._number(at)
            wire, begin = tag & 7, at
            if wire == 0:
                _, at = self._number(at)
            elif wire in (1, 5):
                at += 8 if wire == 1 else 4
            elif wire == 2:
                size, begin = self._number(at)
                at = begin + size
            else:
                raise ValueError(f"wire type {wire}")
            if at > end:
                raise ValueError("a field is longer than its message")
            yield tag >> 3, wire, begin, at

    def _number(self, at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            byte = self._body[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at
            shift += 7
            if shift > 63:
                raise ValueError("a number of more than 10 bytes")

    def _of(self, kind: str, begin: int, end: int, depth: int) -> Any:
        match kind:
            case "text":
                return self._body[begin:end].decode(errors="replace")
            case "hex":
                return self._body[begin:end].hex()
            case "fixed64":
                return int.from_bytes(self._body[begin:end], "little")
            case "double":
                return struct.unpack("<d", self._body[begin:end])[0]
            case "integer" | "truth":
                value = self._number(begin)[0] & (1 << 64) - 1
                signed = value - (1 << 64) if value >> 63 else value
                return bool(value) if kind == "truth" else signed
        return self.message(kind, begin, end, depth + 1)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
