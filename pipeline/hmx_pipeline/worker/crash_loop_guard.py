"""Crash-loop guard: how many records an owner folds at once after so many deaths, until the deadly one is found.

An owner's first batch is announced in the position record before it is folded, which counts the tries. After two deaths
the next owner folds the batch in chunks; after the next, the fatal chunk record by record, each announced, with nothing
else running (`worker.partition`). A record that kills three owners in a row is condemned in the position record, so
every later fold, replays included, rejects it.

A try counts only if its announcement was committed, so a full disk condemns nothing. A worker killed for another reason
counts as one try. An owner whose partition is revoked withdraws its announcement.
"""

from collections.abc import Iterator
from itertools import chain, repeat
from typing import Final

from hmx_pipeline.contracts.limits import BATCH_RECORDS

_PIECE: Final = 64
_PIECES: Final = (BATCH_RECORDS, BATCH_RECORDS, _PIECE, 1, 1, 1)
"""Records per transaction, by number of earlier tries."""
TRIES: Final = len(_PIECES)
"""Tries after which the single record is condemned."""


def alone(tries: int) -> bool:
    """Returns whether the next record must be folded with nothing else running."""
    return next(pieces(tries)) == 1


def pieces(tries: int) -> Iterator[int]:
    """Yields the sizes of an owner's chunks. A fatal record is among the first `_PIECE` single ones."""
    size = _PIECES[min(tries, TRIES - 1)]
    return chain(repeat(1, _PIECE), repeat(BATCH_RECORDS)) if size == 1 else repeat(size)


def first_try(size: int) -> int:
    """Returns the number of tries that a chunk of this size starts with."""
    return _PIECES.index(size) + 1


def begun(tries: int) -> int:
    """Returns the number to announce for one more try; 0 after a condemnation."""
    return tries + 1 if tries < TRIES else 0
