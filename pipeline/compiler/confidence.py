"""How sure the evidence makes us: the Wilson lower bound over independent sessions. In: counts or contributions.
Out: 0 to 1, rounded to 1e-6. Nothing fails.

What has turned bad is told by the last sessions alone, or success of old would outweigh it for long.
"""

from collections.abc import Iterable
from math import sqrt
from typing import Final, NamedTuple

from pipeline.contracts.evidence import Contribution, SegmentOutcome

Z: Final = 1.2816
"""One-sided 90 %."""
RECENT: Final = 10
"""Sessions that tell whether it still works, the last ones by event time."""
FEW: Final = 5
"""With fewer than these nothing has been contradicted yet, only not shown."""
CONTRADICTED: Final = 0.3
"""Bound over the recent sessions below which it no longer works: 4 of 10, 2 of 5."""

Verdict = tuple[str, bool]
"""A session, and whether it went well there."""


class Tally(NamedTuple):
    """Sessions with a known end; a session counts once, by its last segment that has one."""

    successes: int
    sessions: int

    @property
    def bound(self) -> float:
        return wilson(self.successes, self.sessions)

    @property
    def rate(self) -> float | None:
        return round(self.successes / self.sessions, 4) if self.sessions else None


def wilson(successes: int, total: int) -> float:
    """Lower bound of a proportion; 0 where nothing was seen."""
    if total == 0:
        return 0.0
    p, zz = successes / total, Z * Z
    middle = p + zz / (2 * total)
    spread = Z * sqrt(p * (1 - p) / total + zz / (4 * total * total))
    return round(max(0.0, (middle - spread) / (1 + zz / total)), 6)


def tally(verdicts: Iterable[Verdict]) -> Tally:
    """Verdicts come in event-time order."""
    last = dict(verdicts)
    return Tally(sum(last.values()), len(last))


def recent(verdicts: Iterable[Verdict]) -> Tally:
    """Of the sessions whose last verdicts are the newest; verdicts come in event-time order."""
    last: dict[str, bool] = {}
    for session, well in verdicts:
        last.pop(session, None)
        last[session] = well
    kept = list(last.values())[-RECENT:]
    return Tally(sum(kept), len(kept))


def contradicted(lately: Tally) -> bool:
    """Whether the recent sessions speak against it."""
    return lately.sessions >= FEW and lately.bound < CONTRADICTED


def outcomes(contributions: Iterable[Contribution]) -> Tally:
    """Unknown outcomes count as neither."""
    return tally(verdicts(contributions))


def verdicts(contributions: Iterable[Contribution]) -> list[Verdict]:
    """How the segments ended, where that is known."""
    return [
        (c.session_id, c.outcome is SegmentOutcome.SUCCESS)
        for c in contributions
        if c.outcome is not SegmentOutcome.UNKNOWN
    ]
