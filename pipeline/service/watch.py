"""Counts and times every request, tells how many its tenant has left, and answers for what nobody caught, so that no
trace gets past it."""

import time
from typing import Any, Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline.observe.metrics import METRICS
from pipeline.service.dialect.envelope import LIMITS, STARTED
from pipeline.service.problems import internal

UNMATCHED: Final = "unmatched"
GONE: Final = 499
"""Whoever asked has gone before the request was there: nobody is answered."""


class Watch:
    """ASGI middleware. Metrics name the route's template, never its path."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                limits: dict[str, str] = scope.get(LIMITS, {})
                message["headers"] = [
                    *message["headers"],
                    *((name.lower().encode(), value.encode()) for name, value in limits.items()),
                ]
            await send(message)

        started = scope[STARTED] = time.perf_counter()
        try:
            await self._app(scope, receive, noting)
        except ClientDisconnect:
            status = GONE
        except Exception as error:  # noqa: BLE001  whatever it is, the client gets a problem and the log a line
            answer = internal(error, scope)
            if not status:
                await answer(scope, receive, noting)
        route: Any = scope.get("route")
        name = getattr(route, "path", UNMATCHED)
        METRICS.requests.labels(name, status).inc()
        METRICS.request_seconds.labels(name).observe(time.perf_counter() - started)
