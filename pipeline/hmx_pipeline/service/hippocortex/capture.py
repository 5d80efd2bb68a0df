"""`POST /v1/capture` and `/v1/capture/batch`: turns client captures into HMX events and appends them to the log.

Enters: type, session, payload, metadata. Leaves: per capture an id and whether it is a duplicate, once Kafka has
acknowledged. An idempotency key already used in the session names the same event, as long as Redis or this process
remembers it; the sessions stage drops later repeats. Raises ProblemError for the whole request if Kafka does not
acknowledge.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response

from hmx_pipeline.contracts.episode import SUBJECT_ID, named_subject, own_session
from hmx_pipeline.contracts.event import ARRIVAL, SEQUENCE_MEANS
from hmx_pipeline.contracts.headers import TRACEPARENT, event_headers, trace_headers
from hmx_pipeline.contracts.ids import keyed_id
from hmx_pipeline.contracts.keys import session_key
from hmx_pipeline.contracts.rejections import Reason
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.contracts.versions import HMX_VERSION
from hmx_pipeline.intake.number_ranges import out_of_range_path
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.queries.encoding_tag import tagged
from hmx_pipeline.service.access import Writer, admitted, grant_of
from hmx_pipeline.service.api_keys import Grant, Scope
from hmx_pipeline.service.body import described, parsed, read_body
from hmx_pipeline.service.event_log import EventLog, EventRecord
from hmx_pipeline.service.events import BODY_BYTES, EventStatus, Refused, agent_headers, append, check, slices
from hmx_pipeline.service.fair_turns import FairTurns
from hmx_pipeline.service.hippocortex.answer_envelope import success
from hmx_pipeline.service.hippocortex.minting import EPOCH_MS, LONGEST, Holds, Minted, random_id
from hmx_pipeline.service.hippocortex.usage import Usage
from hmx_pipeline.service.memory import store_of
from hmx_pipeline.service.problems import ProblemError, ProblemKind
from hmx_pipeline.store.atomic_blocks import StoreUnavailableError, TamperedError
from hmx_pipeline.store.fetch import Store

BATCH_EVENTS: Final = 1_000
REMEMBERED: Final = 65_536
"""Keyed ids remembered per process, about 15 MB; Redis is asked about others."""
AGENT: Final = "default"
_AGENT: Final = ("agentId", "agent_id", "agent_name", "agentName")
_USER: Final = ("userId", "user_id")
_KEY: Final = ("idempotencyKey", "idempotency_key")
_SAID: Final[Mapping[str, str]] = {
    "$.event_type": "$.type",
    "$.session_id": "$.sessionId",
    "$.content": "$.payload",
    "$.metadata": "$.metadata",
    "$.idempotency_key": "$.idempotencyKey",
    "$.agent_id": "$.metadata.agentId",
}
"""HMX-E path → path in the client's request."""

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

_CAPTURE: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["type", "sessionId", "payload"],
    "properties": {
        "type": {"type": "string", "minLength": 1},
        "sessionId": {"type": "string", "minLength": 1},
        "payload": {"type": "object"},
        "metadata": {"type": ["object", "null"], "description": "May hold agentId, userId and idempotencyKey"},
        "userId": {"type": "string", "description": "Whose the event is; what it tells is private to that person"},
        "idempotencyKey": {"type": "string", "description": "Makes resending safe within a session"},
    },
}
_BATCH: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["events"],
    "properties": {"events": {"type": "array", "maxItems": BATCH_EVENTS, "items": _CAPTURE}},
}

router: Final = APIRouter()


class CaptureBatch(msgspec.Struct):
    events: list[msgspec.Raw]


_batch: Final = msgspec.json.Decoder(CaptureBatch).decode


@dataclass(slots=True)
class Capture:
    """An event, complete except for what is assigned at append time."""

    fields: dict[str, Any]
    keyed: bool
    refused: Refused | None = None
    duplicate: bool = False
    under_way: asyncio.Future[None] | None = field(default=None)
    """Set while another request appends the same event."""

    @property
    def session_id(self) -> str:
        return str(self.fields["session_id"])

    @property
    def event_id(self) -> str:
        return str(self.fields["event_id"])


