"""How sure the evidence makes us: the Wilson lower bound over independent sessions. In: counts or contributions.
Out: 0 to 1, rounded to 1e-6. Nothing fails.
"""

from collections.abc import Iterable
from math import sqrt
from typing import Final, NamedTuple

from pipeline.contracts.evidence import Contribution, SegmentOutcome

Z: Final = 1.2816
"""One-sided 90 %."""


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


def tally(verdicts: Iterable[tuple[str, bool]]) -> Tally:
    """Verdicts are (session, went well) in event-time order."""
    last = dict(verdicts)
    return Tally(sum(last.values()), len(last))


def outcomes(contributions: Iterable[Contribution]) -> Tally:
    """Unknown outcomes count as neither."""
    return tally(
        (c.session_id, c.outcome is SegmentOutcome.SUCCESS)
        for c in contributions
        if c.outcome is not SegmentOutcome.UNKNOWN
    )
