"""Subscriber queue: bounded queue between the topic tail's thread and one client's stream.

Enters: records, in the tail's thread. Leaves: records to the waiting task, or a `StreamEnd`. A full queue ends the
stream.
"""

import asyncio
import threading
from contextlib import suppress
from typing import Final

from hmx_pipeline.contracts.codes import ExplainedCode
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.kafka.range_reader import PassingRecord

RECORDS: Final = 2_000
RECORD: Final = 200
"""Approximate bytes per record besides its value."""
BYTES: Final = 8 * MB
ALL_BYTES: Final = 128 * MB
"""Limit for all queues of a process. Beyond it, a stream ends at its next record if its tenant holds more than an even
share, so slow readers of one tenant cannot end another's streams. All queues hold twice this at most."""
STALLED: Final = "stalled"
"""Metrics label: the client stopped reading."""


class StreamEnd(ExplainedCode):
    """Why a stream ends, and what its reader can do."""

    SLOW = "slow", "records arrived faster than they were read: reconnect with Last-Event-ID"
    REVOKED = "revoked", "the key was revoked"
    STOPPING = "stopping", "the service is stopping: reconnect with Last-Event-ID"
    KAFKA = "kafka_unavailable", "Kafka can't be read: reconnect with Last-Event-ID"


class InboxMemory:
    """Bytes held by all queues of a process, by tenant. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, int] = {}
        self.total = 0

    def add(self, tenant: str, by: int) -> bool:
        """Adds bytes; returns whether the tenant is within its share or the total within its limit."""
        with self._lock:
            self.total += by
            held = self._held[tenant] = self._held.get(tenant, 0) + by
            shares = len(self._held)
            if not held:
                del self._held[tenant]
            return self.total <= ALL_BYTES or held * shares <= ALL_BYTES


class SubscriberQueue:
    """A queue for the event loop that creates it."""

    def __init__(self, topics: frozenset[str], tenant: str, room: InboxMemory) -> None:
        self.topics = topics
        self._tenant = tenant
        self._room = room
        self._loop = asyncio.get_running_loop()
        self._filled = asyncio.Event()
        self._lock = threading.Lock()
        self._held: list[PassingRecord] = []
        self._bytes = 0
        self.ending: StreamEnd | None = None

    def take(self, record: PassingRecord) -> bool:
        if record.place[0] not in self.topics:
            return True
        with self._lock:
            size = RECORD + len(record.value or b"")
            self._held.append(record)
            self._bytes += size
            if not self._room.add(self._tenant, size) or len(self._held) > RECORDS or self._bytes > BYTES:
                self._taken()
                self.ending = self.ending or StreamEnd.SLOW
        self._wake()
        return self.ending is None

    def fail(self) -> None:
        self.ending = self.ending or StreamEnd.KAFKA
        self._wake()

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._filled.set)

    def end(self, why: StreamEnd) -> None:
        """Ends the stream; queued records are dropped."""
        self.ending = self.ending or why
        self._filled.set()

    def close(self) -> None:
        """Discards the records; called when the client has gone."""
        with self._lock:
            self._taken()

    @property
    def idle(self) -> bool:
        return not self._held and self.ending is None

    async def wait(self, at_most_s: float) -> list[PassingRecord]:
        """Waits for records; empty after a timeout or at the end of the stream."""
        try:
            async with asyncio.timeout(at_most_s):
                await self._filled.wait()
        except TimeoutError:
            return []
        with self._lock:
            self._filled.clear()
            return self._taken()

    def _taken(self) -> list[PassingRecord]:
        """Removes and returns all records; the caller holds the lock."""
        self._room.add(self._tenant, -self._bytes)
        taken, self._held, self._bytes = self._held, [], 0
        return taken
