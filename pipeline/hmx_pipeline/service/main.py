"""Service process: starts without waiting for Kafka or Redis, and runs until it is told to stop.

Enters: settings. Leaves: a process in which uvicorn serves `service/app`. Raises SettingsError, also if Redis may evict
keys, and SystemExit if the port is taken.
"""

import asyncio
import logging
import signal
import socket
import sys
from contextlib import suppress
from types import FrameType
from typing import Any, Final, Self

import uvicorn
from fastapi import FastAPI

from hmx_pipeline.observe.allocator import collect_seldom, keep_little
from hmx_pipeline.observe.logs import configure_logs
from hmx_pipeline.observe.shutdown import end_in_time
from hmx_pipeline.service.app import create_app
from hmx_pipeline.service.connection import Connection, WebSocketConnection
from hmx_pipeline.service.processes import inherited
from hmx_pipeline.service.websocket import FRAME_BYTES
from hmx_pipeline.settings import Settings, SettingsError
from hmx_pipeline.store.atomic_blocks import StoreUnavailableError, refuse_eviction
from hmx_pipeline.store.servers import connected

STOPPING_S: Final = 8
"""Seconds that running requests get to finish."""
IDLE_S: Final = 75
"""Seconds that an idle connection lasts: longer than clients keep theirs (Node 4, httpx 5, aiohttp 15). If it ended
first, a request that a client sends at that moment would fail."""
TICK_S: Final = 0.5
GIVE_UP_S: Final = 4.0
"""Seconds that requests get to wait for Kafka's acknowledgement."""


def run_service(settings: Settings, listening: int | None = None) -> None:
    """Runs until SIGTERM or SIGINT, then finishes running requests. `listening`: the number of a socket that it shares
    with others, besides its own port. Raises SettingsError, also if Redis may evict keys, and SystemExit if the port is
    taken."""
    keep_little()
    configure_logs(settings.log_level, settings.log)
    with suppress(StoreUnavailableError):  # the service starts without Redis; /readyz keeps checking
        for client in connected(settings):
            refuse_eviction(client)

    def stop(*_: Any) -> None:
        sys.exit(0)

    # uvicorn handles the signals while it runs and passes them on afterwards.
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    logging.getLogger("uvicorn.error").addFilter(_not_of_refusals)
    app = create_app(settings)
    collect_seldom()
    server = HttpServer.of(app, host=settings.host, port=settings.service_port, log_level="warning", **_tls(settings))
    try:
        server.config.load()
    except OSError as error:
        raise SettingsError(f"HMX_TLS_CERTIFICATE or HMX_TLS_KEY can't be used: {error}") from None
    server.run(None if listening is None else [server.config.bind_socket(), inherited(listening)])


def _tls(settings: Settings) -> dict[str, str]:
    if not settings.tls_certificate:
        return {}
    return {"ssl_certfile": settings.tls_certificate, "ssl_keyfile": settings.tls_key}


def _not_of_refusals(record: logging.LogRecord) -> bool:
    """Filters uvicorn's errors about refused WebSocket handshakes, which are no defect."""
    return "without completing handshake" not in record.getMessage()


class HttpServer(uvicorn.Server):
    """Ends streams at shutdown, which would otherwise be waited for."""

    @classmethod
    def of(cls, app: FastAPI, **listening: Any) -> Self:
        return cls(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                http=Connection,
                ws=WebSocketConnection,
                timeout_graceful_shutdown=STOPPING_S,
                timeout_keep_alive=IDLE_S,
                ws_max_size=FRAME_BYTES,
                **listening,
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        end_in_time()
        super().handle_exit(sig, frame)

    async def main_loop(self) -> None:
        """Looks less often than uvicorn's own, which ticks ten times a second."""
        while not await self.on_tick(0):  # noqa: ASYNC110  its flags are set by a signal's handler
            await asyncio.sleep(TICK_S)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        app: Any = self.config.app
        app.state.following.stop()
        asyncio.get_running_loop().call_later(GIVE_UP_S, app.state.log.give_up)
        await super().shutdown(sockets)
