"""WebSocket `/v1/hmx/events`: one event per frame, one acknowledgement per event, in order (HMX-E §8).

Enters: HMX-E events as text or binary frames. Leaves: per event the result of a POST, once Kafka has acknowledged.
Backpressure: with WAITING unacknowledged frames the socket is not read. Closes with 1013 if Kafka does not acknowledge
(resend unacknowledged events; duplicates are recognised), 1008 if the key is revoked, 1012 if the service stops. Frames
received before a disconnect are still appended.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.service.access import admit, admitted, bound_to, grant_of, ready
from hmx_pipeline.service.api_keys import Scope
from hmx_pipeline.service.events import UNACKNOWLEDGED, EventResult, take
from hmx_pipeline.service.negotiation import subprotocol
from hmx_pipeline.service.problems import ProblemError
from hmx_pipeline.service.subscriber_queue import STALLED, StreamEnd
from hmx_pipeline.service.subscriptions import Subscriptions

FRAME_BYTES: Final = 2 * MB
"""Largest frame that is read; frames above the event limit are rejected by name up to here."""
WAITING: Final = 1_000
WAITING_BYTES: Final = 4 * MB
"""Limits of unacknowledged frames per connection."""
LOOK_S: Final = 1.0
STALLED_S: Final = 30.0
TRY_AGAIN, NOT_ALLOWED, STOPPING = 1013, 1008, 1012
ENDINGS: Final = {TRY_AGAIN: StreamEnd.KAFKA, NOT_ALLOWED: StreamEnd.REVOKED, STOPPING: StreamEnd.STOPPING}
"""Close code → metrics label."""

router: Final = APIRouter(prefix="/v1/hmx")


class Frames:
    """Received frames that are not acknowledged yet."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._held: list[bytes] = []
        self._bytes = 0
        self._come = asyncio.Event()
        self._room = asyncio.Event()
        self.gone = False

    @property
    def waiting(self) -> int:
        return len(self._held)

    @property
    def over(self) -> bool:
        """Whether the client has gone and all its frames are taken."""
        return self.gone and not self._held

    async def read(self) -> None:
        """Reads frames until the client disconnects."""
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                self.gone = True
                self._come.set()
                return
            frame = message.get("bytes")
            self._held.append(frame if frame is not None else message["text"].encode())
            self._bytes += len(self._held[-1])
            self._come.set()
            while len(self._held) >= WAITING or self._bytes >= WAITING_BYTES:
                self._room.clear()
                await self._room.wait()

    async def next(self) -> list[bytes]:
        """Returns all waiting frames; empty after LOOK_S without any."""
        try:
            async with asyncio.timeout(LOOK_S):
                await self._come.wait()
        except TimeoutError:
            return []
        self._come.clear()
        taken, self._held, self._bytes = self._held, [], 0
        self._room.set()
        return taken

    async def tell(self, results: Sequence[EventResult]) -> None:
        """Sends results, unless the client has gone. Raises TimeoutError if it stops reading."""
        with suppress(WebSocketDisconnect):
            for result in results:
                async with asyncio.timeout(STALLED_S):
                    await self._socket.send_text(result.to_json().decode())


@router.websocket("/events")
async def take_frames(socket: WebSocket) -> None:
    """Serves a connection. Raises ProblemError, as handshake answer, for another major version or an invalid key."""
    spoken = subprotocol(socket)
    await ready(socket)
    tenant = admit(socket, Scope.WRITE)
    following: Subscriptions = socket.app.state.following
    with following.counted(tenant, "websocket", bound_to(socket)):
        await socket.accept(spoken)
        frames = Frames(socket)
        reading = asyncio.create_task(frames.read())
        try:
            code, reason = await _acknowledge(socket, tenant, frames, following)
            if not frames.gone:
                METRICS.streams_ended.labels(ENDINGS[code]).inc()
                await socket.close(code, reason)
        except TimeoutError:
            METRICS.streams_ended.labels(STALLED).inc()
        finally:
            reading.cancel()
            METRICS.events_accepted.labels(UNACKNOWLEDGED).inc(frames.waiting)


async def _acknowledge(socket: WebSocket, tenant: str, frames: Frames, following: Subscriptions) -> tuple[int, str]:
    """Acknowledges frames until the connection must end; returns close code and reason."""
    count = 0
    while not frames.over:
        if following.stopping:
            return STOPPING, "the service is stopping"
        if not admitted(socket, tenant, Scope.WRITE):
            return NOT_ALLOWED, "the key was revoked"
        values = await frames.next()
        try:
            state = socket.app.state
            results, _ = await take(state.log, state.parsing, tenant, values, grant_of(socket), count)
        except ProblemError as problem:
            return TRY_AGAIN, problem.kind
        count += len(results)
        if not frames.gone:
            await frames.tell(results)
    return TRY_AGAIN, "gone"
