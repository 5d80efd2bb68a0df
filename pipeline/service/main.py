"""The service process: listens at once, whether or not Kafka and Redis answer, until it is told to stop."""

import asyncio
import gc
import logging
import signal
import socket
import sys
from contextlib import suppress
from types import FrameType
from typing import Any, Final, Self

import uvicorn
from fastapi import FastAPI

from pipeline.observe.allocator import keep_little
from pipeline.observe.ending import end_in_time
from pipeline.observe.logs import configure_logs
from pipeline.service.app import create_app
from pipeline.service.connection import Connection, WebSocketConnection
from pipeline.service.frames import FRAME_BYTES
from pipeline.settings import Settings, SettingsError
from pipeline.store.blocks import StoreUnavailableError, connect, refuse_eviction

STOPPING_S: Final = 8
"""So long requests that are under way have."""
GIVE_UP_S: Final = 4.0
"""So long those have that wait for Kafka to take events."""


COLLECT: Final = (50_000, 20, 50)
"""What a request leaves behind is seldom a cycle, so the collector need not look after every few objects of it."""


def run_service(settings: Settings) -> None:
    """Until SIGTERM or SIGINT; requests under way are finished. Raises SettingsError, also for a Redis that may evict
    keys, and SystemExit for a taken port."""
    keep_little()
    configure_logs(settings.log_level, settings.log)
    with suppress(StoreUnavailableError):  # the service starts without Redis, and /readyz goes on asking
        refuse_eviction(connect(*settings.require_redis()))

    def stop(*_: Any) -> None:
        sys.exit(0)

    # The server takes the signals while it runs and hands them on when it has stopped.
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    logging.getLogger("uvicorn.error").addFilter(_not_of_refusals)
    app = create_app(settings)
    gc.set_threshold(*COLLECT)
    gc.freeze()  # what is here stays: no collection need look through it
    server = Server.of(app, host=settings.host, port=settings.service_port, log_level="warning", **_tls(settings))
    try:
        server.config.load()
    except OSError as error:
        raise SettingsError(f"HMX_TLS_CERTIFICATE or HMX_TLS_KEY can't be used: {error}") from None
    server.run()


def _tls(settings: Settings) -> dict[str, str]:
    if not settings.tls_certificate:
        return {}
    return {"ssl_certfile": settings.tls_certificate, "ssl_keyfile": settings.tls_key}


def _not_of_refusals(record: logging.LogRecord) -> bool:
    """The server takes each handshake that is refused with an answer for a defect."""
    return "without completing handshake" not in record.getMessage()


class Server(uvicorn.Server):
    """Ends streams when it is told to stop: they would go on, and be waited for."""

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
                ws_max_size=FRAME_BYTES,
                **listening,
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        end_in_time()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        app: Any = self.config.app
        app.state.following.stop()
        asyncio.get_running_loop().call_later(GIVE_UP_S, app.state.log.give_up)
        await super().shutdown(sockets)
