"""`POST /v1/hmx/events`: validates events like intake, appends them to Kafka, and answers once acknowledged.

Enters: one event, an array or NDJSON; the bytes are appended unchanged. Leaves: a result per event. Raises
ProblemError, with nothing accepted, if Kafka does not acknowledge.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec
import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response

from hmx_pipeline.contracts.base import Model
from hmx_pipeline.contracts.envelope import Envelope
from hmx_pipeline.contracts.episode import named_subject, own_session
from hmx_pipeline.contracts.headers import AGENT_UNPROVEN, TRACEPARENT, event_headers, trace_headers
from hmx_pipeline.contracts.keys import CONTROL_TENANT, session_key
from hmx_pipeline.contracts.limits import KB, MB
from hmx_pipeline.contracts.rejections import Reason, Rejection
from hmx_pipeline.contracts.timestamps import parse_instant
from hmx_pipeline.intake.decode import decode
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.service.access import Writer, grant_of
from hmx_pipeline.service.api_keys import Grant
from hmx_pipeline.service.body import JSON, media_type, parsed, read_body
from hmx_pipeline.service.event_log import EventLog, EventRecord, LogPosition, NotAppendedError
from hmx_pipeline.service.fair_turns import FairTurns
from hmx_pipeline.service.problems import ProblemError, ProblemKind, unavailable
from hmx_pipeline.service.read_your_writes import Appended, token

BODY_BYTES: Final = 16 * MB
REQUEST_EVENTS: Final = 10_000
SLICE_BYTES: Final = 256 * KB
"""Bytes of a request that are checked in one turn, before other tenants get theirs."""
AT_ONCE, AT_ONCE_EACH = 2, 1
"""Bodies parsed and checked at the same time, in total and per tenant."""
NDJSON: Final = "application/x-ndjson"
UNACKNOWLEDGED: Final = "unacknowledged"
"""Metrics label of events that may or may not be in the log."""

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode: Final = msgspec.json.Encoder().encode

router: Final = APIRouter()


class EventStatus(StrEnum):
    ACCEPTED = "accepted"
    REJECTED = "rejected"


class EventResult(Model):
    """Result of the event at `index`; blank lines are not counted."""

    index: int
    status: EventStatus
    event_id: str | None = None
    partition: int | None = None
    offset: int | None = None
    reason: str | None = None
    path: str | None = None
    detail: str | None = None


class Summary(Model):
    total: int
    accepted: int
    rejected: int


class EventsAnswer(Model):
    results: list[EventResult]
    summary: Summary
    after: str | None = None
    """Token for a context pack that waits until memory holds these events; absent if none was accepted."""


class Taken(NamedTuple):
    results: list[EventResult]
    accepted: list[Appended]


class Refused(NamedTuple):
    """An event that is not appended: rejected by intake, or of another tenant."""

    reason: str
    path: str
    detail: str
    event_id: str | None = None


_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": {"description": "One HMX-E event, or an array of them"}},
            NDJSON: {"schema": {"type": "string", "description": "One HMX-E event per line"}},
        },
    }
}


@router.post("/v1/hmx/events", status_code=202, responses={202: {"model": EventsAnswer}}, openapi_extra=_BODY)
async def post_events(request: Request, tenant: Writer) -> Response:
    """Appends events: 202 once Kafka has acknowledged all accepted ones, 422 if none was accepted."""
    kind = media_type(request, (JSON, NDJSON))
    body = await read_body(request, BODY_BYTES)
    values = await parsed(request, tenant, body, lambda: _split(body, kind))
    trace = request.headers.get(TRACEPARENT, "").encode()
    state = request.app.state
    taken = await take(state.log, state.parsing, tenant, values, grant_of(request), trace=trace)
    answer = _answer(taken)
    if answer.results and not answer.summary.accepted:
        raise _none_accepted(answer)
    return Response(answer.to_json(), 202, media_type=JSON)


def _split(body: bytes, kind: str) -> list[bytes]:
    if kind == NDJSON:
        values = [line for line in body.split(b"\n") if line.strip()]
    elif body.lstrip()[:1] == b"[":
        try:
            values = [bytes(raw) for raw in _items(body)]
        except (msgspec.DecodeError, RecursionError):
            raise ProblemError(ProblemKind.INVALID_REQUEST, "the array is not valid JSON", path="$") from None
    else:
        values = [body]
    if len(values) > REQUEST_EVENTS:
        raise ProblemError(ProblemKind.TOO_LARGE, f"{len(values)} events, at most {REQUEST_EVENTS} per request")
    return values


async def take(
    log: EventLog,
    turns: FairTurns,
    tenant: str,
    values: Sequence[bytes],
    grant: Grant,
    first: int = 0,
    trace: bytes = b"",
) -> Taken:
    """Checks and appends events that a key may write. Returns their results, indexed from `first`. Raises
    ProblemError."""
    if grant.subject is not None:
        values = [in_own_session(value, grant.subject) for value in values]
    checked = [found for part in slices(values) for found in await turns.run(tenant, _checked, part, grant)]
    headers = [*trace_headers(trace), *agent_headers(grant)]
    records = [
        EventRecord(
            session_key(tenant, event.session_id),
            value,
            [*event_headers(tenant, event.session_id, event.event_id), *headers],
        )
        for value, event in zip(values, checked, strict=True)
        if isinstance(event, Envelope)
    ]
    appended = iter(await append(log, records))
    results = []
    for index, found in enumerate(checked, first):
        if isinstance(found, Refused):
            results.append(EventResult(index=index, status=EventStatus.REJECTED, **found._asdict()))
        else:
            where = next(appended)._asdict()
            results.append(EventResult(index=index, status=EventStatus.ACCEPTED, event_id=found.event_id, **where))
    METRICS.events_accepted.labels(EventStatus.ACCEPTED).inc(len(records))
    METRICS.events_accepted.labels(EventStatus.REJECTED).inc(len(values) - len(records))
    return Taken(results, [_appended(event) for event in checked if isinstance(event, Envelope)])


def slices(values: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Yields as many values as are checked in one turn."""
    begin = held = 0
    for end, value in enumerate(values):
        if held and held + len(value) > SLICE_BYTES:
            yield values[begin:end]
            begin, held = end, 0
        held += len(value)
    if values:
        yield values[begin:]