class Captures:
    """Takes captures of all tenants. Its memory of ids only saves questions to Redis."""

    def __init__(self, log: EventLog, store: Store, usage: Usage, parsing: FairTurns, reading: FairTurns) -> None:
        self._log = log
        self._store = store
        self._usage = usage
        self._parsing = parsing
        self._reading = reading
        self._capturing = store.capturing(EPOCH_MS)
        self._holds = Holds(self._capturing, reading)
        self._known: OrderedDict[str, None] = OrderedDict()
        self._appending: dict[str, asyncio.Future[None]] = {}

    async def take(
        self, tenant: str, grant: Grant, sent: Sequence[bytes], trace: bytes = b"", *, whole: bool = False
    ) -> list[Capture]:
        """Appends captures that a key may write, and returns their outcomes; `whole` appends none if one is refused.
        Raises ProblemError if Kafka does not acknowledge."""
        parts = [await self._parsing.run(tenant, _checked, part, grant) for part in slices(sent)]
        captures = [capture for part in parts for capture in part]
        if whole and any(capture.refused is not None for capture in captures):
            return captures
        to_append = self._chosen(captures)
        try:
            if to_append:
                headers = [*trace_headers(trace), *agent_headers(grant)]
                await self._append(tenant, to_append, headers)
        finally:
            self._finish(to_append)
        for capture in captures:
            if capture.under_way is not None:
                await asyncio.shield(capture.under_way)
        self._count(tenant, captures)
        return captures

    async def take_one(self, tenant: str, grant: Grant, sent: bytes, trace: bytes = b"") -> Capture:
        """Appends one capture. Raises ProblemError if it is refused, too."""
        (taken,) = await self.take(tenant, grant, [sent], trace)
        if taken.refused is not None:
            path = said_path(taken.refused.path)
            raise ProblemError(ProblemKind.EVENT_REJECTED, taken.refused.detail, path=path, reason=taken.refused.reason)
        return taken

    def _in_memory(self, tenant: str, captures: Sequence[Capture]) -> list[bool]:
        """Returns which captures were appended recently or are in memory; without Redis none."""
        try:
            known = self._capturing.known(tenant, [capture.event_id for capture in captures])
            return [found or self._holds_event(tenant, capture) for capture, found in zip(captures, known, strict=True)]
        except StoreUnavailableError:
            return [False] * len(captures)

    def _holds_event(self, tenant: str, capture: Capture) -> bool:
        with suppress(TamperedError):  # the sessions stage detects the duplicate
            return self._store.get_event(tenant, capture.event_id, capture.session_id) is not None
        return False

    def _chosen(self, captures: Sequence[Capture]) -> list[Capture]:
        """Returns the captures to append: the first per key, unless another request appends it."""
        chosen = []
        for capture in captures:
            if capture.refused is not None or capture.duplicate:
                continue
            if capture.keyed:
                name = capture.event_id
                capture.under_way = self._appending.get(name)
                capture.duplicate = capture.under_way is not None or name in self._known
                if capture.duplicate:
                    continue
                self._appending[name] = asyncio.get_running_loop().create_future()
            chosen.append(capture)
        return chosen

    async def _append(self, tenant: str, captures: Sequence[Capture], more: Sequence[tuple[str, bytes]]) -> None:
        """Appends captures. Nothing is awaited between minting and handover, so a session's sequences rise in the
        log."""
        keyed = [capture for capture in captures if capture.keyed]
        async with self._holds.of(tenant, {capture.session_id for capture in captures}) as holds:
            if keyed:
                found = await self._reading.run(tenant, self._in_memory, tenant, keyed)
                for capture, duplicate in zip(keyed, found, strict=True):
                    capture.duplicate = duplicate
            await self._holds.renew(tenant, holds)
            records = []
            for capture in captures:
                if capture.duplicate:
                    continue
                minted = holds[capture.session_id].next()
                if not capture.keyed:
                    capture.fields["event_id"] = random_id(minted.ms)
                session, name = capture.session_id, capture.event_id
                headers = [*event_headers(tenant, session, name), *more]
                records.append(EventRecord(session_key(tenant, session), _written(capture, minted), headers))
            await append(self._log, records)
            if keyed:
                with suppress(StoreUnavailableError, ProblemError):  # the sessions stage detects repeats
                    names = [capture.event_id for capture in keyed]
                    await self._reading.run(tenant, self._capturing.appended, tenant, names)
        for capture in keyed:
            self._known[capture.event_id] = None
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def _finish(self, captures: Sequence[Capture]) -> None:
        """Tells requests that wait for these captures whether they are in the log."""
        for capture in captures:
            name = capture.event_id
            waited_for = self._appending.pop(name, None) if capture.keyed else None
            if waited_for is None:
                continue
            if name in self._known:
                waited_for.set_result(None)
            else:
                detail = "the event with this key was not acknowledged: send it again"
                waited_for.set_exception(ProblemError(ProblemKind.KAFKA_UNAVAILABLE, detail))
                waited_for.exception()  # no request may be waiting

    def _count(self, tenant: str, captures: Sequence[Capture]) -> None:
        for capture in captures:
            if capture.refused is not None:
                METRICS.events_accepted.labels(EventStatus.REJECTED).inc()
                self._usage.count(tenant, "errors")
            elif capture.duplicate:
                self._usage.count(tenant, "duplicates")
            else:
                METRICS.events_accepted.labels(EventStatus.ACCEPTED).inc()
                self._usage.count(tenant, "ingested")
                self._usage.count(tenant, f"type:{capture.fields['event_type']}")


