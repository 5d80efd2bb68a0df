"""Bounded counts by name, and shares.

Input: name → count or weight, and how many names stay. Output: the most frequent, with the rest under "" (`folded`), or
weights of which the largest is 1 (`scaled`).
"""

from collections.abc import Mapping
from typing import Final

from hmx_pipeline.compiler.usage_counts import REST

DIGITS: Final = 6
"""Digits to which shares are rounded."""


def kept(counts: Mapping[str, int], bound: int) -> frozenset[str]:
    """Return the most frequent names."""
    return frozenset(sorted((name for name in counts if name != REST), key=lambda n: (-counts[n], n))[:bound])


def folded(counts: Mapping[str, int], bound: int, names: frozenset[str] | None = None) -> dict[str, int]:
    """Keep the most frequent, or those of `names`, by name. The others are counted under "", so the sum stays."""
    names = kept(counts, bound) if names is None else names
    told = {name: counts[name] for name in sorted(names)}
    rest = sum(counts.values()) - sum(told.values())
    return {**told, REST: rest} if rest else told


def share(part: int, whole: int) -> float | None:
    return round(part / whole, DIGITS) if whole else None


def scaled(weights: Mapping[str, float], bound: int) -> dict[str, float]:
    """Scale the largest weights so that the largest is 1; by name."""
    largest = max(weights.values(), default=0.0)
    if largest <= 0:
        return {}
    best = sorted(weights, key=lambda name: (-round(weights[name], DIGITS), name))[:bound]
    return {name: round(weights[name] / largest, DIGITS) for name in sorted(best)}
