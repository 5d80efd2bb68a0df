"""Whether a process still grows once its bounds are reached.

Enters: samples of a run. Leaves: a verdict for each process. The bounds are reached within the first third, the caches
have turned over within the second; the last third is judged.

- A process: the line of least squares through the last third may rise by 8 % of where it begins, or by 24 MB where that
  is more. An allocator that keeps what it has freed, and a collector that comes now and then, make some 5 %. What keeps
  as little as 500 bytes of each new name grows by more than that in twenty minutes.
- Redis holds every event under its id, and that is what it is for: there the bytes an event may not rise, by more than
  a quarter from the second third to the last.
- No process may exceed its limit at any time.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

MB: Final = 1024 * 1024
LIMITS: Final[Mapping[str, int]] = {
    "worker": 700 * MB, "materialiser": 500 * MB, "service": 900 * MB, "redis": 1024 * MB,
}  # fmt: skip
SHARE, LEAST = 0.08, 24 * MB
RISE: Final = 1.25


class Sample(NamedTuple):
    at: float
    """Seconds since the run began."""
    events: int
    taken: dict[str, int]
    """Bytes by process."""


class Verdict(NamedTuple):
    name: str
    most: int
    grown: float
    """Bytes in the last third; of Redis, the bytes of an event there as a share of those before."""
    failure: str
    """Empty where there is none."""


def judged(samples: Sequence[Sample]) -> list[Verdict]:
    """Raises ValueError for fewer than nine samples."""
    if len(samples) < 9:
        raise ValueError("too short a run to say anything")
    return [_of(name, samples) for name in samples[0].taken]


def _of(name: str, samples: Sequence[Sample]) -> Verdict:
    third = len(samples) // 3
    most, last = max(sample.taken[name] for sample in samples), samples[-third:]
    if name == "redis":
        before, after = _each(name, samples[third : 2 * third]), _each(name, last)
        grown = after / before if before > 0 else 1.0
        failure = f"an event takes {after:.0f} bytes, before {before:.0f}" if grown > RISE else ""
    else:
        begun, grown = _line([sample.at for sample in last], [sample.taken[name] for sample in last])
        allowed = max(SHARE * begun, LEAST)
        failure = f"grows by {grown / MB:.0f} MB, allowed are {allowed / MB:.0f}" if grown > allowed else ""
    if most > LIMITS[name]:
        failure = f"took {most / MB:.0f} MB, its limit is {LIMITS[name] / MB:.0f}"
    return Verdict(name, most, grown, failure)


def _each(name: str, samples: Sequence[Sample]) -> float:
    """Bytes an event of those that came meanwhile."""
    events = samples[-1].events - samples[0].events
    return (samples[-1].taken[name] - samples[0].taken[name]) / events if events else 0.0


def _line(at: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Of the line of least squares: where it begins, and by how much it rises."""
    middle, mean = sum(at) / len(at), sum(values) / len(values)
    slope = sum((x - middle) * (y - mean) for x, y in zip(at, values, strict=True)) / sum((x - middle) ** 2 for x in at)
    return mean + slope * (at[0] - middle), slope * (at[-1] - at[0])
