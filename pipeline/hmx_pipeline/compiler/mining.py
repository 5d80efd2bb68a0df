"""Process mining by support and precedence: the common steps of several runs, in their common order.

Input: runs, each the names of its steps in order (`compiler/strategy_template` gives phases); the order of the runs
does not matter. Output: the common steps, each with its support (share of the runs), and how far the runs agree on
their order; None without a common procedure. Unlike most-frequent variants or directly-follows graphs, this tolerates
noise.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from math import pi, sqrt
from typing import Final, NamedTuple

_MANY: Final = 20
_SUPPORT_FEW: Final = 0.5
_SUPPORT_MANY: Final = 0.4
LEAST_STEPS: Final = 2
_LEAST_AGREEMENT: Final = 0.2


class MinedStep(NamedTuple):
    name: str
    support: float


class Mined(NamedTuple):
    steps: tuple[MinedStep, ...]
    agreement: float
    """Agreement on the order: 0 if it is random, 1 if all runs agree."""


def mine(runs: Sequence[Sequence[str]]) -> Mined | None:
    """Mine the runs. A step counts once per run, where it first occurs."""
    firsts = [{name: i for i, name in reversed(list(enumerate(run)))} for run in runs]
    support = Counter(name for first in firsts for name in first)
    least = (_SUPPORT_FEW if len(runs) < _MANY else _SUPPORT_MANY) * len(runs)
    kept = sorted(name for name, count in support.items() if count >= least)
    if len(kept) < LEAST_STEPS:
        return None
    wins: Counter[str] = Counter()
    early: Counter[str] = Counter()
    agreements = []
    for a, b in combinations(kept, 2):
        ahead = [first[a] < first[b] for first in firsts if a in first and b in first]
        lead = 2 * sum(ahead) - len(ahead)
        early[a] += sum(ahead)
        early[b] += len(ahead) - sum(ahead)
        if lead:
            wins[a if lead > 0 else b] += 1
            wins[b if lead > 0 else a] -= 1
        if ahead:
            agreements.append(abs(lead) / len(ahead) - _by_chance(len(ahead)))
    agreement = round(sum(sorted(agreements)) / len(agreements), 4) if agreements else 0.0
    if agreement < _LEAST_AGREEMENT:
        return None
    order = sorted(kept, key=lambda name: (-wins[name], -early[name], name))
    return Mined(tuple(MinedStep(name, round(support[name] / len(runs), 4)) for name in order), agreement)


def _by_chance(runs: int) -> float:
    """Return how far fair coin throws are expected to deviate from an even split, as a share."""
    return min(sqrt(2 / (pi * runs)), 1 - _LEAST_AGREEMENT)


def share_with(lists: Sequence[Sequence[str]], item: str) -> float:
    """Return the share of the lists, of tags or phases, that hold the item."""
    return sum(item in one for one in lists) / len(lists) if lists else 0.0
