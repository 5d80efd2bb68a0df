"""BM25 index of a tenant's episodes, in which the turns of a session lend each other their words.

Input: rows and postings as they were appended, in pieces. Output: the best documents for a query. Term weights are kept
and updated for new documents, with the same result as reading everything at once. Only the order within a partition
matters, and to ties only the order within a session.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hmx_pipeline.retrieval.growable_array import GrowableArray
from hmx_pipeline.retrieval.postings import (
    FEW,
    OFFSET_BITS,
    POSTING,
    ROW,
    asked_alone,
    asked_for,
    idf,
    impacts,
    typical,
    unpack_postings,
    unpack_rows,
)
from hmx_pipeline.retrieval.subject_column import SubjectColumn

Places = NDArray[np.int32]
"""Indexes of documents in the order of reading; -1 means none."""

OWN: Final = 10
BEFORE: Final = (5, 3, 2, 1)
AFTER: Final = (3, 2, 1)
"""Weight of a word in a turn, in tenths: its own, and those of the turns before and after it in the session."""
WHOLE: Final = 256
"""Full weight of a term."""
DENSE: Final = 4
"""A term that has a weight in more than one of this many documents is stored as a column of all documents."""
_SPARSE: Final = 16  # fewer than one of this many documents are weighed one by one
_GROUP: Final = 64
_FEW: Final = 100
"""To sort a term's places costs less than a column, if fewer than one of this many documents have the term."""
_OUT: Final = np.int32(-(1 << 30))
"""Lower than any sum of weights can make up for."""


class Term:
    """The documents of a term and its weights, up to `read` bytes of postings and `seen` documents."""

    __slots__ = ("dense", "highest", "impacts", "occurrences", "own", "places", "seen", "typical")

    def __init__(self) -> None:
        self.own = GrowableArray(np.int32)
        self.occurrences = GrowableArray(np.uint8)
        self.seen = 0
        self.typical = 0.0
        self.highest = 0
        self.places: Places = np.empty(0, np.int32)
        self.impacts: NDArray[np.uint16] = np.empty(0, np.uint16)
        self.dense: GrowableArray | None = None
        """Weights in all documents; then `places` is empty."""

    @property
    def read(self) -> int:
        """Bytes of postings read."""
        return self.own.size * POSTING.itemsize

    @property
    def nbytes(self) -> int:
        column = self.dense.nbytes if self.dense is not None else 0
        return self.own.nbytes + self.occurrences.nbytes + self.places.nbytes + self.impacts.nbytes + column + 500

    def add_to(self, scores: NDArray[np.int32], weight: int, room: NDArray[np.int32]) -> None:
        """`room`: an array of the same size, which is overwritten."""
        if self.dense is not None:
            scores += np.multiply(self.dense.values, np.int32(weight), out=room)
        else:
            scores[self.places] += self.impacts.astype(np.int32) * np.int32(weight)

    def at(self, places: Places) -> NDArray[np.int32]:
        """Return the weights in these documents."""
        if self.dense is not None:
            return self.dense.values[places].astype(np.int32)
        return _looked_up(self.places, self.impacts, places)


class QueryTerm(NamedTuple):
    term: Term
    share: int = WHOLE
    """Weight of the term, in parts of `WHOLE`."""


