"""`GET /v1/hmx/stream` (Server-Sent Events) and `GET /v1/hmx/events` (NDJSON): a tenant's events and artifacts.

Enters: a position to continue after. Leaves: endless SSE with the position as id, or NDJSON up to the present with the
position in a header (HMX-E §8). Both read the topics, which hold no secrets. Raises ProblemError before the first byte;
later SSE ends with an event `end`, and NDJSON is cut off.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractContextManager, aclosing
from hashlib import sha256
from typing import Annotated, Any, Final, Literal, NoReturn

import orjson
from fastapi import APIRouter, Header, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from hmx_pipeline.contracts.episode import event_fields
from hmx_pipeline.contracts.event import Id
from hmx_pipeline.contracts.keys import join_key, partition_of, session_key, split_key
from hmx_pipeline.kafka.range_reader import PassingRecord
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.service import stream_position
from hmx_pipeline.service.access import Reader, admitted, bound_to
from hmx_pipeline.service.memory import erased_of, store_of, view_of
from hmx_pipeline.service.problems import ProblemError
from hmx_pipeline.service.request_metrics import HEAD
from hmx_pipeline.service.subscriber_queue import STALLED, StreamEnd
from hmx_pipeline.service.subscriptions import FAILURES, Start, Step, Subscriptions
from hmx_pipeline.store.atomic_blocks import StoreUnavailableError, TamperedError
from hmx_pipeline.store.erased_memory import Erasures
from hmx_pipeline.store.fetch import Store
from hmx_pipeline.store.subject_view import SubjectView
from hmx_pipeline.topology import ARTIFACTS, EPISODES

SSE: Final = "text/event-stream"
NDJSON: Final = "application/x-ndjson"
POSITION: Final = "X-HMX-Position"
STALLED_S: Final = 30.0
"""A client that reads nothing this long is disconnected."""
RETRY_MS: Final = 2_000
_TOPICS: Final = {"event": EPISODES, "artifact": ARTIFACTS}
_TOLD: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["id", "event", "data"],
    "properties": {
        "id": {"type": "string", "description": "Value for Last-Event-ID"},
        "event": {"enum": ["hmx.event", "hmx.artifact", "hmx.erased", "end"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}
"""JSON Schema of one server-sent event."""
_SAID: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Server-Sent Events: `hmx.event` (an HMX-E event), `hmx.artifact` (HMX-A), `end`,"
        " `hmx.erased` (`artifact_id`; for a key bound to a subject `artifact_sha256`)",
        "content": {SSE: {"schema": _TOLD}},
    }
}
_LINES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "One HMX-E event per line",
        "headers": {POSITION: {"description": "Position to continue after later", "schema": {"type": "string"}}},
        "content": {NDJSON: {"schema": {"type": "string"}}},
    }
}

router: Final = APIRouter(prefix="/v1/hmx")


class Streaming(StreamingResponse):
    """A streaming response, counted while it is open and not begun at the limit. The client has to keep reading."""

    def __init__(
        self,
        content: AsyncGenerator[bytes],
        counted: AbstractContextManager[None],
        media_type: str,
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(content, media_type=media_type, headers=headers)
        self._content = content
        self._counted = counted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get(HEAD):  # endless content would be produced for nobody
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await send({"type": "http.response.body"})
            return
        with self._counted:
            await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        async def patiently(message: Message) -> None:
            try:
                async with asyncio.timeout(STALLED_S):
                    await send(message)
            except TimeoutError:
                METRICS.streams_ended.labels(STALLED).inc()
                raise ClientDisconnect from None

        async with aclosing(self._content):
            await super().stream_response(patiently)


@router.get("/stream", responses=_SAID, response_class=StreamingResponse)
async def stream(
    request: Request,
    tenant: Reader,
    kind: Annotated[list[Literal["event", "artifact"]] | None, Query(description="Default: both")] = None,
    begin: Annotated[
        Literal["now", "start"], Query(alias="from", description="Where to start without Last-Event-ID")
    ] = "now",
    last_event_id: Annotated[str | None, Header(description="Continues after this id, without gap or repeat")] = None,
) -> Streaming:
    """Streams the tenant's released events and compiled artifacts as Server-Sent Events."""
    following: Subscriptions = request.app.state.following
    start = await following.start(tenant, last_event_id or None, from_start=begin == "start")
    erased = await erased_of(request)
    topics = [_TOPICS[one] for one in kind or _TOPICS]
    view = _bound_view(request, tenant)
    past: dict[tuple[str, int], int] = await _past(request) if view is not None or erased.of(tenant) else {}
    store = store_of(request)

    async def is_gone(step: Step) -> bool:
        """What is erased while the stream is open is gone, too."""
        nonlocal erased, past
        if not isinstance(step, PassingRecord):
            return False
        try:
            if (now := await erased_of(request)) is not erased:
                past, erased = await _past(request) if now.of(tenant) else past, now
        except (ProblemError, StoreUnavailableError):
            _break_off(StreamEnd.KAFKA)
        return hidden(erased, step) or await _is_gone(store, past, step)

    async def told() -> AsyncGenerator[bytes]:
        yield b"retry: %d\n%s" % (RETRY_MS, _frame(None, start))
        steps = following.follow(tenant, topics, start, lambda: admitted(request, tenant))
        async with aclosing(steps):
            async for step in steps:
                if not await is_gone(step) and await _is_seen(view, step):
                    yield _frame(await _as_seen(view, step), start, hides=view is not None)

    headers = {"X-Accel-Buffering": "no"}
    return Streaming(told(), following.counted(tenant, "sse", bound_to(request)), SSE, headers)


