"""Statistics of association in 2×2 tables: Fisher's exact test, G², Mantel-Haenszel.

Input: counts, or `ContingencyTable`s of them, one a stratum. Output: p-values from 0 to 1 (`by_chance`, `tail`), and
chi-square statistics, rounded to 1e-6 (`g_squared`, `mantel_haenszel`).
"""

from collections.abc import Iterable
from math import comb, erfc, log, sqrt
from typing import NamedTuple


class ContingencyTable(NamedTuple):
    """Counts of an effect with its cause (`hit`, `missed`) and without (`other_hit`, `other_missed`)."""

    hit: int
    missed: int
    other_hit: int
    other_missed: int

    @property
    def shown(self) -> int:
        return self.hit + self.missed

    @property
    def others(self) -> int:
        return self.other_hit + self.other_missed


def by_chance(good: int, n: int, other_good: int, others: int) -> float:
    """Return the one-sided p-value of Fisher's exact test: the probability of at least `good` of `n` if all
    are alike."""
    all_good, everyone = good + other_good, n + others
    ways = sum(comb(all_good, k) * comb(everyone - all_good, n - k) for k in range(good, min(all_good, n) + 1))
    return ways / comb(everyone, n)


def pooled(tables: Iterable[ContingencyTable]) -> ContingencyTable:
    sums = [sum(column) for column in zip(*tables, strict=True)]
    return ContingencyTable(*sums) if sums else ContingencyTable(0, 0, 0, 0)


def g_squared(table: ContingencyTable) -> float:
    total = sum(table)
    rows = (table.shown, table.others)
    columns = (table.hit + table.other_hit, table.missed + table.other_missed)
    terms = [seen * log(seen * total / (rows[i // 2] * columns[i % 2])) for i, seen in enumerate(table) if seen]
    return round(max(0.0, 2 * sum(sorted(terms))), 6)


def mantel_haenszel(tables: Iterable[ContingencyTable]) -> float:
    """Return the Mantel-Haenszel chi-square over all strata; only cases of the same stratum are compared."""
    lead, spread = [], []
    for table in tables:
        total, hits = sum(table), table.hit + table.other_hit
        if total > 1:
            lead.append(table.hit - table.shown * hits / total)
            spread.append(table.shown * table.others * hits * (total - hits) / (total * total * (total - 1)))
    variance = sum(sorted(spread))
    return 0.0 if not variance else round(sum(sorted(lead)) ** 2 / variance, 6)


def tail(chi_square: float) -> float:
    """Return the p-value of a chi-square statistic with one degree of freedom."""
    return erfc(sqrt(chi_square / 2))
