"""Records that kill whoever folds them: how one is found, and no other is taken for it.

An owner's first batch is announced in the position record before it is folded: so often it has been begun there, and
nobody has come to its end. After two deaths the next owner folds it in pieces, after the next the piece that nobody has
survived record by record, each announced by the commit before it, and while such a record is folded the process does
nothing else. A record that three owners in a row have not survived alone is condemned: by the position record, so that
everyone who folds the partition from then on, replays too, rejects it unseen.

Announcements are commits: where Kafka refuses them, as on a full disk, nobody has tried. A worker that is killed for
another reason has tried once, so three such deaths at one record, each within its few milliseconds, would be mistaken.
An owner whose partition is revoked has not died: it takes its announcement back.
"""

from collections.abc import Iterator
from itertools import chain, repeat
from typing import Final

from pipeline.contracts.limits import BATCH_RECORDS

_PIECE: Final = 64
_PIECES: Final = (BATCH_RECORDS, BATCH_RECORDS, _PIECE, 1, 1, 1)
"""Records that an owner folds at once, by how often others have begun at its position."""
TRIES: Final = len(_PIECES)
"""So often begun, the last times with one record: that record is condemned."""


def alone(tries: int) -> bool:
    """Whether the next record is to be folded while the process does nothing else."""
    return next(pieces(tries)) == 1


def pieces(tries: int) -> Iterator[int]:
    """Records that an owner folds at once, piece by piece. What kills stands in the first `_PIECE` of single ones."""
    size = _PIECES[min(tries, TRIES - 1)]
    return chain(repeat(1, _PIECE), repeat(BATCH_RECORDS)) if size == 1 else repeat(size)


def first_try(size: int) -> int:
    """The announcement of a piece of this size that nobody has begun before."""
    return _PIECES.index(size) + 1


def begun(tries: int) -> int:
    """The announcement of one more try after so many. After a condemnation the records that follow are new."""
    return tries + 1 if tries < TRIES else 0
