"""Vectors: what an event says in an embedding's words, and a question (HMX-E §2.2 `embeddings`). Pure.

Enters: numbers, and the name of the model that made them. Leaves: bytes, whatever the producer's numbers were; how near
a question is to each document; the best of what words and vectors find. Nothing fails. A component is a byte, so a sum
of products is a whole number that float32 holds: however it is added up, the same comes out.
"""

from collections.abc import Callable, Mapping, Sequence
from hashlib import shake_128
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.contracts.episode import RESERVED
from pipeline.contracts.event import EMBEDDING_MODEL
from pipeline.contracts.limits import EMBEDDING_DIMENSIONS, TAG
from pipeline.retrieval.episode_index import EpisodeIndex, Places, Term
from pipeline.retrieval.growing import Growing

WIDTH: Final = 1024
"""Components kept at most; so many products of bytes stay below 2^24, up to where float32 holds every whole number."""
_HIGHEST: Final = 127
_BLOCK: Final = 1 << 18
"""Components that are looked at in one go: they stay in the processor's cache."""
UNIT: Final = 1 << 16
"""How relevant the best match by words is."""
NEAR: Final = UNIT * 5 // 4
"""How relevant is what has the question's very direction: before whatever has its words and another one."""

_SIGNS: Final = 1.0 - 2.0 * np.unpackbits(
    np.frombuffer(shake_128(b"signs").digest(EMBEDDING_DIMENSIONS // 8), np.uint8)
).astype(np.float64)


class Vector(NamedTuple):
    """A direction. Only those of one space can be compared."""

    space: str
    """How many numbers it was made of, and by which model."""
    values: bytes
    """A signed byte a component."""


Embed = Callable[[str], Vector | None]
"""A text's vector; the same text always has the same."""


def vector(numbers: Sequence[float], model: str = "") -> Vector | None:
    """None where they point nowhere: all are 0. Of more than WIDTH several share a component, with signs that make
    what does not belong together cancel out: how near two vectors are stays about the same."""
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
    """What is made of an episode's text, and what its event carries; in one space the event's own."""
    made = (None if embed is None else embed(text), document_vector(record))
    return list({each.space: each for each in made if each is not None}.values())


def document_vector(record: Mapping[str, Any]) -> Vector | None:
    """What an episode's event carries; `metadata` may name the model."""
    numbers = record["metadata"][RESERVED].get("embeddings")
    model = record["metadata"].get(EMBEDDING_MODEL, "")
    return None if numbers is None else vector(numbers, model[:TAG] if isinstance(model, str) else "")


def pack_vector(number: int, values: bytes) -> bytes:
    """A document's number and its vector; all of one space have the same length."""
    return number.to_bytes(8, "little") + values


class Both(NamedTuple):
    """A document, and how relevant it is by its words and by its vector."""

    number: int
    words: int
    near: int


class Vectors:
    """A tenant's documents in one space. Grows with what is appended."""

    def __init__(self, width: int) -> None:
        self.read = 0
        """Pieces."""
        self._row: Final = np.dtype([("number", "<u8"), ("values", "i1", (width,))])
        self._width: Final = width
        self._places = Growing(np.int32)
        self._values = Growing(np.int8)
        self._lengths = Growing(np.float64)

    @property
    def size(self) -> int:
        return self._places.size

    @property
    def nbytes(self) -> int:
        return self._places.nbytes + self._values.nbytes + self._lengths.nbytes + 500

    def extend(self, pieces: Sequence[bytes], index: EpisodeIndex) -> None:
        """The pieces that follow those read so far, of some rows each; the index has read their documents."""
        self.read += len(pieces)
        rows = np.frombuffer(b"".join(pieces), self._row)
        self._places.append(index.places(rows["number"]))
        self._values.append(rows["values"].reshape(-1))
        values = rows["values"].astype(np.int32)
        self._lengths.append(np.sqrt(np.einsum("ij,ij->i", values, values)))

    def nearness(self, asked: bytes, documents: int) -> NDArray[np.int32]:
        """How relevant each document's direction is, beside that asked for; 0 across, against it, or without any."""
        found = np.zeros(documents, np.int32)
        direction = np.frombuffer(asked, np.int8).astype(np.float32)
        rows, step = self._values.values.reshape(-1, self._width), max(1, _BLOCK // self._width)
        blocks = [rows[start : start + step].astype(np.float32) @ direction for start in range(0, len(rows), step)]
        if blocks:
            lengths = self._lengths.values * np.sqrt(np.square(direction, dtype=np.float64).sum())
            near = np.rint(np.maximum(np.concatenate(blocks), 0.0) * NEAR / lengths)
            found[self._places.values] = near.astype(np.int32)
        return found


def best_of_both(
    index: EpisodeIndex,
    terms: Sequence[Term],
    near: NDArray[np.int32],
    limit: int,
    among: NDArray[np.bool_] | None = None,
) -> list[Both]:
    """Those for which words and vector together say most, ties by number, of the best by words and of the nearest.
    With `among`, of these documents only."""
    worded = index.best(terms, limit, among)
    highest = max((score for _, score in worded), default=1)
    near = near if among is None else np.where(among, near, 0)
    places = np.union1d(index.places(np.array([n for n, _ in worded], np.uint64)), _nearest(near, limit))
    words = (index.weigh(terms, places).astype(np.int64) * UNIT // highest).astype(np.int32)
    numbers, total = index.numbers(places), words + near[places]
    order = np.lexsort((numbers, -total))[:limit]
    chosen = (numbers[order].tolist(), words[order].tolist(), near[places[order]].tolist())
    return [Both(*each) for each in zip(*chosen, strict=True)]


def _nearest(near: NDArray[np.int32], limit: int) -> Places:
    """All that are as near as the last of so many: numbers decide between them, not places."""
    least = np.partition(near, len(near) - limit)[len(near) - limit] if len(near) > limit else 0
    return np.flatnonzero(near >= max(1, least)).astype(np.int32)
