"""In-memory search index of a tenant's artifacts or knowledge records (BM25).

Input: index entries by name. Output: the best names for a query, and the newest of a kind. Answers depend on the
entries present, not on the order in which they came.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from hmx_pipeline.contracts.bounded_cache import nbytes
from hmx_pipeline.retrieval.growable_array import GrowableArray
from hmx_pipeline.retrieval.postings import FEW, asked_alone, asked_for, idf, impacts, typical

_TERM_BYTES: Final = 75
_HELD_BYTES: Final = 330
_CARD_BYTES: Final = 900
"""Estimated bytes of memory per term of an entry, term of a field, and entry, besides their texts."""


class Corrected(msgspec.Struct, frozen=True, array_like=True):
    """The indexed fields of a correction besides its text."""

    target: str
    tool: str
    sessions: int
    """Number of sessions in which it was said."""
    agents: tuple[str, ...]
    goal: dict[str, int]
    """Goal term of these sessions → number of sessions with it."""


class IndexEntry(msgspec.Struct, frozen=True, array_like=True):
    """The indexed fields of an artifact or knowledge record."""

    digest: bytes
    """Hash of the record as it was published."""
    kind: str
    """Empty if it no longer holds."""
    at: int
    """When it began to hold, in milliseconds."""
    labels: tuple[str, ...]
    terms: dict[str, int]
    """Term → occurrences."""
    subject: str = ""
    """Whose it is; empty if it is shared by the tenant."""


class KnowledgeIndexEntry(IndexEntry, frozen=True, array_like=True):
    """The indexed fields of a knowledge record."""

    correction: Corrected | None = None


class Ranked(IndexEntry, frozen=True, array_like=True):
    """The fields of an entry with a rank. If there are too many entries, those with the highest ranks are dropped."""

    rank: int = 0


class Hit(NamedTuple):
    name: str
    digest: bytes
    score: int


SomeCard = TypeVar("SomeCard", bound=IndexEntry)


class Slots(Generic[SomeCard]):
    """Index entries by name, each in a slot; free slots are reused."""

    def __init__(self) -> None:
        self.cards: dict[str, SomeCard] = {}
        self.names: list[str] = []
        self.nbytes = 0
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._subjects: dict[str, int] = {"": 0}
        """Subject → number; 0 stands for the whole tenant."""
        self._owners = GrowableArray(np.int32)
        """Whose the entry in each slot is, by number."""

    def take(self, name: str, card: SomeCard) -> int:
        slot = self._free.pop() if self._free else len(self.names)
        if slot == len(self.names):
            self.names.append(name)
            self._owners.append([0])
        self.names[slot] = name
        if card.subject not in self._subjects:
            self._subjects[card.subject] = len(self._subjects)
            self.nbytes += _TERM_BYTES + nbytes(card.subject)
        self._owners.values[slot] = self._subjects[card.subject]
        self.cards[name], self._slots[name] = card, slot
        self.nbytes += _card_bytes(card)
        return slot

    def release(self, name: str) -> tuple[int, SomeCard] | None:
        """Remove an entry; return its slot and the entry, or None if there is none."""
        card = self.cards.pop(name, None)
        if card is None:
            return None
        slot = self._slots.pop(name)
        self.nbytes -= _card_bytes(card)
        self._free.append(slot)
        return slot, card

    def visible(self, subject: str) -> NDArray[np.bool_] | None:
        """Return a mask of the slots that a subject may see: its own, and those that the whole tenant shares. An empty
        name sees only the shared ones. None if no entry belongs to a subject."""
        if len(self._subjects) == 1:
            return None
        owners = self._owners.values
        seen: NDArray[np.bool_] = (owners == 0) | (owners == self._subjects.get(subject, 0))
        return seen

    def has(self, name: str, labels: Sequence[str]) -> bool:
        return not labels or set(labels) <= set(self.cards[name].labels)

    def best(self, found: NDArray[np.intp], scores: NDArray[np.int64], limit: int) -> list[Hit]:
        """Return the highest scores among these slots, ties by name."""
        if len(found) > limit:
            least = np.partition(scores[found], len(found) - limit)[len(found) - limit]
            found = found[scores[found] >= least]
        names = [self.names[slot] for slot in found.tolist()]
        ranked = sorted(zip((-scores[found]).tolist(), names, strict=True))[:limit]
        return [Hit(name, self.cards[name].digest, -below) for below, name in ranked]


def _card_bytes(card: IndexEntry) -> int:
    told = card.correction if isinstance(card, KnowledgeIndexEntry) else None
    return _CARD_BYTES + nbytes(card.labels) + (0 if told is None else nbytes((told.target, told.tool, told.agents)))


class Field:
    """An inverted index of one text field: term → slot → occurrences."""

    def __init__(self) -> None:
        self._lengths = GrowableArray(np.float64)
        self._total = 0
        self._texts = 0
        self._holders: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._weighed: dict[str, tuple[NDArray[np.intp], NDArray[np.int64]]] = {}
        self._typical = 1.0
        self.nbytes = 0

    def add(self, slot: int, terms: Mapping[str, int]) -> None:
        if slot >= self._lengths.size:
            self._lengths.append(np.zeros(slot + 1 - self._lengths.size))
        self._lengths.values[slot] = sum(terms.values())
        self._count(terms, 1)
        for term, occurrences in terms.items():
            if term not in self._holders:
                self.nbytes += _HELD_BYTES + nbytes(term)
            self._holders[term][slot] = occurrences
            self._weighed.pop(term, None)

    def remove(self, slot: int, terms: Mapping[str, int]) -> None:
        self._count(terms, -1)
        for term in terms:
            holders = self._holders[term]
            del holders[slot]
            self._weighed.pop(term, None)
            if not holders:
                del self._holders[term]
                self.nbytes -= _HELD_BYTES + nbytes(term)

    def settle(self) -> None:
        """Recompute the average length after changes, which clears cached weights."""
        length = typical(self._total, self._texts)
        if length != self._typical:
            self._typical = length
            self._weighed.clear()

    def scores(self, terms: Sequence[str], slots: int) -> NDArray[np.int64]:
        """Return the BM25 score of each slot."""
        scores = np.zeros(slots, np.int64)
        for term in terms:
            if term in self._holders:
                found, weights = self._weights(term)
                scores[found] += weights * idf(len(found), self._among)
        return scores

    def whole(self, terms: Iterable[str]) -> int:
        """Return the weight of these terms in a question. A text that has all of them scores about as much."""
        return asked_for(self._holding(terms), self._among)

    def alone(self, terms: Iterable[str]) -> int:
        """Return their weight in a question that has no other terms."""
        return asked_alone(self._holding(terms), self._among)

    def _holding(self, terms: Iterable[str]) -> list[int]:
        return [len(self._holders.get(term, ())) for term in terms]

    @property
    def _among(self) -> int:
        return max(FEW, self._texts)

    def _count(self, terms: Mapping[str, int], sign: int) -> None:
        self._texts += sign
        self._total += sign * sum(terms.values())
        self.nbytes += sign * (_TERM_BYTES * len(terms) + sum(map(len, terms)))

    def _weights(self, term: str) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        known = self._weighed.get(term)
        if known is None:
            holders = self._holders[term]
            slots = np.fromiter(holders.keys(), np.intp, len(holders))
            occurrences: NDArray[Any] = np.fromiter(holders.values(), np.float64, len(holders))
            found = impacts(occurrences, self._lengths.values[slots], self._typical)
            known = self._weighed[term] = slots, found.astype(np.int64)
        return known


class MemoryIndex:
    def __init__(self) -> None:
        self._slots: Slots[IndexEntry] = Slots()
        self._text = Field()
        self._kinds: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        """Kind and subject → name → when it began to hold, in milliseconds."""

    def __len__(self) -> int:
        return len(self._slots.cards)

    @property
    def nbytes(self) -> int:
        return self._text.nbytes + self._slots.nbytes

    def put(self, cards: Iterable[tuple[str, IndexEntry | None]]) -> None:
        """Add or replace entries; None removes one."""
        for name, card in cards:
            gone = self._slots.release(name)
            if gone is not None:
                slot, before = gone
                self._text.remove(slot, before.terms)
                kept = self._kinds[before.kind, before.subject]
                del kept[name]
                if not kept:
                    del self._kinds[before.kind, before.subject]
            if card is not None:
                self._text.add(self._slots.take(name, card), card.terms)
                self._kinds[card.kind, card.subject][name] = card.at
        self._text.settle()

    def drop(self, goes: Callable[[str, IndexEntry], bool]) -> None:
        self.put([(name, None) for name, card in self._slots.cards.items() if goes(name, card)])

    def best(
        self, terms: Sequence[str], limit: int, labels: Sequence[str] = (), until: int | None = None, subject: str = ""
    ) -> list[Hit]:
        """Return the highest scores that the subject may see, ties by name. With `labels`: entries that have all of
        them; with `until`: entries no later than that."""
        scores = self._text.scores(terms, len(self._slots.names))
        visible = self._slots.visible(subject)
        found = np.flatnonzero(scores != 0 if visible is None else (scores != 0) & visible)
        if labels or until is not None:
            found = np.array([slot for slot in found.tolist() if self._among(slot, labels, until)], np.intp)
        return self._slots.best(found, scores, limit)

    def whole(self, terms: Sequence[str], *, dated: bool = False) -> int:
        """Return the score of an entry that contains all the terms; see EpisodeIndex.whole."""
        return self._text.whole(terms) if dated else self._text.alone(terms)

    def newest(self, kind: str, limit: int, labels: Sequence[str] = (), subject: str = "") -> list[Hit]:
        """Return the newest of a kind that the subject may see, ties by name; scored 0."""
        kept = (row for whose in {"", subject} for row in self._kinds.get((kind, whose), {}).items())
        found = [(-at, name) for name, at in kept if self._slots.has(name, labels)]
        return [Hit(name, self._slots.cards[name].digest, 0) for _, name in sorted(found)[:limit]]

    def _among(self, slot: int, labels: Sequence[str], until: int | None) -> bool:
        name = self._slots.names[slot]
        return (until is None or self._slots.cards[name].at <= until) and self._slots.has(name, labels)
