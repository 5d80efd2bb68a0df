"""How far a reader is behind: in records, and in seconds at most. Pure but for what it is told.

Of a record that has not been read the append time is not known, only that it came after what was read last, and after
the moment at which nothing was left to read.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Behind(NamedTuple):
    """One partition of one reader."""

    where: str
    position: int
    records: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.where}: {self.seconds:.1f} s behind, {self.records:,} records, at offset {self.position:,}"


def behind(where: str, position: int, end: int, since_ms: Iterable[int], now_ms: int) -> Behind:
    """`since_ms`: moments that are known to lie before the oldest unread record's append, milliseconds."""
    records = max(0, end - position)
    seconds = max(0.0, (now_ms - max(since_ms, default=now_ms)) / 1000) if records else 0.0
    return Behind(where, position, records, seconds)


def verdict(found: list[Behind], most_s: float) -> tuple[bool, str]:
    """Whether none is behind by more than that; the lines name those that are, or else the one that is most."""
    late = sorted((each for each in found if each.seconds > most_s), key=lambda each: -each.seconds)
    if late:
        return False, "\n".join((f"more than {most_s:.0f} s behind:", *map(str, late)))
    worst = max(found, key=lambda each: each.seconds, default=None)
    if worst is None or not worst.records:
        return True, "nothing is behind"
    return True, str(worst)
