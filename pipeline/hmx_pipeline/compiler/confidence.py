"""Confidence from evidence: the Wilson lower bound of a proportion over sessions (Wilson 1927), 0 to 1.

Input: verdicts in event-time order, each a session and whether it went well there. Output: a `Tally`, in which each
session counts once, by its last verdict; its `bound` is the confidence. Whether something stopped working is judged by
the last sessions only. Otherwise old successes would outweigh it for long.
"""

from collections.abc import Iterable
from math import sqrt
from typing import Final, NamedTuple

from hmx_pipeline.contracts.evidence import Contribution, SegmentOutcome

Z: Final = 1.2816
"""Quantile of a one-sided 90 % interval."""
RECENT: Final = 10
"""Number of last sessions, by event time, that show whether it still works."""
FEW: Final = 5
"""Fewest sessions that can contradict something."""
CONTRADICTED: Final = 0.3
"""Bound over the recent sessions below which it no longer works: 4 of 10, 2 of 5."""

Verdict = tuple[str, bool]
"""A session id, and whether it went well there."""


class Tally(NamedTuple):
    """Counts of sessions with a known outcome. Each session counts once, by its last such segment."""

    successes: int
    sessions: int

    @property
    def bound(self) -> float:
        return wilson(self.successes, self.sessions)

    @property
    def rate(self) -> float | None:
        return round(self.successes / self.sessions, 4) if self.sessions else None


def wilson(successes: int, total: int) -> float:
    """Return the Wilson lower bound, rounded to 1e-6; 0 without observations."""
    if total == 0:
        return 0.0
    p, zz = successes / total, Z * Z
    middle = p + zz / (2 * total)
    spread = Z * sqrt(p * (1 - p) / total + zz / (4 * total * total))
    return round(max(0.0, (middle - spread) / (1 + zz / total)), 6)


def tally(verdicts: Iterable[Verdict]) -> Tally:
    """Count verdicts, which come in event-time order."""
    last = dict(verdicts)
    return Tally(sum(last.values()), len(last))


def recent(verdicts: Iterable[Verdict]) -> Tally:
    """Count the sessions with the newest verdicts, which come in event-time order."""
    last: dict[str, bool] = {}
    for session, well in verdicts:
        last.pop(session, None)
        last[session] = well
    kept = list(last.values())[-RECENT:]
    return Tally(sum(kept), len(kept))


def contradicted(lately: Tally) -> bool:
    """Return True if the recent sessions contradict it."""
    return lately.sessions >= FEW and lately.bound < CONTRADICTED


def outcomes(contributions: Iterable[Contribution]) -> Tally:
    return tally(verdicts(contributions))


def verdicts(contributions: Iterable[Contribution]) -> list[Verdict]:
    """Return the known outcomes of the segments."""
    return [
        (c.session_id, c.outcome is SegmentOutcome.SUCCESS)
        for c in contributions
        if c.outcome is not SegmentOutcome.UNKNOWN
    ]