def _checked(sent: Sequence[bytes], grant: Grant) -> list[Capture]:
    return [_completed(one, grant) for one in sent]


def _completed(sent: bytes, grant: Grant) -> Capture:
    capture = _event(sent, grant)
    if capture.refused is None:
        found = check(_written(capture, LONGEST), grant)
        if isinstance(found, Refused):
            capture.refused = found
    return capture


def _event(sent: bytes, grant: Grant) -> Capture:
    """Checks shapes only; intake checks values, on the payload as written. What names nobody is of the subject, and the
    agent, that the key is bound to."""
    tenant = grant.tenant
    try:
        given = {name: bytes(raw) for name, raw in _members(sent).items()}
        said: dict[str, Any] = {name: orjson.loads(raw) for name, raw in given.items() if name != "payload"}
    except (ValueError, RecursionError):
        path = out_of_range_path(sent)
        if path != "$":
            refused = Refused(Reason.NUMBER_OUT_OF_RANGE, path, Reason.NUMBER_OUT_OF_RANGE.advice)
        else:
            refused = Refused("wrong_type", "$", "an event must be a JSON object")
        return Capture({}, keyed=False, refused=refused)
    metadata = said.get("metadata")
    known: dict[str, Any] = metadata if isinstance(metadata, dict) else {}
    key, session = _first(said, _KEY) or _first(known, _KEY), said.get("sessionId")
    named = named_subject(known)
    whose = None if named else _first(said, _USER) or grant.subject
    if grant.subject is not None and isinstance(session, str):
        session = own_session(grant.subject, session)
    keyed = key is not None and isinstance(session, str)
    fields = {
        "hmx_version": HMX_VERSION,
        "event_id": keyed_id(tenant, str(session), str(key)) if keyed else random_id(LONGEST.ms),
        "event_type": said.get("type"),
        "agent_id": _first(known, _AGENT) or grant.agent or AGENT,
        "tenant_id": tenant,
        "session_id": session,
        "content": orjson.Fragment(given.get("payload", b"null")),
        "metadata": metadata
        if metadata is not None and not isinstance(metadata, dict)
        else _marked(given, known, whose),
    }
    return Capture(fields, keyed)