class EpisodeIndex:
    """An index that only grows. A `Term` belongs to the index that refreshed it."""

    def __init__(self) -> None:
        self._numbers = GrowableArray(np.uint64)
        self._at = GrowableArray(np.int64)
        self._sessions = GrowableArray(np.uint32)
        """Half of each session's mark: it only orders what scores alike."""
        self._lengths = GrowableArray(np.uint32)
        """Lengths in tenths of terms, with what the turns before lend. Later turns never change them."""
        self._own_lengths = GrowableArray(np.uint16)
        self._before = GrowableArray(np.int32)
        self._after = GrowableArray(np.int32)
        self._newest: dict[int, int] = {}
        """Session → index of its last turn."""
        self.subjects = SubjectColumn()
        self._partitions: dict[int, tuple[GrowableArray, GrowableArray]] = {}
        """Partition → the numbers and indexes of its documents, ascending."""
        self._total = 0
        self._typical = typical(0, 0)
        self._touched: dict[int, Places] = {}
        self._lenders: dict[int, Places] = {}
        self._room: NDArray[np.int32] = np.empty((2, 0), np.int32)
        """Two columns that a search writes into: pages given and taken back for each question cost as much as sums."""

    @property
    def size(self) -> int:
        """Number of documents."""
        return self._numbers.size

    @property
    def read(self) -> int:
        """Bytes of rows read."""
        return self.size * ROW.itemsize

    @property
    def nbytes(self) -> int:
        columns = (self._numbers, self._at, self._sessions, self._lengths, self._own_lengths)
        lists = [part for pair in self._partitions.values() for part in pair]
        found = sum(column.nbytes for column in (*columns, self._before, self._after, *lists))
        return found + self._room.nbytes + 100 * len(self._newest) + self.subjects.nbytes + 1_000

    def assign(self, assigned: Iterable[bytes]) -> None:
        """Note whose sessions are; comes before the rows of the same snapshot."""
        self.subjects.assign(assigned, self._newest, self._before.values)

    def extend(self, rows: bytes) -> None:
        """Append the rows that follow those read so far."""
        if not rows:
            return
        found, first = unpack_rows(rows), self.size
        places = np.arange(first, first + len(found), dtype=np.int32)
        self._numbers.append(found["number"])
        self._at.append(found["at"])
        self._sessions.append((found["session"] >> np.uint64(32)).astype(np.uint32))
        self._own_lengths.append(found["length"])
        self.subjects.extend(found)
        self._follow(found["session"], places)
        lengths = OWN * found["length"].astype(np.uint32)
        for weight, before in zip(BEFORE, self._chain(self._before, places), strict=False):
            lengths += weight * np.where(before >= 0, self._own_lengths.values[before], 0).astype(np.uint32)
        self._lengths.append(lengths)
        self._total += int(lengths.sum())
        self._typical = typical(self._total, OWN * self.size)
        for partition, chosen in _by_partition(found["number"]):
            numbers, held = self._partitions.setdefault(partition, (GrowableArray(np.uint64), GrowableArray(np.int32)))
            numbers.append(found["number"][chosen])
            held.append(places[chosen])
        self._touched.clear()
        self._lenders.clear()

    def is_current(self, term: Term) -> bool:
        """Return True if a term is up to the index's size."""
        return term.seen == self.size and term.typical == self._typical

    def refresh(self, term: Term, postings: bytes) -> None:
        """Bring a term up to the index's size; `postings` follow those read so far."""
        if postings:
            numbers, occurrences = unpack_postings(postings)
            term.own.append(self.places(numbers))
            term.occurrences.append(occurrences)
        if not term.own.size:
            return
        length = self._typical
        if self.is_current(term):
            return
        if not postings and term.typical == length and not self._is_lent(term):
            term.seen = self.size
            return
        touched = None if term.typical != length or (self.size - term.seen) * 4 > self.size else self._since(term.seen)
        if touched is None or term.own.size < len(touched) or not self._update(term, touched):
            self._weigh(term, length)
        term.seen = self.size

    def best(
        self, terms: Iterable[QueryTerm], limit: int, among: NDArray[np.bool_] | None = None
    ) -> list[tuple[int, int]]:
        """Return (number, score) of the highest scores, ties as in `ordered`. With `among`: of these documents only.

        Exact. The rarest terms are added first. Once the other terms cannot lift a document into the best, they are
        looked up only for the documents that can still get there.
        """
        if self._room.shape[1] < self.size:
            self._room = np.empty((2, self.size + self.size // 8), np.int32)
        scores, room = self._room[:, : self.size]
        scores.fill(0)
        if among is not None:
            if np.count_nonzero(among) * _SPARSE < self.size:
                found = self.weigh(terms, places := np.flatnonzero(among).astype(np.int32))
                return self.ordered(places[found > 0], found[found > 0], limit)
            scores[~among] = _OUT
        weighed = sorted(self._weighed(terms), key=lambda pair: pair[1].own.size)
        # `least` bounds the score of the last of the best from above; it is computed only when it can stop the loop.
        least, rest = 0, sum(weight * term.highest for weight, term in weighed)
        for position, (weight, term) in enumerate(weighed, 1):
            term.add_to(scores, weight, room)
            least += weight * term.highest
            rest -= weight * term.highest
            if least > rest and (least := _at_least(scores, limit)) > rest:
                places = np.flatnonzero(scores >= least - rest).astype(np.int32)
                found = scores[places]
                for other, looked_up in weighed[position:]:
                    found += looked_up.at(places) * np.int32(other)
                break
        else:
            places = np.flatnonzero(scores > 0).astype(np.int32)
            found = scores[places]
        return self.ordered(places, found, limit)

    def whole(self, terms: Iterable[Term], *, dated: bool = False) -> int:
        """Return the score of an average document that has all of these terms. `dated`: the question names a time
        too, so a single common word is not asked for by chance."""
        return self.asked_for(terms) if dated else asked_alone([term.own.size for term in terms], max(FEW, self.size))

    def asked_for(self, terms: Iterable[Term]) -> int:
        """Return these terms' share of that score."""
        return asked_for((term.own.size for term in terms), max(FEW, self.size))

    def weigh(self, terms: Iterable[QueryTerm], places: Places) -> NDArray[np.int32]:
        """Return the scores of these documents."""
        found = np.zeros(len(places), np.int32)
        for weight, term in self._weighed(terms):
            found += term.at(places) * np.int32(weight)
        return found

    def places(self, numbers: NDArray[np.uint64]) -> Places:
        """Return the indexes of documents by number; they must have been read."""
        found = np.empty(len(numbers), np.int32)
        for partition, chosen in _by_partition(numbers):
            known, held = self._partitions[partition]
            found[chosen] = held.values[np.searchsorted(known.values, numbers[chosen])]
        return found

    def among(
        self, tagged: Sequence[bytes] = (), until: int | None = None, visible: NDArray[np.bool_] | None = None
    ) -> NDArray[np.bool_] | None:
        """Return a mask of the documents in every list of `tagged` (packed numbers), not later than `until`
        (milliseconds), and `visible`; None if nothing of it is given."""
        if not tagged and until is None:
            return visible
        chosen = np.ones(self.size, np.bool_) if until is None else self._at.values <= until
        if visible is not None:
            chosen &= visible
        for numbers in tagged:
            held = np.zeros(self.size, np.bool_)
            held[self.places(np.frombuffer(numbers, POSTING))] = True
            chosen &= held
        return chosen

    def _follow(self, sessions: NDArray[np.uint64], places: Places) -> None:
        """Link each new turn with the turns before and after it in its session."""
        order = np.argsort(sessions, kind="stable")
        ordered, at = sessions[order], places[order]
        begins = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        names = ordered[begins].tolist()
        before = np.concatenate(([-1], at[:-1])).astype(np.int32)
        before[begins] = [self._newest.get(name, -1) for name in names]
        ends = np.concatenate((begins[1:], [len(at)])) - 1
        self._newest.update(zip(names, at[ends].tolist(), strict=True))
        by_place = np.empty(len(places), np.int32)
        by_place[order] = before
        self._before.append(by_place)
        self._after.append(np.full(len(places), -1, np.int32))
        linked = before >= 0
        self._after.values[before[linked]] = at[linked]

    def _chain(self, links: GrowableArray, places: Places) -> Iterator[Places]:
        """Yield the turns one step away, two steps away, and so on."""
        values = links.values
        while True:
            places = np.where(places >= 0, values[places], np.int32(-1))
            yield places

    def _weighed(self, terms: Iterable[QueryTerm]) -> Iterator[tuple[int, Term]]:
        for term, share in terms:
            if term.own.size:
                yield idf(term.own.size, max(FEW, self.size)) * share // WHOLE, term

    def _is_lent(self, term: Term) -> bool:
        """Return True if new turns lend the term a weight, although none contains it."""
        if term.dense is not None:
            return True  # its column must grow
        known = self._lenders.get(term.seen)
        if known is None:
            new = np.arange(term.seen, self.size, dtype=np.int32)
            lending = [back for _, back in zip(BEFORE, self._chain(self._before, new), strict=False)]
            known = self._lenders[term.seen] = np.unique(np.concatenate(lending))
        return bool(_looked_up(term.own.values, term.occurrences.values, known).any())

    def _since(self, seen: int) -> Places:
        """Return the documents in which a term may weigh more than it did with `seen` documents."""
        known = self._touched.get(seen)
        if known is None:
            new = np.arange(seen, self.size, dtype=np.int32)
            lent = [back for _, back in zip(AFTER, self._chain(self._before, new), strict=False)]
            known = np.unique(np.concatenate((new, *lent)))
            known = self._touched[seen] = known[known >= 0]
        return known

    def _update(self, term: Term, touched: Places) -> bool:
        """Update the weights in these documents; return False if all must be recomputed."""
        tenths = OWN * _looked_up(term.own.values, term.occurrences.values, touched)
        for weights, links in ((BEFORE, self._before), (AFTER, self._after)):
            for weight, lender in zip(weights, self._chain(links, touched), strict=False):
                tenths += weight * _looked_up(term.own.values, term.occurrences.values, lender)
        weighty = tenths > 0
        places = touched[weighty]
        found = self._impacts(places, tenths[weighty], term.typical)
        term.highest = max(term.highest, int(found.max(initial=0)))
        if term.dense is not None:
            term.dense.append(np.zeros(self.size - term.dense.size, np.uint16))
            term.dense.values[places] = found
            return True
        at = np.searchsorted(term.places, places)
        known = np.zeros(len(at), np.bool_)
        inside = at < len(term.places)
        known[inside] = term.places[at[inside]] == places[inside]
        term.impacts[at[known]] = found[known]
        term.places = np.insert(term.places, at[~known], places[~known])
        term.impacts = np.insert(term.impacts, at[~known], found[~known])
        return len(term.places) * DENSE <= self.size

    def _weigh(self, term: Term, typical_length: float) -> None:
        """Compute the weights in all documents."""
        term.typical = typical_length
        shares = list(self._shares(term))
        if term.own.size * _FEW < self.size:
            places, at = np.unique(np.concatenate([where for where, _ in shares]), return_inverse=True)
            tenths = np.bincount(at, np.concatenate([share for _, share in shares]), len(places))
        else:
            column = np.zeros(self.size, np.uint16)
            for where, share in shares:  # each place once
                column[where] += share
            places = np.flatnonzero(column != 0).astype(np.int32)  # of truth values it is far faster than of numbers
            tenths = column[places]
        found = self._impacts(places.astype(np.int32), tenths, typical_length)
        term.highest = int(found.max(initial=0))
        if len(places) * DENSE > self.size:
            term.dense = GrowableArray(np.uint16, 0)
            term.dense.append(np.zeros(self.size, np.uint16))
            term.dense.values[places] = found
            places, found = places[:0], found[:0]
        else:
            term.dense = None
        term.places, term.impacts = places.astype(np.int32), found

    def _shares(self, term: Term) -> Iterator[tuple[Places, NDArray[np.uint16]]]:
        """Yield where a term has weight, in tenths: its own documents, then what is lent, one turn distance
        at a time."""
        own, occurrences = term.own.values, term.occurrences.values.astype(np.uint16)
        yield own, occurrences * np.uint16(OWN)
        for weights, links in ((BEFORE, self._after.values), (AFTER, self._before.values)):
            places, lent = own, occurrences
            for weight in weights:
                places = links[places]
                there = places >= 0
                places, lent = places[there], lent[there]
                yield places, lent * np.uint16(weight)

    def _impacts(self, places: Places, tenths: NDArray[Any], typical_length: float) -> NDArray[np.uint16]:
        lengths = self._lengths.values[places].astype(np.float64) / OWN
        return impacts(tenths.astype(np.float64) / OWN, lengths, typical_length)

    def ordered(self, places: Places, scores: NDArray[np.int32], limit: int) -> list[tuple[int, int]]:
        """Return (number, score) of the highest, ties by time, then by session, and only within one by number: which
        number a document has depends on how partitions came together, and on how many there are."""
        if len(scores) > limit:
            least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
            places, scores = places[scores >= least], scores[scores >= least]
        numbers = self._numbers.values[places]
        ties = numbers, self._sessions.values[places], self._at.values[places]
        order = np.lexsort((*ties, -scores))[:limit]
        return list(zip(numbers[order].tolist(), scores[order].tolist(), strict=True))


def _by_partition(numbers: NDArray[np.uint64]) -> Iterator[tuple[int, Any]]:
    """Yield each partition with a selector of its numbers."""
    partitions = numbers >> np.uint64(OFFSET_BITS)
    if len(numbers) and (partitions == partitions[0]).all():
        yield int(partitions[0]), slice(None)
        return
    for partition in np.unique(partitions).tolist():
        yield partition, partitions == np.uint64(partition)


def _looked_up(keys: Places, values: NDArray[Any], asked: Places) -> NDArray[np.int32]:
    """Look the values of ascending keys up; 0 for a missing key."""
    if not len(keys):
        return np.zeros(len(asked), np.int32)
    at = np.searchsorted(keys, asked)
    at[at == len(keys)] = 0
    return np.where(keys[at] == asked, values[at], 0).astype(np.int32)


def _at_least(scores: NDArray[np.int32], limit: int) -> int:
    """Return a lower bound that at least `limit` documents reach, at least 0: the maxima of that many
    groups reach it. Neighbours, which lend each other words, are in different groups."""
    groups = len(scores) // _GROUP
    if groups <= limit:
        return 0
    highest = scores[: groups * _GROUP].reshape(_GROUP, groups).max(axis=0)
    return max(0, int(np.partition(highest, groups - limit)[groups - limit]))
