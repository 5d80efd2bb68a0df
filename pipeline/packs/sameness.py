"""Which of several texts say the same: at least four fifths of all their words are in both. Pure, exact.

Enters: texts, and of each a mark that never changes. Leaves: pairs of them. Nothing fails. Two texts that say the same
differ in no more than a ninth of the words that both have together, and their marks in no more bits: few pairs are left
to compare word by word.
"""

import re
from collections.abc import Sequence, Set
from functools import lru_cache
from typing import Final
from zlib import crc32

import msgspec
import numpy as np

_WORD: Final = re.compile(r"\w+")
"""Small words count too: a `not` makes another saying."""
_DIGIT: Final = re.compile(r"\d")
_TELLING: Final = 3
"""Words without a digit that a text must have for the others not to count."""
_BITS: Final = 256
_MASK: Final = "0"
_LONG: Final = 64
"""Characters of a run without blanks that is not remembered."""


class Mark(msgspec.Struct, frozen=True, gc=False):
    """How many words a text has, repeats included, and one bit for each of them."""

    words: int
    bits: bytes


def mark(text: str) -> Mark:
    runs = text.split()
    short = max(map(len, runs), default=0) <= _LONG
    count = bits = 0
    for found, theirs in map(_run if short else _looked_at, runs):
        count += found
        bits |= theirs
    return Mark(count, bits.to_bytes(_BITS // 8, "little"))


def near(marks: Sequence[Mark]) -> list[tuple[int, int]]:
    """Positions of two texts that may say the same, the later one first, in order."""
    first, *others = np.frombuffer(b"".join(each.bits for each in marks), np.uint64).reshape(-1, _BITS // 64).T
    # Of more words than that no bits rule out anything.
    counts = np.array([min(each.words, 9 * _BITS) for each in marks], np.uint16)
    # A part of the bits rules out nearly all pairs.
    apart = np.bitwise_count(first[:, None] ^ first).astype(np.uint16)
    close = (9 * apart <= counts[:, None] + counts) & np.tri(len(marks), k=-1, dtype=np.bool_)
    later, earlier = np.nonzero(close)
    apart = apart[later, earlier]
    for part in others:
        apart += np.bitwise_count(part[later] ^ part[earlier])
    close = 9 * apart <= counts[later] + counts[earlier]
    return list(zip(later[close].tolist(), earlier[close].tolist(), strict=True))


def words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))


def folded(text: str) -> str:
    """With one mark for every number, id and date: what happens again and again differs in these alone."""
    if not _DIGIT.search(text):
        return text
    runs = [_MASK if _DIGIT.search(run) else run for run in text.split()]
    return " ".join(runs) if len(runs) - runs.count(_MASK) >= _TELLING else text


def told(one: Set[str], by: Set[str]) -> bool:
    """Whether the other has at least four fifths of its words; what has none says nothing."""
    return bool(one) and 5 * len(one & by) >= 4 * len(one)


def alike(one: Set[str], other: Set[str]) -> bool:
    """Jaccard similarity of the words of at least .8, in integers; what has none says nothing."""
    shared = len(one & other)
    return shared > 0 and 5 * shared >= 4 * (len(one) + len(other) - shared)


@lru_cache(65_536)  # runs repeat, most texts are made of few
def _run(run: str) -> tuple[int, int]:
    return _looked_at(run)


def _looked_at(run: str) -> tuple[int, int]:
    found = _WORD.findall(run.casefold())
    bits = 0
    for word in found:
        bits |= 1 << crc32(word.encode(errors="surrogatepass")) % _BITS
    return len(found), bits
