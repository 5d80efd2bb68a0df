"""Crash-loop guard: how many records an owner folds at once after so many deaths, until the deadly one is found.

Enters: how many owners have begun the batch without finishing it, from the position record. Leaves: the sizes of the
chunks to fold, in records, and the number of tries to announce. An owner's first batch is announced in the position
record before it is folded, which counts the tries. After two deaths the next owner folds the batch in chunks; after
each of the next two, the fatal chunk in smaller ones, each announced. The smallest are single records, with nothing
else running (`worker/partition`): so they are few, because all other partitions wait. A record that kills three owners
in a row is condemned in the position record, so every later fold, replays included, rejects it.

A try counts only if its announcement was committed, so a full disk condemns nothing. A worker killed for another reason
counts as one try. An owner whose partition is revoked withdraws its announcement.
"""

from collections.abc import Iterator
from itertools import chain, repeat, takewhile
from typing import Final

from hmx_pipeline.contracts.limits import BATCH_RECORDS

_PIECES: Final = (BATCH_RECORDS, BATCH_RECORDS, 64, 8, 1, 1, 1)
"""Records per transaction, by number of earlier tries."""
TRIES: Final = len(_PIECES)
"""Tries after which the single record is condemned."""


def alone(tries: int) -> int:
    """Returns how many records must be folded one by one with nothing else running, before any others."""
    return sum(takewhile(lambda size: size == 1, pieces(tries)))


def pieces(tries: int) -> Iterator[int]:
    """Yields the sizes of an owner's chunks. A fatal record is among those of the next larger chunk."""
    size = _PIECES[min(tries, TRIES - 1)]
    larger = min((each for each in _PIECES if each > size), default=size)
    return chain(repeat(size, -(-larger // size)), repeat(BATCH_RECORDS))


def first_try(size: int) -> int:
    """Returns the number of tries that a chunk of this size starts with."""
    return _PIECES.index(size) + 1


def begun(tries: int) -> int:
    """Returns the number to announce for one more try; 0 after a condemnation."""
    return tries + 1 if tries < TRIES else 0