@router.get("/events", responses=_LINES, response_class=StreamingResponse)
async def get_events(
    request: Request,
    tenant: Reader,
    after: Annotated[str | None, Query(description=f"{POSITION} of an earlier answer; default: the start")] = None,
    session: Annotated[Id | None, Query(description="Only this session")] = None,
) -> Streaming:
    """Exports the tenant's released events up to the present as NDJSON, each session in order."""
    following: Subscriptions = request.app.state.following
    start = await following.start(tenant, after, from_start=True)
    await erased_of(request)
    places = [place for place in sorted(start.positions) if place[0] == EPISODES]
    owner, view = f"{join_key(tenant)}/".encode(), _bound_view(request, tenant)
    if session is not None and view is not None:
        session = await run_in_threadpool(view.session, session)
    if session is not None:
        key = session_key(tenant, session)
        owner, places = key.encode(), [places[partition_of(key, len(places))]]

    def wanted(key: bytes) -> bool:
        return key.startswith(owner) if session is None else key == owner

    upto = {**start.positions, **{place: max(start.positions[place], start.ends[place]) for place in places}}

    def go_on() -> bool:
        return not following.stopping and admitted(request, tenant)

    async def told() -> AsyncGenerator[bytes]:
        try:
            async with aclosing(following.stored(start.positions, upto, places, wanted, go_on)) as steps:
                async for step in steps:
                    if not isinstance(step, PassingRecord) or step.value is None:
                        continue
                    if not hidden(await erased_of(request), step) and await _is_seen(view, step):
                        yield _event(step.value) + b"\n"
        except (*FAILURES, ProblemError):
            _break_off(StreamEnd.KAFKA)
        if start.positions != upto:
            _break_off(StreamEnd.STOPPING if following.stopping else StreamEnd.REVOKED)

    headers = {POSITION: stream_position.written(start.name, upto)}
    return Streaming(told(), following.counted(tenant, "ndjson", bound_to(request)), NDJSON, headers)


