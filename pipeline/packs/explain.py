"""Why each entry is in a pack, and why each drop is out of it. Pure.

Enters: what was placed and dropped, and what was offered for it. Leaves: `Explained`, which stands in the pack's
metadata where it was asked for. Nothing fails.
"""

from collections.abc import Sequence, Set
from typing import Final, NamedTuple

from pipeline.contracts.pack import (
    DropExplained,
    DropReason,
    EntryExplained,
    Explained,
    RankingWeights,
    Score,
    SourceType,
)
from pipeline.packs.budget import Fill, Offer, allocate
from pipeline.packs.candidates import Candidate
from pipeline.retrieval.terms import terms

_STEP: Final = 4
"""A larger budget is tried a quarter above the last one."""


class Drop(NamedTuple):
    candidate: Candidate
    reason: DropReason
    because: str


class Offered(NamedTuple):
    """What the budget was spread over, and how."""

    offers: Sequence[Offer]
    fill: Fill
    total: int


def explained(
    placed: Sequence[Candidate],
    drops: Sequence[Drop],
    offered: Offered,
    weights: RankingWeights,
    query: Set[str],
    related: Set[str],
) -> Explained:
    """`drops` are those that are listed, in their order; `query`: the stems of the question, `related`: those near to
    them, by which episodes are found too."""
    budgets = _budgets(offered, {drop.candidate.key for drop in drops if drop.reason is DropReason.BUDGET_EXCEEDED})
    whole = sum(offer.weight for offer in offered.offers if offer.candidates) or 1
    return Explained(
        weights=weights,
        sections={offer.section.value: round(offer.weight / whole, 6) for offer in offered.offers if offer.candidates},
        entries=[
            EntryExplained(
                rank=rank, source_id=each.source_id, matched=_matched(each, query, related), score=_score(each)
            )
            for rank, each in enumerate(placed, 1)
        ],
        drops=[
            DropExplained(
                rank=rank,
                source_id=drop.candidate.source_id,
                matched=_matched(drop.candidate, query, related),
                score=_score(drop.candidate),
                because=drop.because,
                budget=budgets.get(drop.candidate.key) if drop.reason is DropReason.BUDGET_EXCEEDED else None,
            )
            for rank, drop in enumerate(drops, len(placed) + 1)
        ],
    )


def _matched(candidate: Candidate, query: Set[str], related: Set[str]) -> list[str]:
    told = query | related if candidate.source_type is SourceType.EPISODE else query
    return sorted(told & set(terms(candidate.text)))


def _score(candidate: Candidate) -> Score | None:
    parts = candidate.parts
    if parts is None:
        return None
    return Score(
        relevance=round(parts.relevance, 6),
        recency=round(parts.recency, 6),
        provenance=round(parts.provenance, 6),
        salience=round(parts.salience, 6),
    )


def _budgets(offered: Offered, wanted: Set[tuple[str, str, str]]) -> dict[tuple[str, str, str], int]:
    """For each a budget at which it is in, whole: the first of those tried, and each was tried."""
    everything = sum(each.tokens for offer in offered.offers for each in offer.candidates)
    found: dict[tuple[str, str, str], int] = {}
    total = offered.total
    while total < everything and len(found) < len(wanted):
        total = min(everything, total + total // _STEP + 1)
        placed = allocate(offered.offers, total, fill=offered.fill).placed
        for each in placed:
            if each.key in wanted and not each.is_cut:
                found.setdefault(each.key, total)
    return found
