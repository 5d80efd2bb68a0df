"""In-memory search index of a tenant's corrections: by their sessions' goals, their text and their target.

Input: index entries of corrections by name. Output: the best names for a query; corrections that have nothing in common
with it are left out. Answers depend on the entries present, not on the order in which they came.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hmx_pipeline.retrieval.growable_array import GrowableArray
from hmx_pipeline.retrieval.memory_index import Corrected, Field, Hit, KnowledgeIndexEntry, Slots
from hmx_pipeline.retrieval.retrieval_plan import CORRECTIONS, RetrievalPlan
from hmx_pipeline.retrieval.terms import terms
from hmx_pipeline.segments.targets import Height, Name, Target, names_in

_GOAL, _SAID, _TARGET = 1.0, 0.5, 0.5
"""Weights of the fields, each divided by its best score."""
_HALVED: Final = 12
"""Number of newer corrections that halve the weight of recency."""
_AGAIN: Final = 0.5
"""Weight of the natural logarithm of the number of sessions."""
_SAME_AGENT: Final = 0.3
_ENOUGH: Final = 0.2
"""Share of the query's word weights that a correction must cover if all sections are asked for: one common word is not
enough."""
_UNIT: Final = 1_000_000
_IN_COMMON: Final = 0.5
BEST: Final = int(_UNIT * (_IN_COMMON + 1 + max(Height)))
"""The highest possible score, in units: something in common, plus the best similarity, plus the level at which the
target is named. Without a named target it is a quarter, which ranks below facts that answer the query."""
_NEVER: Final = np.iinfo(np.int64).min
_CARD_BYTES: Final = 1_700
"""Estimated bytes of a correction, besides its slot and texts."""


class Corrections:
    def __init__(self) -> None:
        self._slots: Slots[KnowledgeIndexEntry] = Slots()
        self._fields = (Field(), Field(), Field())
        self._at = GrowableArray(np.int64)
        self._taken = GrowableArray(np.bool_)
        self._sessions = GrowableArray(np.float64)
        self._targets = GrowableArray(np.int64)
        self._numbers: dict[str, int] = {}
        """Target → number."""
        self._called: defaultdict[Name, set[int]] = defaultdict(set)
        self._agents: defaultdict[str, set[int]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._slots.cards)

    @property
    def nbytes(self) -> int:
        return sum(field.nbytes for field in self._fields) + self._slots.nbytes + len(self) * _CARD_BYTES

    def put(self, cards: Iterable[tuple[str, KnowledgeIndexEntry | None]]) -> None:
        """Add or replace corrections; None removes one. Other records are ignored."""
        for name, card in cards:
            self._remove(name)
            if card is not None and card.correction is not None:
                self._add(name, card, card.correction)
        for field in self._fields:
            field.settle()

    def best(self, plan: RetrievalPlan) -> list[Hit]:
        """Return the highest scores, ties by name: the newest correction of each target, or all of a target that the
        query names. If only some sections are asked for, the agent's own corrections need not answer the query."""
        if not len(self):
            return []
        size = len(self._slots.names)
        shares = [_share(field.scores(plan.terms, size)) for field in self._fields]
        named, there = self._heights(names_in(plan.request.query)), self._there(plan)
        own = np.isin(np.arange(size), list(self._agents.get(plan.request.agent_id or "", ())))
        exactly = there & (named >= Height.FILE)
        found = np.flatnonzero((self._newest(there) & ((named > 0) | self._answers(plan, own))) | exactly)
        goal, said, target = (share[found] for share in shares)
        near = (
            _GOAL * goal
            + _SAID * said
            + _TARGET * target
            + 0.5 ** (_ranks(self._at.values[found]) / _HALVED)
            + _AGAIN * np.log(self._sessions.values[found])
            + _SAME_AGENT * own[found]
        )
        scores = np.zeros(size, np.int64)
        scores[found] = np.rint(_UNIT * (_IN_COMMON + near / near.max(initial=1.0) + named[found]))
        others = self._slots.best(found[~exactly[found]], scores, plan.corrections)
        return [*self._slots.best(found[exactly[found]], scores, CORRECTIONS), *others]

    def _answers(self, plan: RetrievalPlan, own: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which corrections are relevant without a named target."""
        covered = [field.scores(plan.terms, len(own)) / max(1, field.whole(plan.terms)) for field in self._fields]
        most: NDArray[np.float64] = np.maximum.reduce(covered)
        return most >= _ENOUGH if plan.request.sections is None else own | (most > 0)

    def _newest(self, there: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the newest correction of each target, or several that were said at once."""
        at, targets = self._at.values, self._targets.values
        last = np.full(len(self._numbers), _NEVER)
        np.maximum.at(last, targets[there], at[there])
        newest: NDArray[np.bool_] = there & (at == last[targets])
        return newest

    def _there(self, plan: RetrievalPlan) -> NDArray[np.bool_]:
        """Return the corrections that the subject may see, that have every label, and are no newer than `as_of`."""
        there = (
            self._taken.values.copy() if plan.as_of is None else self._taken.values & (self._at.values <= plan.as_of)
        )
        if (visible := self._slots.visible(plan.subject)) is not None:
            there &= visible
        if plan.labels:
            there &= [name in self._slots.cards and self._slots.has(name, plan.labels) for name in self._slots.names]
        return there

    def _heights(self, names: Sequence[Name]) -> NDArray[np.int64]:
        """Return the level at which each target is named; 0 if it is not."""
        heights = np.zeros(len(self._slots.names), np.int64)
        for name in sorted(names):
            if name in self._called:
                heights[list(self._called[name])] = name[0]
        return heights

    def _add(self, name: str, card: KnowledgeIndexEntry, correction: Corrected) -> None:
        slot = self._slots.take(name, card)
        for column, value in (
            (self._at, card.at),
            (self._taken, True),
            (self._sessions, max(1, correction.sessions)),
            (self._targets, self._numbers.setdefault(correction.target, len(self._numbers))),
        ):
            if slot == column.size:
                column.append([value])
            column.values[slot] = value
        for field, found in zip(self._fields, _texts(card, correction), strict=True):
            field.add(slot, found)
        for called in _target(correction).names:
            self._called[called].add(slot)
        for agent in correction.agents:
            self._agents[agent].add(slot)

    def _remove(self, name: str) -> None:
        gone = self._slots.release(name)
        if gone is None:
            return
        slot, card = gone
        assert card.correction is not None, "no other has a place here"
        self._taken.values[slot] = False
        for field, found in zip(self._fields, _texts(card, card.correction), strict=True):
            field.remove(slot, found)
        for called in _target(card.correction).names:
            self._called[called].discard(slot)
        for agent in card.correction.agents:
            self._agents[agent].discard(slot)


def _texts(card: KnowledgeIndexEntry, correction: Corrected) -> tuple[Mapping[str, int], ...]:
    return correction.goal, card.terms, Counter(terms(correction.target))


def _target(correction: Corrected) -> Target:
    return Target(correction.target, correction.tool)


def _share(scores: NDArray[np.int64]) -> NDArray[np.float64]:
    """Divide by the highest."""
    return scores / max(1, int(scores.max(initial=0)))


def _ranks(at: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return for each time how many are newer."""
    return (len(at) - np.searchsorted(np.sort(at), at, side="right")).astype(np.float64)
