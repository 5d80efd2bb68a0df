"""Between the thread that follows the topics and a task that passes on to one client. Bounded: full once, it ends.

Enters: records, in the tail's thread. Leaves: what has come, to the task that waits for it; or why nothing more comes.
"""

import asyncio
import threading
from contextlib import suppress
from typing import Final

from pipeline.contracts.explained import Explained
from pipeline.contracts.limits import MB
from pipeline.kafka.stretches import Passing

RECORDS: Final = 2_000
RECORD: Final = 200
"""About what one takes beside its value."""
BYTES: Final = 8 * MB
ALL_BYTES: Final = 128 * MB
"""Of all streams of a process together: beyond it, a stream ends at its next record where its tenant's hold more than
an even share. So no tenant's stream ends for another's that is read more slowly, and all hold twice that at most."""
STALLED: Final = "stalled"
"""Whoever reads takes nothing any more, and can't be told."""


class Ending(Explained):
    """Why a stream ends, and what whoever reads it can do."""

    SLOW = "slow", "more came than was read: connect again, it goes on after the last id"
    REVOKED = "revoked", "the key opens this no more"
    STOPPING = "stopping", "the service stops: connect again, it goes on after the last id"
    KAFKA = "kafka_unavailable", "Kafka can't be read at the moment: connect again, it goes on after the last id"


class Room:
    """What the inboxes of a process hold, in bytes by tenant. Threads share one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, int] = {}
        self.total = 0

    def add(self, tenant: str, by: int) -> bool:
        """Whether the tenant may hold it: within its share always, and beyond it while there is room for all."""
        with self._lock:
            self.total += by
            held = self._held[tenant] = self._held.get(tenant, 0) + by
            shares = len(self._held)
            if not held:
                del self._held[tenant]
            return self.total <= ALL_BYTES or held * shares <= ALL_BYTES


class Inbox:
    """Belongs to the event loop that makes it."""

    def __init__(self, topics: frozenset[str], tenant: str, room: Room) -> None:
        self.topics = topics
        self._tenant = tenant
        self._room = room
        self._loop = asyncio.get_running_loop()
        self._filled = asyncio.Event()
        self._lock = threading.Lock()
        self._held: list[Passing] = []
        self._bytes = 0
        self.ending: Ending | None = None

    def take(self, record: Passing) -> bool:
        if record.place[0] not in self.topics:
            return True
        with self._lock:
            size = RECORD + len(record.value or b"")
            self._held.append(record)
            self._bytes += size
            if not self._room.add(self._tenant, size) or len(self._held) > RECORDS or self._bytes > BYTES:
                self._taken()
                self.ending = self.ending or Ending.SLOW
        self._wake()
        return self.ending is None

    def fail(self) -> None:
        self.ending = self.ending or Ending.KAFKA
        self._wake()

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop has ended, and the task with it
            self._loop.call_soon_threadsafe(self._filled.set)

    def end(self, why: Ending) -> None:
        """What it holds is not waited for."""
        self.ending = self.ending or why
        self._filled.set()

    def close(self) -> None:
        """Nobody reads it any more, and nothing more comes."""
        with self._lock:
            self._taken()

    @property
    def idle(self) -> bool:
        return not self._held and self.ending is None

    async def wait(self, at_most_s: float) -> list[Passing]:
        """What has come; nothing where nothing came in time, or nothing more will."""
        try:
            async with asyncio.timeout(at_most_s):
                await self._filled.wait()
        except TimeoutError:
            return []
        with self._lock:
            self._filled.clear()
            return self._taken()

    def _taken(self) -> list[Passing]:
        """Out of it, and out of the room; whoever calls holds the lock."""
        self._room.add(self._tenant, -self._bytes)
        taken, self._held, self._bytes = self._held, [], 0
        return taken
