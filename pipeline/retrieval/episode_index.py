"""A tenant's episodes as they are searched: BM25 in which a session's turns lend each other their words. Pure.

Enters: rows and postings in the order in which they were appended, piece by piece. Leaves: the best documents of a
query. Nothing fails. What a term weighs in each document is kept, and brought up to date where documents came since:
the answer is the same as if everything had been read at once. Only the order within a partition matters; numbers decide
between equals.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.retrieval.growing import Growing
from pipeline.retrieval.postings import (
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

Places = NDArray[np.int32]
"""Documents by their place in the order in which they were read; -1 is none."""

OWN: Final = 10
BEFORE: Final = (5, 3, 2, 1)
AFTER: Final = (3, 2, 1)
"""Tenths of a word's weight in a turn: its own, and those of the turns before and after it in the session."""
WHOLE: Final = 256
"""Parts of the weight of a term."""
DENSE: Final = 4
"""A term that weighs something in more than one of so many documents is kept as a column of all of them."""
_BLOCK: Final = 64
_OUT: Final = np.int32(-(1 << 30))
"""Less than any sum of weights can make good."""


class Term:
    """Where a term stands and what it weighs there, as far as `read` bytes of postings and `seen` documents say."""

    __slots__ = ("dense", "highest", "impacts", "occurrences", "own", "places", "seen", "typical")

    def __init__(self) -> None:
        self.own = Growing(np.int32)
        self.occurrences = Growing(np.uint8)
        self.seen = 0
        self.typical = 0.0
        self.highest = 0
        self.places: Places = np.empty(0, np.int32)
        self.impacts: NDArray[np.uint16] = np.empty(0, np.uint16)
        self.dense: Growing | None = None
        """Impacts of all documents; then there are no places."""

    @property
    def read(self) -> int:
        """Bytes."""
        return self.own.size * POSTING.itemsize

    @property
    def nbytes(self) -> int:
        column = self.dense.nbytes if self.dense is not None else 0
        return self.own.nbytes + self.occurrences.nbytes + self.places.nbytes + self.impacts.nbytes + column + 500

    def add_to(self, scores: NDArray[np.int32], weight: int) -> None:
        if self.dense is not None:
            scores += self.dense.values.astype(np.int32) * np.int32(weight)
        else:
            scores[self.places] += self.impacts.astype(np.int32) * np.int32(weight)

    def at(self, places: Places) -> NDArray[np.int32]:
        """Impacts there."""
        if self.dense is not None:
            return self.dense.values[places].astype(np.int32)
        return _looked_up(self.places, self.impacts, places)


class Asked(NamedTuple):
    """A term of a question."""

    term: Term
    share: int = WHOLE
    """Of `WHOLE`: how much of its weight counts."""


