"""The postings of one term as bytes, and BM25 over them. Pure; sums are of integers: no order changes a rank.

A posting is 12 bytes: document number (u64, little-endian), occurrences (u16), length of the document in terms (u16). A
document's number is where its record stands, partition and offset: a rebuild gives it the same one.
"""

import math
import struct
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

_POSTING: Final = struct.Struct("<QHH")
_DTYPE: Final = np.dtype([("document", "<u8"), ("tf", "<u2"), ("length", "<u2")])
_U16: Final = 0xFFFF

# BM25 of reference measurements on conversations: short texts, so occurrences saturate early.
_K1: Final = 0.9
_B: Final = 0.6
_TYPICAL_LENGTH: Final = 24.0
"""Terms. Fixed, so that a document's weight does not depend on what came after it."""


def document_number(partition: int, offset: int) -> int:
    return partition << 48 | offset


def pack_posting(number: int, occurrences: int, length: int) -> bytes:
    return _POSTING.pack(number, min(occurrences, _U16), min(length, _U16))


def bm25(postings: Sequence[bytes], documents: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Document numbers, ascending, and their scores. `postings`: a blob per query term; `documents`: how many exist."""
    numbers: list[NDArray[np.uint64]] = []
    impacts: list[NDArray[np.int64]] = []
    for blob in postings:
        rows = np.frombuffer(blob, dtype=_DTYPE)
        if not len(rows):
            continue
        tf = rows["tf"].astype(np.float64)
        norm = _K1 * (1 - _B + _B * rows["length"].astype(np.float64) / _TYPICAL_LENGTH)
        impact = np.rint(4096 * (_K1 + 1) * tf / (tf + norm)).astype(np.int64) * _idf(len(rows), documents)
        numbers.append(rows["document"])
        impacts.append(impact)
    if not numbers:
        return np.empty(0, np.uint64), np.empty(0, np.int64)
    unique, place = np.unique(np.concatenate(numbers), return_inverse=True)
    scores = np.zeros(len(unique), np.int64)
    np.add.at(scores, place, np.concatenate(impacts))
    return unique, scores


def _idf(holding: int, documents: int) -> int:
    return max(1, round(64 * math.log1p((max(documents, holding) - holding + 0.5) / (holding + 0.5))))


def in_all(postings: Sequence[bytes]) -> NDArray[np.uint64] | None:
    """Numbers of the documents that stand in each of them; None where there are no postings to stand in."""
    if not postings:
        return None
    return reduce(np.intersect1d, (np.frombuffer(blob, dtype=_DTYPE)["document"] for blob in postings))


def best(
    scores: tuple[NDArray[np.uint64], NDArray[np.int64]], limit: int, among: NDArray[np.uint64] | None = None
) -> list[tuple[int, int]]:
    """(document number, score) of the highest, ties by number; with `among`, of these documents only."""
    numbers, values = scores
    if among is not None:
        held = np.isin(numbers, among)
        numbers, values = numbers[held], values[held]
    order = np.lexsort((numbers, -values))[:limit]
    return [(int(numbers[i]), int(values[i])) for i in order]


def bm25_named(
    postings: Sequence[Mapping[bytes, bytes]], documents: int, limit: int, among: AbstractSet[bytes] | None = None
) -> list[tuple[bytes, int]]:
    """The same for few documents that have names: one mapping per term, name → posting (its number is not read)."""
    names = sorted({name for held in postings for name in held})
    place = {name: i for i, name in enumerate(names)}
    blobs = [
        b"".join(_POSTING.pack(place[name], *_POSTING.unpack(row)[1:]) for name, row in sorted(held.items()))
        for held in postings
    ]
    numbers = None if among is None else np.array([place[name] for name in names if name in among], np.uint64)
    return [(names[number], score) for number, score in best(bm25(blobs, documents), limit, numbers)]
