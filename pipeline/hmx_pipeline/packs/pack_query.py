"""Pack query: a request with what answering it needs besides the sources: the time, the weights and the cutoff.

Input: a request, its plan and what was fetched for it. Output: a `PackQuery`.
"""

from dataclasses import dataclass
from typing import TypeVar

from hmx_pipeline.contracts.options import Strategy
from hmx_pipeline.contracts.pack import DropReason, RankingWeights
from hmx_pipeline.contracts.timestamps import milliseconds
from hmx_pipeline.packs.assembly_strategies import Priors, favoured, weights_of
from hmx_pipeline.packs.candidates import Exclusion
from hmx_pipeline.packs.cutoff import Cutoff, cutoff
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.retrieval_plan import RetrievalPlan
from hmx_pipeline.retrieval.score import Components, MemorySnapshot, Shares, shares
from hmx_pipeline.retrieval.times import TimeSpan, time_reference

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PackQuery:
    """A request with the state that answers it."""

    request: PackRequest
    now: int
    """The newest event time, or `as_of`, in milliseconds."""
    time: TimeSpan | None
    """The time that the question mentions."""
    weights: RankingWeights
    shares: Shares
    priors: Priors | None
    plan: RetrievalPlan
    cutoff: Cutoff

    @property
    def focus(self) -> TimeSpan:
        return self.time or TimeSpan(self.now, None)

    @property
    def looks_back(self) -> bool:
        return self.request.as_of is not None

    def existed(self, at: int) -> bool:
        return not self.looks_back or at <= self.now

    def score(self, parts: Components, best: float, pattern: str, text: str) -> float:
        return self.favour(parts.mean(self.shares, best), pattern, text)

    def favour(self, score: float, pattern: str, text: str) -> float:
        return score if self.priors is None else favoured(self.priors, score, pattern, text)

    def unsure(self, confidence: float) -> Exclusion | None:
        if confidence >= self.request.min_confidence:
            return None
        return Exclusion(DropReason.LOW_RELEVANCE, f"a confidence of {confidence} is less than was asked for")

    def best(self, found: list[T], limit: int) -> list[T]:
        """Cut to the usual number. Found sources come best first, and `as_of` requests fetch more than they show."""
        return found[:limit] if self.looks_back else found


def asked(request: PackRequest, plan: RetrievalPlan, fetched: MemorySnapshot) -> PackQuery:
    now = fetched.newest if request.as_of is None else min(milliseconds(request.as_of), fetched.newest)
    weights = weights_of(request.strategy, request.weights)
    return PackQuery(
        request,
        now,
        time_reference(request.query, now),
        weights,
        shares(weights),
        fetched.priors if request.strategy is Strategy.FINGERPRINT_GUIDED else None,
        plan,
        cutoff(
            request.fill,
            plan,
            fetched.named,
            fetched.episodes,
            [found.source for found in fetched.artifacts],
            [found.source for found in fetched.knowledge],
        ),
    )
