"""Consumer lag of a reader, in records and in seconds. Pure.

Input: a reader's position, the end of the log, and times (ms) before the oldest unread record. Output: `Behind`, and
whether each lag is within a bound in seconds. The append time of an unread record is unknown. Its upper bound is the
time of the last record read, or the last moment when nothing was left to read.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Behind(NamedTuple):
    """Lag of one partition of one reader."""

    where: str
    position: int
    records: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.where}: {self.seconds:.1f} s behind, {self.records:,} records, at offset {self.position:,}"


def behind(where: str, position: int, end: int, since_ms: Iterable[int], now_ms: int) -> Behind:
    """Computes the lag. `since_ms` are times (ms) known to be before the append of the oldest unread record."""
    records = max(0, end - position)
    seconds = max(0.0, (now_ms - max(since_ms, default=now_ms)) / 1000) if records else 0.0
    return Behind(where, position, records, seconds)


def verdict(found: list[Behind], most_s: float) -> tuple[bool, str]:
    """Returns whether every lag is at most `most_s`, and text that names the late ones or else the worst."""
    late = sorted((each for each in found if each.seconds > most_s), key=lambda each: -each.seconds)
    if late:
        return False, "\n".join((f"more than {most_s:.0f} s behind:", *map(str, late)))
    worst = max(found, key=lambda each: each.seconds, default=None)
    if worst is None or not worst.records:
        return True, "nothing is behind"
    return True, str(worst)
