"""Candidates and their scores: relevance, recency, provenance and salience, weighted (HMX-C §5). Pure.

Enters: what was fetched, with raw BM25. Leaves: components within 0…1 and their weighted mean, rounded to 1e-6.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from pipeline.contracts.artifact import Artifact
from pipeline.contracts.evidence import Contribution, Step
from pipeline.contracts.instants import milliseconds
from pipeline.contracts.knowledge import KnowledgeRecord
from pipeline.contracts.pack import RankingWeights
from pipeline.retrieval.completeness import WHOLE, Completeness
from pipeline.retrieval.corrections import BEST
from pipeline.retrieval.documents import Document
from pipeline.retrieval.times import Span

_HALVED_MS: Final = 7 * 24 * 3600 * 1000
_KEPT: Final = 0.9
"""Recency is 1 at the time in question, this ages away from it, and half-way between them a week away: it is to decide
between what answers about as well, not to outvote the answer."""
_SUPPORT: Final = 5
"""An artifact observed this often is half as salient as one can be."""

Source = TypeVar("Source")
Shares = tuple[float, float, float, float]
"""Of relevance, recency, provenance and salience; together 1."""


class Made(msgspec.Struct, gc=False):
    """What a pack has made of a source that does not depend on what was asked."""

    shown: Any = None


class Found(msgspec.Struct, Generic[Source], frozen=True, gc=False):
    """A source with its raw BM25 score, and what its vector adds where the question has one."""

    source: Source
    bm25: int
    sound: bool = True
    """Its content is what its hash says, and not everything that it rests on has outlived its time."""
    made: Made = msgspec.field(default_factory=Made)
    """Whoever keeps the source keeps it too."""


class Whole(NamedTuple):
    """What the question asks for, in each kind's BM25: a source that has all of it scores about as much. 0 where that
    is not known: then the best match has all of it."""

    episodes: int = 0
    artifacts: int = 0
    knowledge: int = 0


UNKNOWN: Final = Whole()


@dataclass(frozen=True, slots=True)
class Fetched:
    """One snapshot of a tenant's memory, as far as a plan asked for it."""

    state_version: str
    newest: int
    """Newest event time of the tenant in milliseconds; 0 when nothing is there."""
    episodes: tuple[Found[Document], ...] = ()
    artifacts: tuple[Found[Artifact], ...] = ()
    knowledge: tuple[Found[KnowledgeRecord], ...] = ()
    policies: tuple[KnowledgeRecord, ...] = ()
    """The newest that hold, whatever was asked."""
    session: tuple[Step, ...] = ()
    """Recent steps of the asking session, oldest first."""
    precedents: tuple[Found[Contribution], ...] = ()
    """What past sessions did that were like it, the most alike first."""
    whole: Whole = UNKNOWN
    named: bool = False
    """Memory knows most names of the question."""
    completeness: Completeness = WHOLE
    """Whether memory holds all that it is to hold."""
    failed: tuple[str, ...] = ()
    """Kind and id of records that matched and are not what was published."""
    priors: Mapping[str, Mapping[str, float]] | None = None
    """Of an imported fingerprint: how much each of its `sections`, `patterns` and `terms` has mattered, 0 to 1."""


class Components(msgspec.Struct, frozen=True, gc=False):
    relevance: float
    recency: float
    provenance: float
    salience: float

    def score(self, weights: RankingWeights) -> float:
        """The mean by weight; equal weights where all are zero."""
        return self.mean(shares(weights))

    def mean(self, shares: Shares, best: float = 1.0) -> float:
        """`best`: the relevance of the best of its kind. Beside it relevance decides who comes first, however little of
        the question any answers; and where that is little, the score is lower."""
        relevance, recency, provenance, salience = shares
        mean = (
            relevance * (self.relevance / (best or 1.0))
            + recency * self.recency
            + provenance * self.provenance
            + salience * self.salience
        )
        return round(mean * (1 + best) / 2, 6)


def shares(weights: RankingWeights) -> Shares:
    """Against the largest first: the sum of huge weights would overflow."""
    asked = (weights.relevance, weights.recency, weights.provenance, weights.salience)
    largest = max(asked)
    scaled = [weight / largest if largest else 1.0 for weight in asked]
    whole = sum(scaled)
    relevance, recency, provenance, salience = (weight / whole for weight in scaled)
    return relevance, recency, provenance, salience


def recency(at: int, focus: Span) -> float:
    """1 within the time that the question is about, which is now if it names none."""
    return _KEPT + (1 - _KEPT) * _HALVED_MS / (_HALVED_MS + focus.distance(at))


def document_components(found: Found[Document], highest: int, focus: Span) -> Components:
    """`highest`: the score that is worth 1. An episode is what happened: its provenance is certain."""
    source = found.source
    return Components(found.bm25 / highest, recency(source.at, focus), 1.0, min(1.0, max(0.0, source.salience)))


def artifact_components(source: Artifact, relevance: float, focus: Span) -> Components:
    seen = source.observed_count if source.observed_count is not None else len(source.source_events)
    at = milliseconds(source.created_at)
    return Components(relevance, recency(at, focus), source.confidence, seen / (seen + _SUPPORT))


def knowledge_components(found: Found[KnowledgeRecord], highest: int, focus: Span) -> Components:
    source = found.source
    at = milliseconds((source.validity.start if source.validity else None) or source.created_at)
    seen = len(source.source_events)
    return Components(found.bm25 / highest, recency(at, focus), source.confidence, seen / (seen + _SUPPORT))


def correction_components(found: Found[KnowledgeRecord], focus: Span) -> Components:
    """As salient as what is said once: in how many sessions it was said is part of how near it is."""
    parts = knowledge_components(found, BEST, focus)
    return Components(parts.relevance, parts.recency, parts.provenance, 1 / (1 + _SUPPORT))
