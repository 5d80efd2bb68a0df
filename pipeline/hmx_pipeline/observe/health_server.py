"""Health server: `/livez`, `/startupz`, `/readyz` and `/metrics` of a process without a web framework.

Enters: a `Health`, an address and a port. Leaves: 200 or 503 with a reason in a few lines, and metrics as text. Raises
SettingsError if it can't listen there. Live: it makes progress or is idle. Started: it has restored its state and
works. Ready: its output is fresh enough. Any Host header is accepted, since nothing here belongs to a tenant or can be
changed.
"""

import logging
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Protocol

from prometheus_client import CONTENT_TYPE_LATEST

from hmx_pipeline.observe.logs import said
from hmx_pipeline.observe.metrics import exposition
from hmx_pipeline.settings import SettingsError

LOG: Final = logging.getLogger("hmx.health")
TEXT: Final = "text/plain; charset=utf-8"
Answer = tuple[bool, str]
"""Whether the check passes, and a reason in a few lines."""


class Health(Protocol):
    def live(self) -> Answer: ...

    def started(self) -> Answer: ...

    def ready(self) -> Answer: ...

    def refresh(self) -> None:
        """Sets the gauges before they are read."""


class HealthServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Logs quietly that a client closed early, where the base class would print a traceback."""
        LOG.debug("a request failed: %s", said(sys.exc_info()[1] or OSError("gone")))


def serve_health(host: str, port: int, health: Health) -> ThreadingHTTPServer:
    """Serves in a daemon thread. Raises SettingsError if it can't listen there."""
    checks: dict[str, Callable[[], Answer]] = {
        "/livez": health.live,
        "/startupz": health.started,
        "/readyz": health.ready,
    }

    class HealthHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, exposition(health.refresh), CONTENT_TYPE_LATEST)
            elif self.path in checks:
                holds, why = checks[self.path]()
                self._answer(200 if holds else 503, f"{why}\n".encode(), TEXT)
            else:
                self._answer(404, f"{', '.join(checks)}, /metrics\n".encode(), TEXT)

        def _answer(self, status: int, body: bytes, content_type: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
            LOG.debug(format, *args)

    try:
        server = HealthServer((host, port), HealthHandler)
    except OSError as error:
        detail = (
            f"can't listen on {host}:{port}: {error.strerror}. Set HMX_HOST or this process's HMX_…_PORT: `hmx doctor`"
        )
        raise SettingsError(detail) from None
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server
