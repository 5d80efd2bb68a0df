"""What a capture leaves out of an event and the service adds: its id, its time and its place in its session (Y07).

The sequence is a hybrid logical clock: milliseconds since 2020 and a counter of 4,096 within each, below 2^53 until
2089, so that no store can lose a digit. It never repeats in one process, goes on after a restart and needs no store. It
says only in which order events came: each event says so, and no window waits for its gaps.
"""

import secrets
import time
import uuid
from collections.abc import Callable
from typing import Final, NamedTuple

from pipeline.contracts.ids import content_id

EPOCH_MS: Final = 1_577_836_800_000
"""2020-01-01T00:00:00Z"""
COUNTER_BITS: Final = 12


class Minted(NamedTuple):
    sequence: int
    ms: int
    """When that is, milliseconds since 1970; it never goes back, whatever the machine's clock does."""


LONGEST: Final = Minted(2**53 - 1, EPOCH_MS)
"""As long as one can be, written out: what fits with it fits with any."""


def machine_ms() -> int:
    return time.time_ns() // 1_000_000


class Clock:
    """Not for several threads at once."""

    def __init__(self, now_ms: Callable[[], int] = machine_ms) -> None:
        self._now_ms = now_ms
        self._last = 0

    def next(self) -> Minted:
        """After every one before. More than 4,096 in a millisecond run ahead of the machine's clock."""
        self._last = max(self._last + 1, (self._now_ms() - EPOCH_MS) << COUNTER_BITS)
        return Minted(self._last, (self._last >> COUNTER_BITS) + EPOCH_MS)


def random_id(ms: int) -> str:
    """A UUIDv7."""
    value = (ms & 0xFFFFFFFFFFFF) << 80 | 7 << 76 | secrets.randbits(12) << 64 | 0b10 << 62 | secrets.randbits(62)
    return str(uuid.UUID(int=value))


def keyed_id(tenant_id: str, session_id: str, idempotency_key: str) -> str:
    """The same for the same key of a session, whoever mints it: a second capture is a duplicate downstream too."""
    return content_id(0, "capture", tenant_id, session_id, idempotency_key)
