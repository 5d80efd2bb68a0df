"""Sends what an agent does while it goes on: in order, in the background, within a bound.

Enters: captures, from any thread. Leaves: batches to `POST /v1/capture/batch`, sent again while the service is away.
The agent never waits and never fails for it; what could not be kept or was refused is counted.
"""

import atexit
import json
import logging
import multiprocessing.process
import os
import sys
import threading
import time
from collections import deque
from dataclasses import asdict, is_dataclass
from multiprocessing.util import Finalize
from typing import Any, Final
from weakref import WeakSet

from hmx_client import calls
from hmx_client.calls import HmxError
from hmx_client.clients import Client
from hmx_client.models import Json

WAITING_BYTES: Final = 32 * 1024 * 1024
"""What may wait for the service. Beyond it the newest is lost, so that what is sent has no holes before its end."""
BATCH_BYTES: Final = 4 * 1024 * 1024
BATCH_EVENTS: Final = 500
TOO_MANY: Final = 429
CLOSE_S: Final = 5.0
"""How long the end of the process waits for the service."""
_log: Final = logging.getLogger("hmx_client")


class Recorder:
    """`lost` counts captures that did not fit or were given up, `refused` those that the service did not take."""

    def __init__(self, client: Client, *, waiting_bytes: int = WAITING_BYTES) -> None:
        """`client` is best one that tries once: the recorder repeats by itself."""
        self._client = client
        self._room = waiting_bytes
        self._begin()
        _recorders.add(self)

    def _begin(self) -> None:
        self.lost = self.refused = 0
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing_at: float | None = None

    def tell(self, capture: Json) -> bool:
        """Keeps a capture as it is now. Never raises and never waits for the service. Returns False if it is lost."""
        said = _written(capture)
        with self._changed:
            if self._closing_at is not None or self._bytes + len(said) > self._room:
                self._lose(1, "the memory service is not reached fast enough, or the recorder is closed")
                return False
            self._waiting.append(said)
            self._bytes += len(said)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="hmx-recorder", daemon=True)
                self._thread.start()
                atexit.register(self.close)
                if multiprocessing.process.parent_process() is not None:  # ends without atexit
                    Finalize(self, self.close, exitpriority=1)
            self._changed.notify_all()
            return True

    def flush(self, timeout_s: float = CLOSE_S) -> bool:
        """Waits until everything told so far has been sent. Returns False if time runs out before."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting, timeout_s)

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Sends what still waits, for so long; the rest is lost and counted."""
        with self._changed:
            self._closing_at = time.monotonic() + timeout_s
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout_s)
            atexit.unregister(self.close)
        with self._changed:
            if self._waiting:
                self._lose(len(self._waiting), "the memory service did not answer before the end")
                self._waiting.clear()
                self._bytes = 0

    def _run(self) -> None:
        tried = 0
        while (batch := self._next()) and not self._over():
            try:
                refused = self._client.capture(b'{"events": [%b]}' % b",".join(batch))
            except HmxError as error:
                if error.status == TOO_MANY or not 400 <= error.status < 500:
                    tried += 1
                    self._rest(min(calls.LONGEST_S, 0.25 * 2 ** min(tried, 6)))
                    continue
                refused = len(batch)
                _log.warning("the memory service refused %d events: %s", refused, error.reason)
            tried = 0
            with self._changed:
                self.refused += refused
                for said in batch[: len(self._waiting)]:  # none if the recorder was closed meanwhile
                    self._waiting.popleft()
                    self._bytes -= len(said)
                self._changed.notify_all()

    def _next(self) -> list[bytes]:
        """Waits for captures and returns the first that fit into one request; none at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing_at is not None)
            batch: list[bytes] = []
            size = 0
            for said in self._waiting:
                size += len(said)
                if batch and (size > BATCH_BYTES or len(batch) == BATCH_EVENTS):
                    break
                batch.append(said)
            return batch

    def _over(self) -> bool:
        return self._closing_at is not None and time.monotonic() > self._closing_at

    def _rest(self, seconds: float) -> None:
        """Pauses before the next try; a recorder that is being closed pauses for a shorter time."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing_at is not None, seconds)
        if self._closing_at is not None:
            time.sleep(0.05)

    def _lose(self, count: int, why: str) -> None:
        if not self.lost:
            _log.warning("events for memory are lost: %s", why)
        self.lost += count


_recorders: Final = WeakSet[Recorder]()


def _forked() -> None:
    """Begins anew, before any thread can start: threads do not come along, and what waits is the parent's."""
    for recorder in _recorders:
        recorder._begin()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forked)


def plain(value: Any) -> Any:
    """Returns a value as JSON has it: models and dataclasses as objects, other types and numbers that JSON lacks as
    text."""
    try:
        return json.loads(json.dumps(value, default=_members, skipkeys=True), parse_constant=str)
    except Exception:  # noqa: BLE001  a cycle, too deep, or whatever a tool's own type raises when it is written
        return "a value that cannot be written as JSON"


def _members(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    dump = getattr(value, "model_dump", None)  # as pydantic's models have it
    return dump(mode="json") if callable(dump) and not isinstance(value, type) else str(value)


def _written(capture: Json) -> bytes:
    """Halves of characters, which no JSON may hold, become `?`: the service would refuse the whole batch for one."""
    return json.dumps(plain(capture), ensure_ascii=False).encode(errors="replace")
