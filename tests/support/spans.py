"""OTLP exports in their JSON form: spans and log records as instrumented agents send them."""

import hashlib
from typing import Any

import orjson

from hmx_pipeline.doors.otel_genai import Mapped, Sender, map_records
from hmx_pipeline.doors.otlp import read_logs, read_traces

Json = dict[str, Any]
START_NS = 1_773_480_600_000_000_000
SECOND = 1_000_000_000
ACME = Sender("acme")


def any_value(value: Any) -> Json:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [any_value(one) for one in value]}}
        case dict():
            return {"kvlistValue": {"values": key_values(value)}}
        case None:
            return {}
    return {"stringValue": value}


def key_values(fields: Json) -> list[Json]:
    return [{"key": name, "value": any_value(value)} for name, value in fields.items()]


def span_id(name: str, digits: int = 16) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:digits]


def span(at: float, attributes: Json, name: str = "", took: float = 0.5, trace: str = "t1", **more: Any) -> Json:
    """A span that ends `at` seconds; `parent` names the span around it."""
    parent, failed = more.pop("parent", ""), more.pop("failed", None)
    end = START_NS + int(at * SECOND)
    return {
        "traceId": span_id(trace, 32), "spanId": span_id(name or f"{trace}/{at}"), "name": name,
        "parentSpanId": span_id(parent) if parent else "",
        "startTimeUnixNano": str(end - int(took * SECOND)), "endTimeUnixNano": str(end),
        "attributes": key_values(attributes),
        "status": {} if failed is None else {"code": 2, "message": failed}, **more,
    }  # fmt: skip


def log(
    at: float, name: str, body: Any = None, attributes: Json | None = None, of: str = "", trace: str = "t1"
) -> Json:
    """A log record about the span that is called `of`."""
    return {
        "timeUnixNano": str(START_NS + int(at * SECOND)), "eventName": name, "body": any_value(body),
        "attributes": key_values(attributes or {}), "traceId": span_id("t1", 32), "spanId": span_id(of),
    }  # fmt: skip


def export(records: list[Any], resource: Json | None = None, logs: bool = False) -> Json:
    scoped = {"scope": {"name": "test"}, "logRecords" if logs else "spans": records}
    group = {
        "resource": {"attributes": key_values({"service.name": "shop"} if resource is None else resource)},
        "scopeLogs" if logs else "scopeSpans": [scoped],
    }
    return {"resourceLogs" if logs else "resourceSpans": [group]}


def mapped(records: list[Any], sender: Sender = ACME, logs: bool = False) -> Mapped:
    body = orjson.dumps(export(records, logs=logs))
    return map_records((read_logs if logs else read_traces)(body, protobuf=False).records, sender)
