"""`/livez`, `/readyz` and `/metrics` of a process without a web framework."""

import logging
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

LOG: Final = logging.getLogger("hmx.health")
Check = Callable[[], tuple[bool, str]]
"""Whether it holds, and one line that says why not."""


def serve_health(host: str, port: int, live: Check, ready: Check) -> ThreadingHTTPServer:
    """Serves in a daemon thread until the process ends. Raises OSError when the port is taken."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, generate_latest(), CONTENT_TYPE_LATEST)
            elif self.path in ("/livez", "/readyz"):
                holds, why = (live if self.path == "/livez" else ready)()
                self._answer(200 if holds else 503, f"{why}\n".encode(), "text/plain; charset=utf-8")
            else:
                self._answer(404, b"/livez, /readyz, /metrics\n", "text/plain; charset=utf-8")

        def _answer(self, status: int, body: bytes, content_type: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class names it so
            LOG.debug(format, *args)

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server
