"""Vector search over episodes: quantised embeddings, cosine similarity, and fusion with BM25 (HMX-E §2.2).

Input: embeddings and the names of their models. Output: quantised vectors, the similarity of documents to a question,
and the best of both searches. A component is a signed byte, so a sum of products is an integer that float32 holds
exactly: the order of addition does not matter.
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from hashlib import shake_128
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hmx_pipeline.contracts.episode import RESERVED
from hmx_pipeline.contracts.event import EMBEDDING_MODEL
from hmx_pipeline.contracts.limits import EMBEDDING_DIMENSIONS, TAG
from hmx_pipeline.retrieval.episode_index import EpisodeIndex, Places, QueryTerm
from hmx_pipeline.retrieval.growable_array import GrowableArray

WIDTH: Final = 1024
"""Most components. The sum of that many byte products stays below 2^24, up to which float32 holds every integer."""
_HIGHEST: Final = 127
LOOKED_AT: Final = 1_000
"""Most vectors that are compared component by component."""
_NEVER: Final = WIDTH + 1
"""More sign differences than are possible."""
_FEW: Final = 32
"""Documents at which half of the mean direction counts as usual (shrinkage)."""
_PARTS: Final = 1 << 15
"""Parts of a direction's length. Sums of integers do not depend on their order."""
_TINY: Final = 1e-9
_BLOCK: Final = 1 << 17
"""Components per block, so that a block stays in the processor's cache."""
UNIT: Final = 1 << 16
"""Relevance of the best BM25 match."""
NEAR: Final = UNIT * 5 // 4
"""Relevance of a document with exactly the question's direction: above the best BM25 match."""
_ANSWERED: Final = Fraction(2, 3)
"""What the best share of the question's words and the nearest direction together come to, beside words alone."""

