"""Counts and times every request, tells what every answer tells, and answers for what nobody caught, so that no trace
gets past it.
"""

import asyncio
import time
from contextlib import suppress
from typing import Any, Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline.contracts.versions import HMX_VERSION
from pipeline.observe.metrics import METRICS
from pipeline.service.body import HELD
from pipeline.service.completeness import COMPLETE, MEMORY_COMPLETE
from pipeline.service.dialect.envelope import LIMITS, STARTED, speaks
from pipeline.service.negotiation import HEADER
from pipeline.service.problems import ALWAYS, RETRY, Kind, answer, internal

UNMATCHED: Final = "unmatched"
HEAD: Final = "head"
"""What the scope holds where the headers alone were asked for."""
GONE: Final = 499
"""Whoever asked has gone before the request was there: nobody is answered."""
SWITCHED: Final = 101
DEFECT: Final = 1011
"""How a WebSocket is closed where nobody caught what went wrong."""


class Watch:
    """ASGI middleware. Metrics name the route's template, never its path; a stream's time ends where it begins."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        if scope.get("method") == "HEAD":  # RFC 9110 §9.3.2: as GET; the server leaves the content out
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
        except asyncio.CancelledError:  # the server stops, and does not wait for it any longer
            if status:
                raise
            await answer(scope, Kind.STOPPING, "ask again, another process may answer", RETRY)(scope, receive, noting)
        except Exception as error:  # noqa: BLE001  whatever it is, the client gets a problem and the log a line
            defect = internal(error, scope)
            if not status:
                await defect(scope, receive, noting)
            elif status == SWITCHED:
                with suppress(Exception):  # it may have gone
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
    """What every answer says; the tenant's limit; the version, by native routes; whether memory is complete."""
    told = {**ALWAYS, **scope.get(LIMITS, {})}
    if not speaks(scope):
        told[HEADER] = HMX_VERSION
    whole: bool | None = scope.get(COMPLETE)
    if whole is not None:
        told[MEMORY_COMPLETE] = "true" if whole else "false"
    return [(name.lower().encode(), value.encode()) for name, value in told.items()]