def _marked(given: Mapping[str, bytes], known: Mapping[str, Any], whose: str | None) -> orjson.Fragment:
    """Returns the metadata as written, plus the marker of a minted sequence, and whose the event is if it does not say
    so itself."""
    said = given["metadata"] if known else b""
    if whose is not None and SUBJECT_ID in known:  # it names nobody
        members = _members(said)
        del members[SUBJECT_ID]
        said = msgspec.json.encode(members) if members else b""
    rest = b"," + said.lstrip()[1:] if said else b"}"
    ours = {SEQUENCE_MEANS: ARRIVAL, **({SUBJECT_ID: whose} if whose is not None else {})}
    return orjson.Fragment(orjson.dumps(ours)[:-1] + rest)


def _first(fields: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """Returns the first non-empty text or number, as text."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return str(value)
    return None


def _written(capture: Capture, minted: Minted) -> bytes:
    return orjson.dumps({**capture.fields, "timestamp": format_ms(minted.ms), "sequence": minted.sequence})


@router.post("/capture", openapi_extra=described(_CAPTURE))
async def capture(request: Request, tenant: Writer, encoding: bool = False) -> Response:
    """Captures one event. With `encoding=true` its payload gains `encoding`: novel, reinforcing or redundant."""
    body, grant = await read_body(request, BODY_BYTES), grant_of(request)
    if encoding:
        if not admitted(request, tenant, Scope.READ):
            raise ProblemError(ProblemKind.FORBIDDEN, "`encoding` tells of memory: use a key that may read")
        reading: FairTurns = request.app.state.reading
        body = await reading.run(tenant, _tagged, store_of(request), grant, body)
    return success(request, _result(await _captures(request).take_one(tenant, grant, body, _trace(request))))


@router.post("/capture/batch", openapi_extra=described(_BATCH))
async def capture_batch(request: Request, tenant: Writer) -> Response:
    """Captures up to 1,000 events. Invalid events are counted; the others are taken."""
    try:
        body = await read_body(request, BODY_BYTES)
        events = await parsed(request, tenant, body, lambda: [bytes(raw) for raw in _batch(body).events])
    except (ValueError, RecursionError):
        raise ProblemError(ProblemKind.INVALID_REQUEST, "send `events`, an array", path="$.events") from None
    if len(events) > BATCH_EVENTS:
        detail = f"{len(events)} events exceed the limit of {BATCH_EVENTS} per batch: split it"
        raise ProblemError(ProblemKind.INVALID_REQUEST, detail, path="$.events")
    taken = await _captures(request).take(tenant, grant_of(request), events, _trace(request))
    errors = sum(one.refused is not None for one in taken)
    duplicates = sum(one.duplicate for one in taken)
    summary = {
        "total": len(taken),
        "ingested": len(taken) - duplicates - errors,
        "duplicates": duplicates,
        "errors": errors,
    }
    return success(request, {"results": [_result(one) for one in taken if one.refused is None], "summary": summary})


def _tagged(store: Store, grant: Grant, sent: bytes) -> bytes:
    """Tags a capture that has room for it."""
    told = tagged(store, grant.tenant, grant.subject, sent)
    return sent if _completed(told, grant).refused else told


def said_path(path: str) -> str:
    """Translates an HMX-E path to the path in the client's request."""
    for ours, theirs in _SAID.items():
        for named in (ours, theirs):  # paths of unreadable captures are the client's already
            if path == named or path.startswith((f"{named}.", f"{named}[")):
                return theirs + path[len(named) :]
    return "$"


def _result(taken: Capture) -> dict[str, Any]:
    if taken.duplicate:
        return {"eventId": taken.event_id, "status": "duplicate", "reason": "the idempotency key was already used"}
    return {"eventId": taken.event_id, "status": "ingested"}


def _trace(request: Request) -> bytes:
    return request.headers.get(TRACEPARENT, "").encode()


def _captures(request: Request) -> Captures:
    captures = request.app.state.captures
    assert isinstance(captures, Captures)
    return captures
