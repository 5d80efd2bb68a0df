"""`POST /v1/traces` and `/v1/logs`: take what OpenTelemetry exporters send of agents, and append it as events.

Enters: an export (OTLP/HTTP), as protobuf or JSON, plain or gzip. Leaves: OTLP's answer, once Kafka has acknowledged;
what was refused is counted and named in its partial success. What was taken lately is not appended again, as long as
Redis remembers it; the sessions stage drops later repeats. Raises ProblemError for the whole export if Kafka does not
acknowledge: exporters then send it again.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response

from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.doors.otel_genai import Mapped, OtelEvent, Sender, map_records
from hmx_pipeline.doors.otel_messages import CUT
from hmx_pipeline.doors.otlp import Export, OtlpError, partial_success, read_logs, read_traces
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.service.access import Writer, grant_of
from hmx_pipeline.service.body import JSON, coding, media_type, parsed, read_body, unpacked
from hmx_pipeline.service.events import EventStatus, take
from hmx_pipeline.service.fair_turns import FairTurns
from hmx_pipeline.service.hippocortex.minting import EPOCH_MS
from hmx_pipeline.service.memory import store_of
from hmx_pipeline.service.problems import ProblemError, ProblemKind
from hmx_pipeline.store.atomic_blocks import StoreUnavailableError
from hmx_pipeline.store.capture_coordination import CaptureCoordination

BODY_BYTES: Final = 16 * MB
"""Of a body, and of what a compressed one holds."""
PROTOBUF: Final = "application/x-protobuf"
NAMED: Final = 8
"""Reasons in an answer, the most frequent."""
_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}
_OBJECT: Final = {"schema": {"type": "object"}}
_ROUTE: Final[dict[str, Any]] = {
    "openapi_extra": {"requestBody": {"required": True, "content": {JSON: _OBJECT, PROTOBUF: _BINARY}}},
    "responses": {200: {"description": "OTLP's answer", "content": {JSON: _OBJECT, PROTOBUF: _BINARY}}},
}

router: Final = APIRouter()


@router.post("/v1/traces", **_ROUTE)
async def post_traces(request: Request, tenant: Writer) -> Response:
    """Takes spans of agents (OTLP/HTTP): prompts, answers, tool calls and errors become events."""
    return await _exported(request, tenant, read_traces, "spans")


@router.post("/v1/logs", **_ROUTE)
async def post_logs(request: Request, tenant: Writer) -> Response:
    """Takes log records of agents (OTLP/HTTP): messages to and from models, and evaluations, become events."""
    return await _exported(request, tenant, read_logs, "log_records")


async def _exported(request: Request, tenant: str, read: Callable[..., Export], unit: str) -> Response:
    protobuf = media_type(request, (PROTOBUF, JSON), ("identity", "gzip")) == PROTOBUF
    body, grant = await read_body(request, BODY_BYTES), grant_of(request)
    if coding(request) == "gzip":
        turns: FairTurns = request.app.state.parsing
        body = await turns.run(tenant, unpacked, body, BODY_BYTES)
        request.app.state.bodies.hold(request.scope, len(body))
    sender = Sender(tenant, grant.agent or "", grant.subject or "")

    def reading() -> tuple[Export, Mapped, list[bytes]]:
        try:
            export = read(body, protobuf=protobuf)
        except OtlpError as error:
            raise ProblemError(ProblemKind.INVALID_REQUEST, str(error), path="$") from None
        mapped = map_records(export.records, sender)
        return export, mapped, [orjson.dumps(one.event) for one in mapped.events]

    export, mapped, values = await parsed(request, tenant, body, reading)
    reasons = await append_told(request, tenant, mapped.events, values)
    refused = export.refused + mapped.refused + Counter(reasons.values())
    for result, count in {**mapped.left_out, EventStatus.REJECTED: refused.total()}.items():
        METRICS.otel.labels(result).inc(count)
    METRICS.otel.labels(EventStatus.ACCEPTED).inc(len({one.record for one in mapped.events} - reasons.keys()))
    named = (refused + Counter({CUT: mapped.left_out[CUT]})).most_common(NAMED)
    why = "; ".join(f"{reason} ({count})" for reason, count in named)
    answer = partial_success(refused.total(), why, unit, protobuf=protobuf)
    return Response(answer, media_type=PROTOBUF if protobuf else JSON)


async def append_told(request: Request, tenant: str, events: list[OtelEvent], values: list[bytes]) -> dict[int, str]:
    """Appends the events that are new. Returns the records that intake refused, with the reason."""
    state, capturing = request.app.state, store_of(request).capturing(EPOCH_MS)
    reading: FairTurns = state.reading
    known = await reading.run(tenant, _known, capturing, tenant, events)
    new = [(one, value) for one, value in zip(events, values, strict=True) if known.isdisjoint(one.unless)]
    taken = await take(state.log, state.parsing, tenant, [value for _, value in new], grant_of(request))
    reasons, names = dict[int, str](), list[str]()
    for (one, _), result in zip(new, taken.results, strict=True):
        if result.status is EventStatus.ACCEPTED:
            names += (one.event["event_id"], *one.marks)
        else:
            reasons.setdefault(one.record, f"{result.reason}: {result.detail}")
    with suppress(StoreUnavailableError, ProblemError):  # the sessions stage detects repeats
        await reading.run(tenant, capturing.appended, tenant, names)
    return reasons


def _known(capturing: CaptureCoordination, tenant: str, events: list[OtelEvent]) -> set[str]:
    """Returns which ids were taken lately; none while Redis is away."""
    asked = sorted({name for one in events for name in one.unless})
    try:
        return {name for name, found in zip(asked, capturing.known(tenant, asked), strict=True) if found}
    except StoreUnavailableError:
        return set()
