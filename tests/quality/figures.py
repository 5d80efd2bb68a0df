"""A measured figure beside its baseline, and how sure it is: paired bootstrap over clusters, the same on every run.

Enters: per case a value, the baseline's value of the same case, and the cluster (a task, a session) that the case
belongs to: cases of one cluster rise and fall together, so whole clusters are drawn. Nothing fails.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

_DRAWS: Final = 2_000
_SEED: Final = 20_250_601
_CHUNK: Final = 100
LOW, HIGH = 2.5, 97.5


class Case(NamedTuple):
    cluster: str
    value: float
    baseline: float = 0.0


@dataclass(frozen=True)
class Bar:
    """What must hold of a figure; all that is given."""

    least: float | None = None
    over: float | None = None
    """The value is at least so much above the baseline."""
    proven: bool = False
    """The interval of the difference lies above 0."""
    most: float | None = None

    def met(self, figure: "Figure") -> bool:
        difference = None if figure.baseline is None else round(figure.value - figure.baseline, 4)
        return all(
            (
                self.least is None or figure.value >= self.least,
                self.most is None or figure.value <= self.most,
                self.over is None or (difference is not None and difference >= self.over),
                not self.proven or (difference is not None and figure.low is not None and figure.low > 0),
            )
        )

    def __str__(self) -> str:
        said = []
        if self.least is not None:
            said.append(f"≥ {self.least:g}")
        if self.most is not None:
            said.append(f"≤ {self.most:g}")
        if self.over is not None:
            said.append(f"≥ base + {self.over:g}" if self.over else "≥ base")
        if self.proven:
            said.append("interval > 0")
        return ", ".join(said)


@dataclass(frozen=True)
class Figure:
    """`low` and `high` are of the difference to the baseline, or of the value where there is none."""

    task: str
    set: str
    metric: str
    value: float
    baseline: float | None = None
    low: float | None = None
    high: float | None = None
    bar: Bar | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        return None if self.bar is None else self.bar.met(self)

    def as_json(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "set": self.set,
            "metric": self.metric,
            "value": self.value,
            "baseline": self.baseline,
            "low": self.low,
            "high": self.high,
            "bar": str(self.bar) if self.bar else None,
            "met": self.met,
        }


def mean(task: str, of: str, metric: str, cases: Sequence[Case], bar: Bar | None = None, note: str = "") -> Figure:
    """The mean over cases without a baseline."""
    totals = _totals(cases)
    values = totals[:, 1] / totals[:, 0]
    return Figure(task, of, metric, _mean(cases, 1), None, *_spread(values), bar, note)


def paired(task: str, of: str, metric: str, cases: Sequence[Case], bar: Bar | None = None, note: str = "") -> Figure:
    """The mean over cases beside the baseline's."""
    totals = _totals(cases)
    differences = (totals[:, 1] - totals[:, 2]) / totals[:, 0]
    return Figure(task, of, metric, _mean(cases, 1), _mean(cases, 2), *_spread(differences), bar, note)


def drawn(
    task: str,
    of: str,
    metric: str,
    clusters: Sequence[str],
    statistic: Callable[[Sequence[int]], tuple[float, float]],
    bar: Bar | None = None,
    note: str = "",
) -> Figure:
    """For what is no mean: `statistic` gets positions of cases and gives the value and the baseline's."""
    places: dict[str, list[int]] = {}
    for place, cluster in enumerate(clusters):
        places.setdefault(cluster, []).append(place)
    names = sorted(places)
    dice = np.random.Generator(np.random.PCG64(_SEED))
    value, baseline = statistic(range(len(clusters)))
    differences = []
    for _ in range(_DRAWS // 4):
        chosen = [place for number in dice.integers(0, len(names), len(names)) for place in places[names[number]]]
        one, other = statistic(chosen)
        differences.append(one - other)
    return Figure(task, of, metric, round(value, 4), round(baseline, 4), *_spread(np.array(differences)), bar, note)


def _mean(cases: Sequence[Case], place: int) -> float:
    return round(sum(sorted(float(case[place]) for case in cases)) / len(cases), 4)


def _totals(cases: Iterable[Case]) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Of each draw: how many cases, the sum of the values, of the baseline's."""
    clusters: dict[str, list[float]] = {}
    for case in cases:
        total = clusters.setdefault(case.cluster, [0.0, 0.0, 0.0])
        for place, value in enumerate((1.0, case.value, case.baseline)):
            total[place] += value
    each = np.array([clusters[name] for name in sorted(clusters)])
    dice = np.random.Generator(np.random.PCG64(_SEED))
    sums = []
    for _ in range(_DRAWS // _CHUNK):
        chosen = dice.integers(0, len(each), (_CHUNK, len(each)))
        sums.append(each[chosen].sum(axis=1))
    return np.concatenate(sums)


def _spread(values: "np.ndarray[Any, np.dtype[np.float64]]") -> tuple[float, float]:
    low, high = np.percentile(values, [LOW, HIGH])
    return round(float(low), 4), round(float(high), 4)


def area(scores: Sequence[tuple[float, bool]]) -> float:
    """The share of pairs of a success and a failure in which the success has the higher score; ties count half."""
    ordered = sorted(scores)
    good = sum(success for _, success in ordered)
    won = lost = place = 0
    while place < len(ordered):
        end = place
        while end < len(ordered) and ordered[end][0] == ordered[place][0]:
            end += 1
        successes = sum(success for _, success in ordered[place:end])
        failures = end - place - successes
        won += successes * (2 * lost + failures)
        lost += failures
        place = end
    return won / (2 * good * lost) if good and lost else 0.5