async def _past(request: Request) -> dict[tuple[str, int], int]:
    """Returns up to where memory has followed the artifacts. Raises ProblemError if Redis does not answer."""
    positions = await run_in_threadpool(store_of(request).positions)
    found = ((name.rpartition("/"), at) for name, at in positions.items())
    return {(topic, int(number)): at for (topic, _, number), at in found if topic == ARTIFACTS}


def hidden(erased: Erasures, step: Step) -> bool:
    """Returns whether it is an episode that its topic still holds, and that is erased."""
    if not isinstance(step, PassingRecord) or step.place[0] != EPISODES or not erased:
        return False
    return erased.hides_episode(orjson.loads(step.value or b""))


def _break_off(why: StreamEnd) -> NoReturn:
    """Breaks off an export: without its last chunk, a client cannot take it for complete."""
    METRICS.streams_ended.labels(why).inc()
    raise ClientDisconnect


def _bound_view(request: Request, tenant: str) -> SubjectView | None:
    """Returns what a key that is bound to a subject sees; None for a key that sees all."""
    return None if bound_to(request) is None else view_of(request, tenant)


async def _is_gone(store: Store, past: Mapping[tuple[str, int], int], step: Step) -> bool:
    """Returns whether a step is an artifact that its topic still holds, and memory, which is at `past`, does not any
    more. Raises ClientDisconnect if memory cannot say, so that the client continues before it."""
    if not isinstance(step, PassingRecord) or step.value is None or step.offset >= past.get(step.place, 0):
        return False
    try:
        return await run_in_threadpool(store.get_artifact, *split_key(step.key.decode())) is None
    except (StoreUnavailableError, TamperedError):
        _break_off(StreamEnd.KAFKA)


async def _is_seen(view: SubjectView | None, step: Step) -> bool:
    """Returns whether a step may be told; a key that is bound to a subject does not see what is others'. Raises
    ClientDisconnect if memory cannot say whose an event is, so that the client continues before it."""
    if view is None or not isinstance(step, PassingRecord) or step.value is None:
        return True
    told = orjson.loads(step.value)
    if step.place[0] != EPISODES:
        return view.sees_artifact(told)
    try:
        return await run_in_threadpool(lambda: view.sees_episode(told))
    except StoreUnavailableError:
        _break_off(StreamEnd.KAFKA)


async def _as_seen(view: SubjectView | None, step: Step) -> Step:
    """Returns the step without ids that a bound key does not see. Raises ClientDisconnect as `_is_seen` does."""
    if view is None or not isinstance(step, PassingRecord) or step.value is None or step.place[0] == EPISODES:
        return step
    try:
        (told,) = await run_in_threadpool(view.told, [orjson.loads(step.value)])
    except StoreUnavailableError:
        _break_off(StreamEnd.KAFKA)
    return step._replace(value=orjson.dumps(told))


def _frame(step: Step, start: Start, *, hides: bool = False) -> bytes:
    """Encodes a server-sent event; without data it only moves the client's position. `hides`: an artifact that is gone
    may have been anybody's, so only who knows its id can tell which it was."""
    here = stream_position.written(start.name, start.positions).encode()
    if step is None:
        return b"id: %s\n\n" % here
    if isinstance(step, StreamEnd):
        METRICS.streams_ended.labels(step).inc()
        name, data = b"end", orjson.dumps({"reason": step, "detail": step.meaning})
    elif step.place[0] == EPISODES:
        name, data = b"hmx.event", _event(step.value or b"")
    elif step.value is not None:
        # A line break in the JSON would end the field.
        name, data = b"hmx.artifact", step.value.translate(None, b"\r\n")
    else:
        name, gone = b"hmx.erased", split_key(step.key.decode())[-1]
        said = {"artifact_sha256": sha256(gone.encode()).hexdigest()} if hides else {"artifact_id": gone}
        data = orjson.dumps(said)
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (here, name, data)


def _event(episode: bytes) -> bytes:
    return orjson.dumps(event_fields(orjson.loads(episode)))
