"""Scores of candidates: the weighted mean of relevance, recency, provenance and salience (HMX-C §5).

Input: fetched sources with raw BM25 scores. Output: components within 0…1, and their weighted mean, rounded to 1e-6.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.evidence import Contribution, Step
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.ledger import Reinforced
from hmx_pipeline.contracts.pack import RankingWeights
from hmx_pipeline.contracts.timestamps import milliseconds
from hmx_pipeline.retrieval.correction_index import BEST
from hmx_pipeline.retrieval.memory_completeness import WHOLE, Completeness
from hmx_pipeline.retrieval.searchable import Document
from hmx_pipeline.retrieval.times import TimeSpan

_HALVED_MS: Final = 7 * 24 * 3600 * 1000
_KEPT: Final = 0.9
"""Recency is 1 at the time in question, 0.9 ages away from it, and half-way between them a week away. So it decides
between sources that answer about as well, and does not outvote the answer."""
_FADING: Final = (1 - _KEPT) * _HALVED_MS
_SUPPORT: Final = 5
"""Number of observations that give an artifact half of the highest salience."""

Source = TypeVar("Source")
Shares = tuple[float, float, float, float]
"""Weights of relevance, recency, provenance and salience; they add up to 1."""


class Made(msgspec.Struct, gc=False):
    """What is made of a source whatever the query: its rendering; of an episode, what reranking reads."""

    shown: Any = None
    about: tuple[str, str, int] | None = None


class FoundSource(msgspec.Struct, Generic[Source], frozen=True, gc=False):
    """A source with its raw BM25 score, to which a vector search adds its own."""

    source: Source
    bm25: int
    sound: bool = True
    """False if its content does not match its hash, or all its sources have expired."""
    made: Made = msgspec.field(default_factory=Made)
    """Cached as long as the source is."""


class Whole(NamedTuple):
    """The BM25 score of a source that has everything the question asks for, by kind. 0 if unknown; then the best match
    counts as complete."""

    episodes: int = 0
    artifacts: int = 0
    knowledge: int = 0


UNKNOWN: Final = Whole()


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """A snapshot of a tenant's memory, as far as a plan asked for it."""

    state_version: str
    newest: int
    """Newest event time of the tenant, in milliseconds; 0 if it has no events."""
    episodes: tuple[FoundSource[Document], ...] = ()
    artifacts: tuple[FoundSource[Artifact], ...] = ()
    knowledge: tuple[FoundSource[KnowledgeRecord], ...] = ()
    policies: tuple[KnowledgeRecord, ...] = ()
    """The newest policies that hold, whatever was asked."""
    session: tuple[Step, ...] = ()
    """Recent steps of the running session, oldest first."""
    precedents: tuple[FoundSource[Contribution], ...] = ()
    """Contributions of similar sessions, the most similar first."""
    whole: Whole = UNKNOWN
    named: bool = False
    """True if memory knows most names in the question."""
    completeness: Completeness = WHOLE
    """Whether memory is filled completely."""
    failed: tuple[str, ...] = ()
    """Kinds and ids of records that matched but differ from what was published."""
    priors: Mapping[str, Mapping[str, float]] | None = None
    """Priors of an imported fingerprint: how much its `sections`, `patterns` and `terms` have mattered, 0 to 1."""
    ledger: Mapping[str, Reinforced] | None = None
    """What the reinforcement ledger says, by id of the source; None in the profile that leaves it aside."""


class Components(msgspec.Struct, frozen=True, gc=False):
    relevance: float
    recency: float
    provenance: float
    salience: float

    def mean(self, shares: Shares, best: float = 1.0) -> float:
        """Return the mean with relevance divided by `best`, the best relevance of the kind. So relevance decides the
        order even if no source answers much of the question, but then all scores are lower."""
        relevance, recency, provenance, salience = shares
        mean = (
            relevance * (self.relevance / (best or 1.0))
            + recency * self.recency
            + provenance * self.provenance
            + salience * self.salience
        )
        return round(mean * (1 + best) / 2, 6)


def shares(weights: RankingWeights) -> Shares:
    """Normalise the weights; equal ones if all are zero. Divides by the largest first, because a sum of huge weights
    would overflow."""
    asked = (weights.relevance, weights.recency, weights.provenance, weights.salience)
    largest = max(asked)
    scaled = [weight / largest if largest else 1.0 for weight in asked]
    whole = sum(scaled)
    relevance, recency, provenance, salience = (weight / whole for weight in scaled)
    return relevance, recency, provenance, salience


instant: Final = lru_cache(16_384)(milliseconds)
"""Sources repeat, and parsing their times costs more than scoring them."""


def recency(at: int, focus: TimeSpan) -> float:
    """Return the recency: 1 within the time that the question mentions, or now if it mentions none."""
    return _KEPT + _FADING / (_HALVED_MS + focus.distance(at))


def document_scores(
    found: Sequence[FoundSource[Document]], highest: int, focus: TimeSpan, weights: Shares, best: float
) -> list[tuple[float, Components, FoundSource[Document]]]:
    """Score episodes, with `Components.mean` and `recency` written out, since there are hundreds. `highest`: the BM25
    score with relevance 1; `best`: the best relevance. An episode's provenance is certain."""
    relevance, recent, certain, salient = weights
    divisor, factor = best or 1.0, 1 + best
    first, last = -inf if focus.start is None else focus.start, inf if focus.end is None else focus.end - 1
    scored = []
    for each in found:
        at, own, fits = each.source.at, each.source.salience, each.bm25 / highest
        away = first - at if at < first else at - last if at > last else 0
        near = _KEPT + _FADING / (_HALVED_MS + away)
        own = own if 0.0 < own <= 1.0 else min(1.0, max(0.0, own))
        mean = relevance * (fits / divisor) + recent * near + certain + salient * own
        scored.append((round(mean * factor / 2, 6), Components(fits, near, 1.0, own), each))
    return scored


def artifact_components(source: Artifact, relevance: float, focus: TimeSpan) -> Components:
    seen = source.observed_count if source.observed_count is not None else len(source.source_events)
    at = instant(source.created_at)
    salience = _salience(seen, source.metadata.get("salience"))
    return Components(relevance, recency(at, focus), source.confidence, salience)


def _salience(seen: int, told: Any) -> float:
    """Return the mean of how often it was seen and what its events say of themselves."""
    often = seen / (seen + _SUPPORT)
    return (often + told) / 2 if isinstance(told, int | float) else often


def knowledge_components(found: FoundSource[KnowledgeRecord], highest: int, focus: TimeSpan) -> Components:
    source = found.source
    at = instant((source.validity.start if source.validity else None) or source.created_at)
    told = source.body.get("properties", {}).get("importance", source.body.get("salience"))
    salience = _salience(len(source.source_events), told)
    return Components(found.bm25 / highest, recency(at, focus), source.confidence, salience)


def correction_components(found: FoundSource[KnowledgeRecord], focus: TimeSpan) -> Components:
    """Score a correction. Its salience is that of one observation, because relevance already counts its sessions."""
    parts = knowledge_components(found, BEST, focus)
    return Components(parts.relevance, parts.recency, parts.provenance, 1 / (1 + _SUPPORT))
