"""How much of a question a source must answer so that it helps: below that, nothing of it is an entry. Pure.

Enters: the question, and what was found for it. Leaves: of each kind of source the least relevance. Nothing fails.
Relevance is the share of what the question's words weigh in this memory, so it can be held against a number. The
numbers are calibrated on questions about nothing that memory knows, beside those of which the answer is known
(tests/quality/README.md). Words alone can agree by chance; a question that names somebody or something that this
memory knows by name is about it, however else it is put.
"""

from collections.abc import Sequence
from math import inf
from typing import Final, NamedTuple

from pipeline.compiler.knowledge.naming import TEAM, USER
from pipeline.contracts.artifact import Artifact
from pipeline.contracts.knowledge import KnowledgeRecord
from pipeline.contracts.pack import Filling
from pipeline.retrieval.documents import Document
from pipeline.retrieval.fit import takes
from pipeline.retrieval.plan import Plan
from pipeline.retrieval.terms import terms
from pipeline.segments.speakers import speaker_of

_OF_BUDGET: Final = 0.1
"""The same for who wants all that fits."""
_LEAST: Final = 0.15
ANY: Final = 0.1
"""Of what is named, or is about what is named."""
TAKES_IDS: Final = 0.5
"""Of the best procedure that takes ids like those of the question: it needs no word in common beyond that."""
_NOBODY: Final = frozenset({USER, TEAM})


class Threshold(NamedTuple):
    """The best of a kind must have this, or all of the kind is by chance: where nothing is named, and where it is."""

    strange: float
    familiar: float
    share: float = 0.35
    """Of the best of its kind: what answers less well than that stands behind it."""
    doubled: float = inf
    """Tokens of the better ones beside which the next must have twice that share, which is the most that is asked: it
    costs as much, and adds less."""


OF_EPISODES: Final = Threshold(0.6, 0.2, 0.28, 3_600)
OF_ARTIFACTS: Final = Threshold(0.4, ANY)
OF_KNOWLEDGE: Final = Threshold(0.4, ANY)


class Cutoff(NamedTuple):
    fill: Filling
    familiar: bool
    """The question names what memory knows by name."""

    def least(self, kind: Threshold, best: float, spent: int = 0) -> float:
        """`best`: the relevance of the best of the kind; `spent`: the tokens of those that are better."""
        if self.fill is Filling.BUDGET:
            return _OF_BUDGET * best
        begins = kind.familiar if self.familiar else kind.strange
        share = kind.share * min(2, 1 + spent / kind.doubled)
        return begins if best < begins else max(ANY if self.familiar else _LEAST, share * best)


def cutoff(
    fill: Filling,
    plan: Plan,
    named: bool,
    episodes: Sequence[Document],
    artifacts: Sequence[Artifact],
    knowledge: Sequence[KnowledgeRecord],
) -> Cutoff:
    familiar = (
        named
        or any(is_named(record, plan) for record in knowledge)
        or any(who and set(plan.terms).issuperset(terms(who)) for who in {speaker_of(each.text) for each in episodes})
        or any(takes(each.content.get("slots", {}), plan.shapes) for each in artifacts)
    )
    return Cutoff(fill, familiar)


def is_named(record: KnowledgeRecord, plan: Plan) -> bool:
    """Whether the question names whose the record is, or what it is about, or a name in that."""
    subject = record.body.get("subject")
    whose = subject.partition("'s ")[0] if isinstance(subject, str) else ""
    found = terms(whose)
    if whose in _NOBODY or not found:
        return False
    return set(found).issubset(plan.terms) or not set(found).isdisjoint(plan.names)
