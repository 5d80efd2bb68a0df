"""Near duplicates: texts that share at least four fifths of their words (Jaccard similarity). Exact.

Each text has a `Mark`: its word count and a bit set of word hashes. Near duplicates differ in at most a ninth of their
words together, so their bits differ in no more. The bits rule out most pairs; the rest are compared word by word.
"""

import re
from collections.abc import Sequence, Set
from typing import Final
from zlib import crc32

import msgspec
import numpy as np

from hmx_pipeline.contracts.bounded_cache import ShortTextCache

_WORD: Final = re.compile(r"\w+")
"""Short words count too: `not` changes the meaning."""
_DIGIT: Final = re.compile(r"\d")
_TELLING: Final = 3
"""Words without a digit that a text must have before its numbers are masked."""
_BITS: Final = 256
_MASK: Final = "0"


class Mark(msgspec.Struct, frozen=True, gc=False):
    """The number of words, repetitions included, and a bit set with one bit for each."""

    words: int
    bits: bytes


def mark(text: str) -> Mark:
    count = bits = 0
    for found, theirs in map(_RUNS.__getitem__, text.split()):
        count += found
        bits |= theirs
    return Mark(count, bits.to_bytes(_BITS // 8, "little"))


def near(marks: Sequence[Mark]) -> list[tuple[int, int]]:
    """Return pairs of positions that may be near duplicates, the later one first, sorted."""
    first, *others = np.frombuffer(b"".join(each.bits for each in marks), np.uint64).reshape(-1, _BITS // 64).T
    # Above this many words the bits rule out nothing.
    counts = np.array([min(each.words, 9 * _BITS) for each in marks], np.uint16)
    # The first 64 bits rule out nearly all pairs.
    apart = np.bitwise_count(first[:, None] ^ first).astype(np.uint16)
    later, earlier = np.nonzero(9 * apart <= counts[:, None] + counts)
    below = later > earlier
    later, earlier = later[below], earlier[below]
    apart = apart[later, earlier]
    for part in others:
        apart += np.bitwise_count(part[later] ^ part[earlier])
    close = 9 * apart <= counts[later] + counts[earlier]
    return list(zip(later[close].tolist(), earlier[close].tolist(), strict=True))


def words(text: str) -> frozenset[str]:
    return frozenset(in_order(text))


def folded(text: str) -> str:
    """Replace numbers, ids and dates by one mask: repetitions of one event differ in these only."""
    if not _DIGIT.search(text):
        return text
    runs = [_MASK if _DIGIT.search(run) else run for run in text.split()]
    return " ".join(runs) if len(runs) - runs.count(_MASK) >= _TELLING else text


def told(one: Set[str], by: Set[str]) -> bool:
    """Return True if `by` contains at least four fifths of the words of `one`; False if `one` has none."""
    return bool(one) and 5 * len(one & by) >= 4 * len(one)


def in_order(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def alike(one: Set[str], other: Set[str]) -> bool:
    """Return True if the Jaccard similarity is at least 0.8, in integers; False if there are no words."""
    shared = len(one & other)
    return shared > 0 and 5 * shared >= 4 * (len(one) + len(other) - shared)


def _looked_at(run: str) -> tuple[int, int]:
    found = _WORD.findall(run.casefold())
    bits = 0
    for word in found:
        bits |= 1 << crc32(word.encode(errors="surrogatepass")) % _BITS
    return len(found), bits


_RUNS: Final = ShortTextCache(_looked_at, 65_536)
"""Texts consist of few runs that repeat."""
