"""Relevance cutoff: the least relevance of an entry by kind of source, lower if the question names what memory knows.

Relevance is the share of the question's word weights that a source covers, so it can be compared with a constant. The
constants are calibrated on questions that the memory can answer and others that it cannot (tests/quality/README.md).
Words alone can match by chance. If a question names something that memory knows by name, it is about that thing,
whatever its other words are, so the cutoff is lower.
"""

from collections.abc import Sequence
from math import inf
from typing import Final, NamedTuple

from hmx_pipeline.compiler.knowledge.claim_names import TEAM, USER
from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.options import Filling
from hmx_pipeline.retrieval.fit import taken
from hmx_pipeline.retrieval.rerank import read
from hmx_pipeline.retrieval.retrieval_plan import RetrievalPlan
from hmx_pipeline.retrieval.score import FoundSource
from hmx_pipeline.retrieval.searchable import Document
from hmx_pipeline.retrieval.terms import terms

_OF_BUDGET: Final = 0.1
"""Share of the best relevance of its kind that a source needs, if the request asks to fill the budget."""
_LEAST: Final = 0.15
LEAST_IF_NAMED: Final = 0.1
"""Least relevance of any source, if the question names what memory knows by name."""
TAKES_IDS: Final = 0.5
"""Relevance of a procedure that takes ids like those in the question, as a share of the best procedure's. It needs no
common word."""
_NOBODY: Final = frozenset({USER, TEAM})


class Threshold(NamedTuple):
    """How relevant a source of one kind must be. If the best source is below the threshold, all match by chance."""

    strange: float
    """Threshold of the best source, if the question names nothing that memory knows."""
    familiar: float
    """The same, if the question names something that memory knows."""
    share: float = 0.35
    """Share of the best relevance of its kind that a source needs."""
    doubled: float = inf
    """After this many tokens of better sources the required share has doubled, which is its maximum: a further source
    costs as many tokens as they did, and adds less. If the question names nothing that memory knows, the share grows
    faster and further, by the ratio of the thresholds: the more text there is, the more of it matches by chance."""


OF_EPISODES: Final = Threshold(0.6, 0.2, 0.28, 3_600)
OF_ARTIFACTS: Final = Threshold(0.3, LEAST_IF_NAMED)
OF_KNOWLEDGE: Final = Threshold(0.4, LEAST_IF_NAMED)


class Cutoff(NamedTuple):
    fill: Filling
    familiar: bool
    """True if the question names what memory knows by name."""

    def least(self, kind: Threshold, best: float, spent: int = 0) -> float:
        """`best`: the relevance of the best of the kind; `spent`: the tokens of those that are better."""
        if self.fill is Filling.BUDGET:
            return _OF_BUDGET * best
        begins = kind.familiar if self.familiar else kind.strange
        pace = begins / kind.familiar
        share = kind.share * min(max(2, pace), 1 + pace * spent / kind.doubled)
        return begins if best < begins else max(LEAST_IF_NAMED if self.familiar else _LEAST, share * best)


def cutoff(
    fill: Filling,
    plan: RetrievalPlan,
    named: bool,
    episodes: Sequence[FoundSource[Document]],
    artifacts: Sequence[Artifact],
    knowledge: Sequence[KnowledgeRecord],
) -> Cutoff:
    familiar = (
        named
        or any(is_named(record, plan) for record in knowledge)
        or any(
            who and set(plan.terms).issuperset(terms(who))
            for who in {(each.made.about or read(each))[0] for each in episodes}
        )
        or (len(plan.shapes) > 0 and any(taken(each, plan.shapes) for each in artifacts))
    )
    return Cutoff(fill, familiar)


def is_named(record: KnowledgeRecord, plan: RetrievalPlan) -> bool:
    """Return True if the question names the record's subject, its owner, or a name in it."""
    subject = record.body.get("subject")
    whose = subject.partition("'s ")[0] if isinstance(subject, str) else ""
    found = terms(whose)
    if whose in _NOBODY or not found:
        return False
    return set(found).issubset(plan.terms) or not set(found).isdisjoint(plan.names)
