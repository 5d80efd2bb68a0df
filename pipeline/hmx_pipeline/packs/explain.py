"""Explanation of a pack: why each entry is in it, and why each drop is not.

Its output, `Explained`, stands in the pack's metadata if the request asks for it.
"""

from collections.abc import Mapping, Sequence, Set
from typing import Final, NamedTuple

import msgspec

from hmx_pipeline.contracts import pack
from hmx_pipeline.contracts.options import SourceType
from hmx_pipeline.packs.budget import Fill, Offer, allocate
from hmx_pipeline.packs.candidates import EntryCandidate
from hmx_pipeline.retrieval.terms import terms

_STEP: Final = 4
"""Each larger budget that is tried exceeds the last one by a quarter."""


class Drop(msgspec.Struct, frozen=True, gc=False):
    candidate: EntryCandidate
    reason: pack.DropReason
    because: str


class Offered(NamedTuple):
    """What the budget was spread over, and how."""

    offers: Sequence[Offer]
    fill: Fill
    total: int


def explained(
    placed: Sequence[EntryCandidate],
    drops: Sequence[Drop],
    offered: Offered,
    weights: pack.RankingWeights,
    query: Set[str],
    related: Set[str],
    believed: Mapping[str, str],
) -> pack.Explained:
    """Explain entries and listed drops. `query`: the stems of the question; `related`: near stems, which also find
    episodes. `believed`: why, by the id of a statement."""
    budgets = _budgets(
        offered, {drop.candidate.key for drop in drops if drop.reason is pack.DropReason.BUDGET_EXCEEDED}
    )
    whole = sum(offer.weight for offer in offered.offers if offer.candidates) or 1
    return pack.Explained(
        weights=weights,
        sections={offer.section.value: round(offer.weight / whole, 6) for offer in offered.offers if offer.candidates},
        entries=[
            pack.EntryExplained(
                rank=rank,
                source_id=each.source_id,
                matched=_matched(each, query, related),
                score=_score(each),
                believed=believed.get(each.source_id),
            )
            for rank, each in enumerate(placed, 1)
        ],
        drops=[
            pack.DropExplained(
                rank=rank,
                source_id=drop.candidate.source_id,
                matched=_matched(drop.candidate, query, related),
                score=_score(drop.candidate),
                believed=believed.get(drop.candidate.source_id),
                because=drop.because,
                budget=budgets.get(drop.candidate.key) if drop.reason is pack.DropReason.BUDGET_EXCEEDED else None,
            )
            for rank, drop in enumerate(drops, len(placed) + 1)
        ],
    )


def _matched(candidate: EntryCandidate, query: Set[str], related: Set[str]) -> list[str]:
    told = query | related if candidate.source_type is SourceType.EPISODE else query
    return sorted(told & set(terms(candidate.text)))


def _score(candidate: EntryCandidate) -> pack.Score | None:
    parts = candidate.parts
    if parts is None:
        return None
    return pack.Score(
        relevance=round(parts.relevance, 6),
        recency=round(parts.recency, 6),
        provenance=round(parts.provenance, 6),
        salience=round(parts.salience, 6),
    )


def _budgets(offered: Offered, wanted: Set[tuple[str, str, str]]) -> dict[tuple[str, str, str], int]:
    """Map each wanted key to the first tried budget at which the entry is placed whole."""
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