class EpisodeIndex:
    """Grows with what is appended; `Term`s belong to the index that refreshed them."""

    def __init__(self) -> None:
        self._numbers = Growing(np.uint64)
        self._at = Growing(np.int64)
        self._lengths = Growing(np.uint32)
        """In tenths of terms, those included that the turns before lend: never changed by what comes later."""
        self._own_lengths = Growing(np.uint16)
        self._before = Growing(np.int32)
        self._after = Growing(np.int32)
        self._newest: dict[int, int] = {}
        """Session → place of its last turn."""
        self._partitions: dict[int, tuple[Growing, Growing]] = {}
        """Numbers and places of a partition's documents, ascending."""
        self._total = 0
        self._touched: dict[int, Places] = {}
        self._lenders: dict[int, Places] = {}

    @property
    def size(self) -> int:
        """How many documents there are."""
        return self._numbers.size

    @property
    def read(self) -> int:
        """Bytes of rows."""
        return self.size * ROW.itemsize

    @property
    def nbytes(self) -> int:
        columns = (self._numbers, self._at, self._lengths, self._own_lengths)
        lists = [part for pair in self._partitions.values() for part in pair]
        found = sum(column.nbytes for column in (*columns, self._before, self._after, *lists))
        return found + 100 * len(self._newest) + 1_000

    def extend(self, rows: bytes) -> None:
        """The rows that follow those read so far."""
        if not rows:
            return
        found, first = unpack_rows(rows), self.size
        places = np.arange(first, first + len(found), dtype=np.int32)
        self._numbers.append(found["number"])
        self._at.append(found["at"])
        self._own_lengths.append(found["length"])
        self._follow(found["session"], places)
        lengths = OWN * found["length"].astype(np.uint32)
        for weight, before in zip(BEFORE, self._chain(self._before, places), strict=False):
            lengths += weight * np.where(before >= 0, self._own_lengths.values[before], 0).astype(np.uint32)
        self._lengths.append(lengths)
        self._total += int(lengths.sum())
        for partition, chosen in _by_partition(found["number"]):
            numbers, held = self._partitions.setdefault(partition, (Growing(np.uint64), Growing(np.int32)))
            numbers.append(found["number"][chosen])
            held.append(places[chosen])
        self._touched.clear()
        self._lenders.clear()

    def refresh(self, term: Term, postings: bytes) -> None:
        """Brings a term up to the index's size; `postings` follow those read so far."""
        if postings:
            numbers, occurrences = unpack_postings(postings)
            term.own.append(self.places(numbers))
            term.occurrences.append(occurrences)
        if not term.own.size:
            return
        length = typical(self._total, OWN * self.size)
        if term.seen == self.size and term.typical == length:
            return
        if not postings and term.typical == length and not self._is_lent(term):
            term.seen = self.size
            return
        touched = None if term.typical != length or (self.size - term.seen) * 4 > self.size else self._since(term.seen)
        if touched is None or term.own.size < len(touched) or not self._update(term, touched):
            self._weigh(term, length)
        term.seen = self.size

    def best(self, terms: Iterable[Asked], limit: int, among: NDArray[np.bool_] | None = None) -> list[tuple[int, int]]:
        """(number, score) of the highest, ties by number; with `among`, of these documents only.

        Exact: the rarest terms come first, and once the others cannot lift a document into the best, they are looked up
        only where they still matter.
        """
        scores = np.zeros(self.size, np.int32)
        if among is not None:
            scores[~among] = _OUT
        weighed = sorted(self._weighed(terms), key=lambda pair: pair[1].own.size)
        # What the last of the best has at most by now: looked up only where that might do.
        least, rest = 0, sum(weight * term.highest for weight, term in weighed)
        for position, (weight, term) in enumerate(weighed, 1):
            term.add_to(scores, weight)
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

    def whole(self, terms: Iterable[Term]) -> int:
        """What a question of these terms asks for: a document that has all of it scores about as much."""
        return asked_alone([term.own.size for term in terms], max(FEW, self.size))

    def asked_for(self, terms: Iterable[Term]) -> int:
        """What these terms are of that."""
        return asked_for((term.own.size for term in terms), max(FEW, self.size))

    def weigh(self, terms: Iterable[Asked], places: Places) -> NDArray[np.int32]:
        """The scores of these documents."""
        found = np.zeros(len(places), np.int32)
        for weight, term in self._weighed(terms):
            found += term.at(places) * np.int32(weight)
        return found

    def places(self, numbers: NDArray[np.uint64]) -> Places:
        """Of documents that have been read."""
        found = np.empty(len(numbers), np.int32)
        for partition, chosen in _by_partition(numbers):
            known, held = self._partitions[partition]
            found[chosen] = held.values[np.searchsorted(known.values, numbers[chosen])]
        return found

    def among(self, tagged: Sequence[bytes] = (), until: int | None = None) -> NDArray[np.bool_] | None:
        """The documents that stand in each of `tagged` (numbers, packed) and are not of later than a time
        (milliseconds); None where nothing is asked."""
        if not tagged and until is None:
            return None
        chosen = np.ones(self.size, np.bool_) if until is None else self._at.values <= until
        for numbers in tagged:
            held = np.zeros(self.size, np.bool_)
            held[self.places(np.frombuffer(numbers, POSTING))] = True
            chosen &= held
        return chosen

    def _follow(self, sessions: NDArray[np.uint64], places: Places) -> None:
        """Who comes before and after whom in a session."""
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

    def _chain(self, links: Growing, places: Places) -> Iterator[Places]:
        """One step on, two steps on, and so forth."""
        values = links.values
        while True:
            places = np.where(places >= 0, values[places], np.int32(-1))
            yield places

    def _weighed(self, terms: Iterable[Asked]) -> Iterator[tuple[int, Term]]:
        for term, share in terms:
            if term.own.size:
                yield idf(term.own.size, max(FEW, self.size)) * share // WHOLE, term

    def _is_lent(self, term: Term) -> bool:
        """Whether a term that no document since has of its own weighs anything in one."""
        if term.dense is not None:
            return True  # its column is to grow
        known = self._lenders.get(term.seen)
        if known is None:
            new = np.arange(term.seen, self.size, dtype=np.int32)
            lending = [back for _, back in zip(BEFORE, self._chain(self._before, new), strict=False)]
            known = self._lenders[term.seen] = np.unique(np.concatenate(lending))
        return bool(_looked_up(term.own.values, term.occurrences.values, known).any())

    def _since(self, seen: int) -> Places:
        """The documents in which a term may weigh more than when there were only `seen`."""
        known = self._touched.get(seen)
        if known is None:
            new = np.arange(seen, self.size, dtype=np.int32)
            lent = [back for _, back in zip(AFTER, self._chain(self._before, new), strict=False)]
            known = np.unique(np.concatenate((new, *lent)))
            known = self._touched[seen] = known[known >= 0]
        return known

    def _update(self, term: Term, touched: Places) -> bool:
        """False where all must be weighed again."""
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
        """Everywhere."""
        term.typical = typical_length
        shares = list(self._shares(term))
        if term.own.size * 8 * DENSE < self.size:
            places, at = np.unique(np.concatenate([where for where, _ in shares]), return_inverse=True)
            tenths = np.bincount(at, np.concatenate([share for _, share in shares]), len(places))
        else:
            column = np.zeros(self.size, np.uint16)
            for where, share in shares:  # each place once
                column[where] += share
            places = np.flatnonzero(column).astype(np.int32)
            tenths = column[places]
        found = self._impacts(places.astype(np.int32), tenths, typical_length)
        term.highest = int(found.max(initial=0))
        if len(places) * DENSE > self.size:
            term.dense = Growing(np.uint16, 0)
            term.dense.append(np.zeros(self.size, np.uint16))
            term.dense.values[places] = found
            places, found = places[:0], found[:0]
        else:
            term.dense = None
        term.places, term.impacts = places.astype(np.int32), found

    def _shares(self, term: Term) -> Iterator[tuple[Places, NDArray[np.uint16]]]:
        """Where a term weighs something, in tenths: where it stands, then what turn by turn is lent."""
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
        """(number, score) of the highest, ties by number."""
        if len(scores) > limit:
            least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
            places, scores = places[scores >= least], scores[scores >= least]
        numbers = self._numbers.values[places]
        order = np.lexsort((numbers, -scores))[:limit]
        return list(zip(numbers[order].tolist(), scores[order].tolist(), strict=True))


def _by_partition(numbers: NDArray[np.uint64]) -> Iterator[tuple[int, Any]]:
    """Partitions and which of the numbers are of each."""
    partitions = numbers >> np.uint64(OFFSET_BITS)
    if len(numbers) and (partitions == partitions[0]).all():
        yield int(partitions[0]), slice(None)
        return
    for partition in np.unique(partitions).tolist():
        yield partition, partitions == np.uint64(partition)


def _looked_up(keys: Places, values: NDArray[Any], asked: Places) -> NDArray[np.int32]:
    """The value under each asked key, 0 where there is none; keys ascend."""
    if not len(keys):
        return np.zeros(len(asked), np.int32)
    at = np.searchsorted(keys, asked)
    at[at == len(keys)] = 0
    return np.where(keys[at] == asked, values[at], 0).astype(np.int32)


def _at_least(scores: NDArray[np.int32], limit: int) -> int:
    """What at least `limit` documents have, and no less than 0: of so many blocks each has one that does."""
    blocks = len(scores) // _BLOCK
    if blocks <= limit:
        return 0
    highest = scores[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(axis=1)
    return max(0, int(np.partition(highest, blocks - limit)[blocks - limit]))
