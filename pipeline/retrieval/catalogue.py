"""A tenant's artifacts, or its knowledge, as they are searched: each is replaced as a whole, or goes. Pure.

Enters: cards by name. Leaves: the best names of a query, and the newest of a kind. Nothing fails. The answer depends on
the cards that are there, not on how they came.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.retrieval.growing import Growing
from pipeline.retrieval.postings import idf, impacts, typical

_TERM_BYTES: Final = 60
_CARD_BYTES: Final = 500
"""About what a term of a card, and the card, take in memory."""


class Card(msgspec.Struct, frozen=True, array_like=True):
    """What is searched of one artifact or knowledge record."""

    digest: bytes
    """Of the record as it was published."""
    kind: str
    """Empty where it does not hold any more."""
    at: int
    """Since when it holds, milliseconds."""
    labels: tuple[str, ...]
    terms: dict[str, int]
    """How often each stands in it."""


class Ranked(Card, frozen=True, array_like=True):
    """What is searched of one of many, of which those with the lowest ranks are there."""

    rank: int


class Hit(NamedTuple):
    name: str
    digest: bytes
    score: int


class Catalogue:
    """Cards by name, and where each term stands."""

    def __init__(self) -> None:
        self._cards: dict[str, Card] = {}
        self._slots: dict[str, int] = {}
        self._names: list[str] = []
        self._free: list[int] = []
        self._lengths = Growing(np.float64)
        self._total = 0
        self._holders: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._weighed: dict[str, tuple[NDArray[np.intp], NDArray[np.int64]]] = {}
        self._typical = 1.0
        self._terms = 0

    def __len__(self) -> int:
        return len(self._cards)

    @property
    def nbytes(self) -> int:
        return self._terms * _TERM_BYTES + len(self._cards) * _CARD_BYTES

    def put(self, cards: Iterable[tuple[str, Card | None]]) -> None:
        """None where a name has no card any more."""
        for name, card in cards:
            self._remove(name)
            if card is not None:
                self._add(name, card)
        length = typical(self._total, len(self._cards))
        if length != self._typical:
            self._typical = length
            self._weighed.clear()

    def drop(self, goes: Callable[[str, Card], bool]) -> None:
        self.put([(name, None) for name, card in self._cards.items() if goes(name, card)])

    def best(self, terms: Sequence[str], limit: int, labels: Sequence[str] = (), until: int | None = None) -> list[Hit]:
        """The highest scores, ties by name; with `labels`, of cards that have them all, with `until`, of those that
        are no later."""
        scores = np.zeros(len(self._names), np.int64)
        for term in terms:
            if term in self._holders:
                slots, weights = self._weights(term)
                scores[slots] += weights * idf(len(slots), len(self._cards))
        found = np.flatnonzero(scores)
        if labels or until is not None:
            found = np.array([slot for slot in found.tolist() if self._among(slot, labels, until)], np.intp)
        if len(found) > limit:
            least = np.partition(scores[found], len(found) - limit)[len(found) - limit]
            found = found[scores[found] >= least]
        hits = [Hit(self._names[slot], b"", int(scores[slot])) for slot in found.tolist()]
        ranked = sorted(hits, key=lambda hit: (-hit.score, hit.name))[:limit]
        return [hit._replace(digest=self._cards[hit.name].digest) for hit in ranked]

    def newest(self, kind: str, limit: int, labels: Sequence[str] = ()) -> list[Hit]:
        """Those of a kind that began to hold last, ties by name; scored 0."""
        found = [
            (-card.at, name)
            for name, card in self._cards.items()
            if card.kind == kind and (not labels or self._has(name, labels))
        ]
        return [Hit(name, self._cards[name].digest, 0) for _, name in sorted(found)[:limit]]

    def _among(self, slot: int, labels: Sequence[str], until: int | None) -> bool:
        name = self._names[slot]
        return (until is None or self._cards[name].at <= until) and self._has(name, labels)

    def _has(self, name: str, labels: Sequence[str]) -> bool:
        return set(labels) <= set(self._cards[name].labels)

    def _weights(self, term: str) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        known = self._weighed.get(term)
        if known is None:
            holders = self._holders[term]
            slots = np.fromiter(holders.keys(), np.intp, len(holders))
            occurrences: NDArray[Any] = np.fromiter(holders.values(), np.float64, len(holders))
            found = impacts(occurrences, self._lengths.values[slots], self._typical)
            known = self._weighed[term] = slots, found.astype(np.int64)
        return known

    def _add(self, name: str, card: Card) -> None:
        slot = self._free.pop() if self._free else len(self._names)
        if slot == len(self._names):
            self._names.append(name)
            self._lengths.append([0.0])
        length = _length(card.terms)
        self._names[slot] = name
        self._lengths.values[slot] = length
        self._cards[name], self._slots[name] = card, slot
        self._total += length
        self._terms += len(card.terms)
        for term, occurrences in card.terms.items():
            self._holders[term][slot] = occurrences
            self._weighed.pop(term, None)

    def _remove(self, name: str) -> None:
        card = self._cards.pop(name, None)
        if card is None:
            return
        slot = self._slots.pop(name)
        self._free.append(slot)
        self._total -= _length(card.terms)
        self._terms -= len(card.terms)
        for term in card.terms:
            holders = self._holders[term]
            del holders[slot]
            self._weighed.pop(term, None)
            if not holders:
                del self._holders[term]


def _length(terms: Mapping[str, int]) -> int:
    return sum(terms.values())
