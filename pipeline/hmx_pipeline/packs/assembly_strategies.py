"""Assembly strategies: ranking weights, and the order in which sections are filled (HMX-C §5).

`ranked` follows the weights. `recency_biased` puts what is near the time in question before better matches.
`breadth_first` gives every section an entry before any gets one more. `depth_first` fills the section with the most
relevance before the others get more than one. `fingerprint_guided` prefers what a fingerprint found to matter.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from hmx_pipeline.contracts.options import Section, Strategy
from hmx_pipeline.contracts.pack import RankingWeights
from hmx_pipeline.packs.budget import Fill, OpenSection, RemainingBudget, by_shares, place
from hmx_pipeline.retrieval.terms import terms

_RECENT: Final = 20.0
"""Weight of recency against all else together. Its values span a tenth of theirs, so it must be large."""
_DEPTH: Final = 8
"""How many candidates count towards a section's depth."""
_UNKNOWN: Final = 0.5
"""Prior of what the fingerprint does not mention."""

Priors = Mapping[str, Mapping[str, float]]
"""`sections`, `patterns` and `terms`: how much each has mattered, 0 to 1."""


def weights_of(strategy: Strategy, asked: RankingWeights) -> RankingWeights:
    if strategy is not Strategy.RECENCY_BIASED:
        return asked
    others = {"relevance": asked.relevance, "provenance": asked.provenance, "salience": asked.salience}
    largest = max(others.values()) or 1.0
    shares = {name: value / largest for name, value in others.items()}
    whole = (1 + _RECENT) * sum(sorted(shares.values())) or 1.0
    scaled = {name: round(share / whole, 6) for name, share in shares.items()}
    return RankingWeights(recency=round(_RECENT / (1 + _RECENT), 6), **scaled)


def fill_of(strategy: Strategy) -> Fill:
    return {Strategy.BREADTH_FIRST: in_turns, Strategy.DEPTH_FIRST: deepest_first}.get(strategy, by_shares)


def in_turns(opened: Sequence[OpenSection], room: RemainingBudget) -> None:
    """Give each section one more entry in turn, until nothing fits."""
    placed = True
    while placed:
        placed = False
        for section in opened:
            fitting = next((each for each in section.waiting if each.tokens <= room.tokens), None)
            placed = (fitting is not None and place(section, fitting, room.tokens, room)) or placed


def deepest_first(opened: Sequence[OpenSection], room: RemainingBudget) -> None:
    """Fill the section with the most relevance first; ties go to the earlier section."""
    if opened:
        deepest = max(opened, key=_depth)
        for each in list(deepest.waiting):
            if each.tokens <= room.tokens:
                place(deepest, each, room.tokens, room)
    by_shares(opened, room)


def _depth(section: OpenSection) -> float:
    best = sorted((each.relevance for each in section.offer.candidates), reverse=True)[:_DEPTH]
    return round(sum(best), 6)


def section_weight(priors: Priors | None, section: Section, weight: int) -> int:
    """Return the weight in hundredths, scaled by the section's prior."""
    if priors is None:
        return weight * 100
    return round(weight * 100 * (_UNKNOWN + priors.get("sections", {}).get(section, _UNKNOWN)))


def favoured(priors: Priors, score: float, pattern: str, text: str) -> float:
    """Scale a score by its prior, between half and all of it. A known pattern counts as much as all terms together."""
    known = priors.get("terms", {})
    told = sorted(known[term] for term in set(terms(text)) if term in known)
    found = [sum(told) / len(told)] if told else []
    if pattern in priors.get("patterns", {}):
        found.append(priors["patterns"][pattern])
    prior = sum(found) / len(found) if found else _UNKNOWN
    return round(score * (1 + prior) / 2, 6)
