"""Support and precedence: the steps that runs have in common, in the order they have in common. In: runs, each a
list of verbs. Out: the steps with their support, or None where there is no common procedure. Nothing fails.

Exact under noise where most-frequent variants and directly-follows paths are not, and a function of the multiset of
runs.
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
    verb: str
    support: float


class Mined(NamedTuple):
    steps: tuple[MinedStep, ...]
    agreement: float
    """0 where any order is as good as another, 1 where all runs agree."""


def mine(runs: Sequence[Sequence[str]]) -> Mined | None:
    """A step counts once per run, at its first place."""
    firsts = [{verb: i for i, verb in reversed(list(enumerate(run)))} for run in runs]
    support = Counter(verb for first in firsts for verb in first)
    least = (_SUPPORT_FEW if len(runs) < _MANY else _SUPPORT_MANY) * len(runs)
    kept = sorted(verb for verb, count in support.items() if count >= least)
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
    order = sorted(kept, key=lambda verb: (-wins[verb], -early[verb], verb))
    return Mined(tuple(MinedStep(verb, round(support[verb] / len(runs), 4)) for verb in order), agreement)


def _by_chance(runs: int) -> float:
    """How far from even a fair coin's throws are on average."""
    return min(sqrt(2 / (pi * runs)), 1 - _LEAST_AGREEMENT)


def share_with(lists: Sequence[Sequence[str]], item: str) -> float:
    return sum(item in one for one in lists) / len(lists) if lists else 0.0
