"""Request middleware: metrics, timing, common headers, and an answer for uncaught exceptions.

Enters: each HTTP request or WebSocket. Leaves: its answer with headers of version, rate limit and completeness, a
problem instead of an uncaught exception, and counts and times by route.
"""

import asyncio
import time
from contextlib import suppress
from typing import Any, Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hmx_pipeline.contracts.versions import HMX_VERSION
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.service.body import HELD
from hmx_pipeline.service.completeness_header import COMPLETE, MEMORY_COMPLETE
from hmx_pipeline.service.hippocortex.answer_envelope import LIMITS, STARTED, speaks
from hmx_pipeline.service.negotiation import HEADER
from hmx_pipeline.service.problems import ALWAYS, RETRY, ProblemKind, answer, internal

UNMATCHED: Final = "unmatched"
HEAD: Final = "head"
"""Key in a request's scope: only headers were requested."""
GONE: Final = 499
"""Status of a request whose client has gone."""
SWITCHED: Final = 101
DEFECT: Final = 1011
"""WebSocket close code after an uncaught exception."""


class RequestMetrics:
    """ASGI middleware. Metrics name the route template, never the path; a stream is timed to its start."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        if scope.get("method") == "HEAD":  # RFC 9110 §9.3.2: like GET; the server leaves out the content
            scope = {**scope, "method": "GET", HEAD: True}
        status, took = 0, 0.0

        async def noting(message: Message) -> None:
            nonlocal status, took
            kind = message["type"].removeprefix("websocket.")
            if kind in ("http.response.start", "accept"):
                status, took = message.get("status", SWITCHED), time.perf_counter() - started
                message["headers"] = [*_own(message), *_told(scope)]
            await send(message)

        started = scope[STARTED] = time.perf_counter()
        try:
            await self._app(scope, receive, noting)
        except ClientDisconnect:
            status = GONE
        except asyncio.CancelledError:  # the server stops waiting at shutdown
            if status:
                raise
            await answer(scope, ProblemKind.STOPPING, "try again, another process may answer", RETRY)(
                scope, receive, noting
            )
        except Exception as error:  # noqa: BLE001  the client gets a problem and the log a line
            defect = internal(error, scope)
            if not status:
                await defect(scope, receive, noting)
            elif status == SWITCHED:
                with suppress(Exception):  # the client may have gone
                    await send({"type": "websocket.close", "code": DEFECT})
        route: Any = scope.get("route")
        name = getattr(route, "path", UNMATCHED)
        if HELD in scope:
            scope["app"].state.bodies.release(scope)
        METRICS.requests.labels(name, status).inc()
        METRICS.request_seconds.labels(name).observe(took or time.perf_counter() - started)


_ALWAYS: Final = frozenset(name.lower().encode() for name in ALWAYS)


def _own(message: Message) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in message.get("headers", ()) if name not in _ALWAYS]


def _told(scope: Scope) -> list[tuple[bytes, bytes]]:
    """Returns the headers of every answer: rate limit, version on native routes, completeness of memory."""
    told = {**ALWAYS, **scope.get(LIMITS, {})}
    if not speaks(scope):
        told[HEADER] = HMX_VERSION
    whole: bool | None = scope.get(COMPLETE)
    if whole is not None:
        told[MEMORY_COMPLETE] = "true" if whole else "false"
    return [(name.lower().encode(), value.encode()) for name, value in told.items()]
