"""HTTP connection limits: malformed requests are refused and stalled connections closed, before any route runs.

Enters: bytes of a socket. Leaves: requests, for uvicorn. Answers 400 and closes for invalid HTTP, for `Content-Length`
together with `Transfer-Encoding` (request smuggling), and for bodies in very small chunks. Closes a request whose head
or body makes no progress for STILL_S, and a body that continues after its answer. Streams, WebSockets and idle
connections may last.
"""

import asyncio
from http import HTTPStatus
from typing import Any, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request, Response

from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.service.problems import ALWAYS, ProblemKind, problem

STILL_S: Final = 10.0
"""Seconds for a head to complete, and for a body to bring MOVES bytes."""
MOVES: Final = 1_024
LOOK_S: Final = 0.5
UNREAD_BYTES: Final = 16 * MB
"""Bytes of an answered body that are still read and dropped, so that the client gets to read the answer."""
CHUNKS, CHUNK_BYTES = 4_096, 32
"""A body of more chunks than this must average CHUNK_BYTES per chunk."""


class _Requests(h11.Connection):
    """Counts the chunks of a body, and refuses a request with two lengths."""

    pieces = 0
    held = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self.pieces = self.held = 0
            names = {name for name, _ in event.headers}
            if b"content-length" in names and b"transfer-encoding" in names:
                raise h11.RemoteProtocolError("Content-Length and Transfer-Encoding in one request")
        elif isinstance(event, h11.Data):
            self.pieces += 1
            self.held += len(event.data)
            if self.pieces > CHUNKS and self.held < self.pieces * CHUNK_BYTES:
                raise h11.RemoteProtocolError("the chunks of the body are too small")
        return event


class WebSocketConnection(WebSocketsSansIOProtocol):
    """Adds the headers of every answer to a refused handshake."""

    def handle_connect(self, event: Request) -> None:
        accept = self.conn.accept

        def told(request: Request) -> Response:
            response = accept(request)
            if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
                response.headers.update(ALWAYS)
            return response

        self.conn.accept = told  # type: ignore[method-assign]
        super().handle_connect(event)


class Connection(H11Protocol):
    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.conn = _Requests(h11.SERVER)
        self._since = self.loop.time()
        self._moved = 0
        self._unread = 0
        self._look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        self._look = self.loop.call_later(LOOK_S, self._close_if_still)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_looking()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        if not self._no_body(event):
            self.send_400_response("a WebSocket handshake must not have a body")
            return
        self._stop_looking()
        super().handle_websocket_upgrade(event)

    def data_received(self, data: bytes) -> None:
        before = self.conn.their_state
        super().data_received(data)
        self._moved += len(data)
        if self.conn.their_state is not before or (before is h11.SEND_BODY and self._moved >= MOVES):
            self._goes_on()
        if self.conn.our_state is h11.DONE and before is h11.SEND_BODY:
            self._unread += len(data)
            if self._unread > UNREAD_BYTES:
                self.transport.abort()

    def on_response_complete(self) -> None:
        self._unread = 0
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answers 400 unless an answer has begun, and closes, since the rest of the request cannot be delimited."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            detail = f"send valid HTTP with one length, in chunks of at least {CHUNK_BYTES} bytes"
            refusal = problem(ProblemKind.BAD_FRAMING, detail, ALWAYS)
            headers = [*refusal.raw_headers, (b"connection", b"close")]
            head = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
            for part in (head, h11.Data(data=bytes(refusal.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(part) or b"")
        self.transport.close()

    @staticmethod
    def _no_body(event: h11.Request) -> bool:
        """Returns whether the request has no body; some clients send a length of 0."""
        lengths = (b"content-length", b"transfer-encoding")
        return all(name not in lengths or (name, value) == (lengths[0], b"0") for name, value in event.headers)

    def _goes_on(self) -> None:
        self._since, self._moved = self.loop.time(), 0

    def _close_if_still(self) -> None:
        """Closes a connection that makes no progress. A head is due from its first byte, a body while the route
        reads."""
        state = self.conn.their_state
        head = state is h11.IDLE and (self.cycle is None or bool(self.conn.trailing_data[0]))
        body = state is h11.SEND_BODY and not self.flow.read_paused
        if not (head or body):
            self._goes_on()
        elif self.loop.time() - self._since >= STILL_S:
            self.transport.abort()
        self._look = self.loop.call_later(LOOK_S, self._close_if_still)

    def _stop_looking(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None
