"""Clients that read streams for a while and go: Server-Sent Events of a tenant, and exports as NDJSON.

Enters: where the service is. Some read at once, one reads so slowly that its inbox is full and the service ends it.
"""

import threading
import time
from contextlib import suppress
from typing import Final

import httpx

from tests.soak.traffic import TENANTS

READERS: Final = 8
"""At the same time, each of another tenant."""
STREAM_S: Final = 15.0


class Readers:
    def __init__(self, url: str, over: threading.Event) -> None:
        self._url = url
        self._over = over
        self.read = 0
        """Bytes that came."""

    def follow(self, reader: int) -> None:
        """One stream after the other; every fourth reader takes next to nothing of each."""
        number = reader
        while not self._over.wait(0.2):
            number += 1
            path = "/v1/hmx/events" if number % 3 == 0 else "/v1/hmx/stream"
            self._once(path, f"tenant-{number % TENANTS}", slow=reader % 4 == 3)

    def _once(self, path: str, tenant: str, *, slow: bool) -> None:
        until, headers = time.monotonic() + STREAM_S, {"X-HMX-Tenant": tenant}
        with (
            suppress(httpx.HTTPError),
            httpx.Client(base_url=self._url, timeout=STREAM_S) as client,
            client.stream("GET", path, headers=headers) as answer,
        ):
            for part in answer.iter_bytes():
                self.read += len(part)
                if time.monotonic() > until or self._over.wait(1.0 if slow else 0.0):
                    break