def _checked(values: Sequence[bytes], grant: Grant) -> list[Envelope | Refused]:
    return [check(value, grant) for value in values]


def in_own_session(value: bytes, subject: str) -> bytes:
    """Returns an event with its session named as the subject's own. What is no event stays as it is."""
    try:
        members = _members(value)
        session = orjson.loads(bytes(members["session_id"]))
    except (ValueError, KeyError, RecursionError):
        return value
    if not isinstance(session, str):
        return value
    return _encode({**members, "session_id": own_session(subject, session)})


def agent_headers(grant: Grant) -> list[tuple[str, bytes]]:
    """Returns the header that says that no key vouches for the agent."""
    return [] if grant.open or grant.agent is not None else [(AGENT_UNPROVEN, b"true")]


def _appended(event: Envelope) -> Appended:
    return Appended(event.session_id, event.sequence, parse_instant(event.timestamp) or 0, event.event_id)


def check(value: bytes, grant: Grant) -> Envelope | Refused:
    """Checks an event. It must name the subject and the agent that the key is bound to: else it would tell the whole
    tenant, or be taken for what another one said."""
    decoded = decode(value)
    if isinstance(decoded, Rejection):
        return Refused(decoded.reason, decoded.path, decoded.said)
    event = decoded.event
    if decoded.control:
        path = "$.tenant_id" if event.tenant_id == CONTROL_TENANT else "$.event_type"
        return Refused(Reason.RESERVED, path, Reason.RESERVED.advice, event.event_id)
    if event.tenant_id != grant.tenant:
        return Refused(ProblemKind.TENANT_MISMATCH, "$.tenant_id", "not the tenant of the request", event.event_id)
    if grant.subject is not None and named_subject(orjson.loads(bytes(event.metadata))) != grant.subject:
        detail = "must be the subject that the key is bound to"
        return Refused(ProblemKind.SUBJECT_MISMATCH, "$.metadata.subject_id", detail, event.event_id)
    if grant.agent not in (None, event.agent_id):
        detail = "must be the agent that the key is bound to"
        return Refused(ProblemKind.AGENT_MISMATCH, "$.agent_id", detail, event.event_id)
    return event


async def append(log: EventLog, records: list[EventRecord]) -> list[LogPosition]:
    """Appends records. Raises ProblemError unless Kafka acknowledges all of them."""
    try:
        return await log.append(records)
    except NotAppendedError as error:
        METRICS.events_accepted.labels(UNACKNOWLEDGED).inc(len(records))
        detail = f"no event of the request was accepted ({error}): send it again, duplicates are recognised"
        raise unavailable(ProblemKind.KAFKA_UNAVAILABLE, detail) from None


def _answer(taken: Taken) -> EventsAnswer:
    total, accepted = len(taken.results), len(taken.accepted)
    summary = Summary(total=total, accepted=accepted, rejected=total - accepted)
    return EventsAnswer(results=taken.results, summary=summary, after=token(taken.accepted) if accepted else None)


def _none_accepted(answer: EventsAnswer) -> ProblemError:
    """Builds the problem: the first event's reason, and all results if there are several."""
    first = answer.results[0]
    members = answer.model_dump(mode="json", exclude_none=True) if answer.summary.total > 1 else {}
    return ProblemError(ProblemKind.EVENT_REJECTED, first.detail or "", reason=first.reason, path=first.path, **members)