_SIGNS: Final = 1.0 - 2.0 * np.unpackbits(
    np.frombuffer(shake_128(b"signs").digest(EMBEDDING_DIMENSIONS // 8), np.uint8)
).astype(np.float64)


class Vector(NamedTuple):
    """A quantised direction. Only vectors of the same space can be compared."""

    space: str
    """Number of dimensions and model name of the original embedding."""
    values: bytes
    """One signed byte per component."""


Embed = Callable[[str], Vector | None]
"""Makes a text's vector; the same text must always give the same vector."""


def vector(numbers: Sequence[float], model: str = "") -> Vector | None:
    """Quantise an embedding; None if all numbers are 0. More than `WIDTH` numbers are folded into `WIDTH` components
    with pseudo-random signs (feature hashing), which preserves similarities approximately."""
    values = np.array(numbers, np.float64)
    if not (highest := np.abs(values).max(initial=0.0)):
        return None
    values /= highest
    if len(values) > WIDTH:
        signed = np.zeros(-(-len(values) // WIDTH) * WIDTH)
        signed[: len(values)] = values * _SIGNS[: len(values)]
        values = signed.reshape(-1, WIDTH).sum(axis=0)
        if not (highest := np.abs(values).max()):
            return None
        values /= highest
    return Vector(f"{len(numbers)}:{model}", np.rint(values * _HIGHEST).astype(np.int8).tobytes())


def document_vectors(record: Mapping[str, Any], text: str, embed: Embed | None = None) -> list[Vector]:
    """Return the vectors of an episode's text and of its event; within one space only the event's."""
    if embed is None and record["metadata"][RESERVED].get("embeddings") is None:
        return []
    made = (None if embed is None else embed(text), document_vector(record))
    return list({each.space: each for each in made if each is not None}.values())


def document_vector(record: Mapping[str, Any]) -> Vector | None:
    """Return the vector of an episode's event; its `metadata` may name the model."""
    numbers = record["metadata"][RESERVED].get("embeddings")
    model = record["metadata"].get(EMBEDDING_MODEL, "")
    return None if numbers is None else vector(numbers, model[:TAG] if isinstance(model, str) else "")


def pack_vector(number: int, values: bytes) -> bytes:
    """Pack a document's number and vector; all vectors of a space have the same length."""
    return number.to_bytes(8, "little") + values


class Vectors:
    """The vectors of a tenant's documents in one space. It only grows."""

    def __init__(self, width: int) -> None:
        self.read = 0
        """Number of pieces read."""
        self._row: Final = np.dtype([("number", "<u8"), ("values", "i1", (width,))])
        self._width: Final = width
        self._places = GrowableArray(np.int32)
        self._rows = GrowableArray(np.int32)
        """Place → row; -1 if a document has no vector."""
        self._values = GrowableArray(np.int8)
        self._lengths = GrowableArray(np.float64)
        self._total = np.zeros(width, np.int64)
        """Sum of all directions, by component."""
        self._signs = [GrowableArray(np.uint64) for _ in range(-(-width // 64))]
        """Sign bits of the components, 64 per column."""

    @property
    def size(self) -> int:
        return self._places.size

    @property
    def nbytes(self) -> int:
        columns = (self._places, self._rows, self._values, self._lengths, *self._signs)
        return sum(column.nbytes for column in columns) + 1_000

    def extend(self, pieces: Sequence[bytes], index: EpisodeIndex) -> None:
        """Append the pieces that follow those read so far. The index must have read their documents."""
        self._rows.append(np.full(index.size - self._rows.size, -1, np.int32))
        for piece in pieces:
            rows, first = np.frombuffer(piece, self._row), self.size
            places = index.places(rows["number"])
            self._places.append(places)
            self._rows.values[places] = np.arange(first, first + len(rows), dtype=np.int32)
            self._values.append(rows["values"].reshape(-1))
            lengths = np.sqrt(np.square(rows["values"], dtype=np.int32).sum(axis=1))
            self._lengths.append(lengths)
            self._total += np.rint(rows["values"] * (_PARTS / lengths)[:, np.newaxis]).astype(np.int64).sum(axis=0)
            for column, signs in zip(self._signs, _signs(rows["values"]).T, strict=True):
                column.append(signs)
        self.read += len(pieces)

    def nearest(self, asked: bytes, limit: int, among: NDArray[np.bool_] | None = None) -> Places:
        """Return the nearest documents, ties with the last included. Candidates are those whose component signs agree
        best with the question's."""
        apart = np.zeros(self.size, np.uint16)
        for column, sign in zip(self._signs, _signs(np.frombuffer(asked, np.int8)[np.newaxis])[0], strict=True):
            apart += np.bitwise_count(column.values ^ sign)
        if among is not None:
            apart[~among[self._places.values]] = _NEVER
        counted = np.cumsum(np.bincount(apart, minlength=_NEVER + 1)[:_NEVER])
        furthest = min(int(np.searchsorted(counted, LOOKED_AT)), _NEVER - 1)
        places = self._places.values[apart <= furthest]
        near = self.nearness(asked, places)
        least = np.partition(near, len(near) - limit)[len(near) - limit] if len(near) > limit else 0
        found: Places = places[near >= max(1, least)]
        return found

    def nearness(self, asked: bytes, places: Places) -> NDArray[np.int32]:
        """Return the similarity of these documents to the question, 0 to `NEAR`; 0 if there is no vector.

        It is the cosine after the mean direction is subtracted from both: what all texts of a tenant share says no more
        than a word that all of them contain.
        """
        rows = self._rows.values[places]
        there, found = rows >= 0, np.zeros(len(places), np.int32)
        usual, unit = self._usual()
        squared = float(np.dot(usual, usual)) * unit * unit
        direction = np.frombuffer(asked, np.int8).astype(np.float32)
        length = float(np.sqrt(np.dot(direction, direction)))
        shared = float(np.dot(direction, usual)) * unit / length
        products = self._products(rows[there], np.stack((direction, usual), axis=1))
        products /= self._lengths.values[rows[there], np.newaxis]
        alike, common = products[:, 0] / length, products[:, 1] * unit
        apart = np.sqrt(np.maximum((1 - 2 * shared + squared) * (1 - 2 * common + squared), _TINY))
        cosines = (alike - shared - common + squared) / apart
        found[there] = np.rint(np.clip(cosines, 0, 1) * NEAR)
        return found

    def _usual(self) -> tuple[NDArray[np.float32], float]:
        """Return the mean direction in byte components, and the length of one unit relative to a direction's."""
        mean = self._total / (_PARTS * (self.size + _FEW))
        unit = max(float(np.abs(mean).max()), _TINY) / _HIGHEST
        return np.rint(mean / unit).astype(np.float32), unit

    def _products(self, rows: NDArray[np.int32], directions: NDArray[np.float32]) -> NDArray[np.float64]:
        """Multiply each row with each direction."""
        values, step = self._values.values.reshape(-1, self._width), max(1, _BLOCK // self._width)
        found = np.empty((len(rows), directions.shape[1]), np.float64)
        for start in range(0, len(rows), step):
            found[start : start + step] = values[rows[start : start + step]].astype(np.float32) @ directions
        return found


def _signs(values: NDArray[np.int8]) -> NDArray[np.uint64]:
    """Pack the signs of each row, 64 per integer."""
    packed = np.packbits(values > 0, axis=1)
    room = np.zeros((len(values), -(-packed.shape[1] // 8) * 8), np.uint8)
    room[:, : packed.shape[1]] = packed
    return room.view(np.uint64)


def best_of_both(
    index: EpisodeIndex,
    terms: Sequence[QueryTerm],
    vectors: Vectors,
    asked: bytes,
    limit: int,
    among: NDArray[np.bool_] | None = None,
    whole: int = 0,
) -> tuple[list[tuple[int, int]], int]:
    """(number, score) of those for which words and vector together say most, ties as there, of the best by words and
    of the nearest. With `among`, of these documents only. Also the score of what answers all of the question, if
    `whole` is what that scores by words."""
    worded = index.best(terms, limit, among)
    highest = max((score for _, score in worded), default=0)
    by_words = index.places(np.array([number for number, _ in worded], np.uint64))
    places = np.union1d(by_words, vectors.nearest(asked, limit, among))
    words = (index.weigh(terms, places).astype(np.int64) * UNIT // max(1, highest)).astype(np.int32)
    nearness = vectors.nearness(asked, places)
    found = index.ordered(places, words + nearness, limit)
    if not found or not whole:
        return found, 0
    answered = _ANSWERED * (Fraction(highest, whole) + Fraction(int(nearness.max()), UNIT)) or 1
    return found, int(found[0][1] / answered)
