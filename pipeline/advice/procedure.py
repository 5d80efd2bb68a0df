"""procedure: what sessions with such a goal do, step by step. In: experience, a goal. Out: a sequence of verbs that a
session really ran, or none. Nothing fails.

Of all variants the one that is least wrong on average if the session goes as those like it went (minimum Bayes risk):
neither the most frequent one, which is rarely the middle, nor a sequence put together that nobody ever ran.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, TypeVar

from pipeline.advice.experience import Experience, Variant
from pipeline.contracts.limits import MB
from pipeline.contracts.remembered import remembered

T = TypeVar("T")

_FAILED: Final = 0.5
"""A session that failed shows half as well what is to be done."""


_ANYONE: Final = 0.001
"""What a session shows that wanted something else: where no word tells goals apart, all are alike."""


def procedure(known: Experience, goal: Iterable[str], classes: frozenset[str]) -> Variant:
    weights: dict[Variant, float] = defaultdict(float)
    for like, course, variant in zip(known.likeness(goal, classes), known.courses, known.variants, strict=True):
        if variant:
            weights[variant] += (_ANYONE + like * like) * (_FAILED if course.success is False else 1.0)
    return least_risk(weights)


def least_risk(weights: dict[Variant, float]) -> Variant:
    """The variant that agrees best with all, each by its weight; of equals the first by name."""
    ordered = sorted((variant, weight) for variant, weight in weights.items() if weight > 0)
    best: tuple[float, Variant] = (0.0, ())
    for candidate in sorted(weights):
        score = round(sum(weight * agreement(candidate, other) for other, weight in ordered), 6)
        if score > best[0]:
            best = (score, candidate)
    return best[1]


def agreement(one: Variant, other: Variant) -> float:
    """0 to 4: the same tools, the same steps one after the other, the same order."""
    return _agreement(*sorted((one, other)))


@remembered(16 * MB)
def _agreement(one: Variant, other: Variant) -> float:
    return 2 * f1(set(one), set(other)) + f1(set(pairwise(one)), set(pairwise(other))) + order_shared(one, other)


def f1(one: set[T], other: set[T]) -> float:
    return 2 * len(one & other) / (len(one) + len(other)) if one or other else 1.0


def order_shared(one: Sequence[str], other: Sequence[str]) -> float:
    """The longest common subsequence, as a share of the longer one."""
    row = [0] * (len(other) + 1)
    for a in one:
        before = 0
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], before + 1 if a == b else max(row[j], row[j - 1])
    return row[-1] / max(len(one), len(other), 1)
