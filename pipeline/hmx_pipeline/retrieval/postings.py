"""Binary format of index rows and postings, and the integer parts of BM25 (Robertson and Zaragoza 2009).

A document's number encodes its record's partition and offset, so a rebuild gives the same number. A posting is that
number with the occurrences of a term; a row holds what a search needs of the document. Both are only appended. All sums
are of integers, so their order changes no rank.
"""

import math
import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from hashlib import blake2b, sha256
from typing import Any, Final
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.keys import encoded
from hmx_pipeline.contracts.limits import MB

OFFSET_BITS: Final = 48
_TF_BITS: Final = 4
_MOST: Final = (1 << _TF_BITS) - 1
"""Most occurrences that are stored: with so low a k1 BM25 is flat long before."""
_NUMBER: Final = struct.Struct("<Q")
POSTING: Final = np.dtype("<u8")
_ROW: Final = struct.Struct("<QQqHQ")
ROW: Final = np.dtype([("number", "<u8"), ("session", "<u8"), ("at", "<i8"), ("length", "<u2"), ("subject", "<u8")])
_U16: Final = 0xFFFF

# Best values of reference measurements on conversations. Texts are short, so occurrences saturate early.
K1: Final = 0.9
B: Final = 0.6
UNIT: Final = 4096
"""Scale of a BM25 term frequency (BM25's share of one term without its idf)."""
_IDF_UNIT: Final = 64
FEW: Final = 32
"""With fewer documents than this, no term counts as common."""
_STEPS: Final = tuple(2 ** (step / 8) for step in range(-8, 129))


def document_number(partition: int, offset: int) -> int:
    return partition << OFFSET_BITS | offset


def pack_number(number: int) -> bytes:
    return _NUMBER.pack(number)


def pack_postings(number: int, occurrences: Iterable[int]) -> list[bytes]:
    """Return one posting for each term of a document."""
    pack, none = _NUMBER.pack, number << _TF_BITS
    once = pack(none | 1)
    return [once if n == 1 else pack(none | min(n, _MOST)) for n in occurrences]


def unpack_postings(blob: bytes) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """Return document numbers and occurrences."""
    found = np.frombuffer(blob, POSTING)
    return found >> np.uint64(_TF_BITS), (found & np.uint64(_MOST)).astype(np.uint8)


def pack_row(number: int, session_id: str, at: int, length: int, subject: str = "") -> bytes:
    """Pack a row: `at` in milliseconds, `length` in terms."""
    return _ROW.pack(number, session_mark(session_id), at, min(length, _U16), subject_hash(subject))


def unpack_rows(blob: bytes) -> NDArray[Any]:
    return np.frombuffer(blob, ROW)


@remembered(MB)
def session_mark(session_id: str) -> int:
    """Return a 64-bit hash that identifies the session within its tenant."""
    return int.from_bytes(blake2b(session_id.encode(errors="surrogatepass"), digest_size=8).digest(), "little")


@remembered(MB)
def subject_hash(subject: str) -> int:
    """Return 64 bits of the subject's SHA-256; 0 for no subject, and for nobody else. Two subjects may share a hash, so
    what is shown of a document is decided by the whole name."""
    return int.from_bytes(sha256(subject.encode(errors="surrogatepass")).digest()[:8], "little") or 1 if subject else 0


def pack_assigned(session_id: str, subject: str) -> bytes:
    """Pack whose session it is."""
    return f"{encoded(session_id)}:{subject}".encode()


def unpack_assigned(packed: bytes) -> tuple[int, str]:
    session, _, subject = packed.decode().partition(":")
    return session_mark(unquote(session)), subject


def idf(holding: int, documents: int) -> int:
    """Return ln(1 + (N - n + 0.5) / (n + 0.5)) in 64ths, at least 1; N documents, n of which contain the term."""
    return max(1, round(_IDF_UNIT * math.log1p((max(documents, holding) - holding + 0.5) / (holding + 0.5))))


def asked_for(holding: Iterable[int], documents: int) -> int:
    """Return the score of an average document that has each term once; `holding`: how many documents contain each."""
    return UNIT * sum(idf(held, documents) for held in holding)


def asked_alone(holding: Sequence[int], documents: int) -> int:
    """What a question of nothing but these terms asks for. One common word alone is asked for by chance, so it is as
    much as a rare one: else all that has it would answer it. Several are a question, however many texts have them."""
    asked = asked_for(holding, documents)
    return asked if len(holding) > 1 else max(UNIT * idf(1, documents), asked)


def typical(total: int, documents: int) -> float:
    """Return the average length, rounded up to one of eight steps per octave, so that computed weights stay valid for
    long."""
    return _STEPS[min(len(_STEPS) - 1, bisect_left(_STEPS, total / documents))] if documents else 1.0


def impacts(
    occurrences: NDArray[np.float64], lengths: NDArray[np.float64], typical_length: float
) -> NDArray[np.uint16]:
    """Return BM25 term frequencies: tf (k1 + 1) / (tf + k1 (1 - b + b length / average)), times `UNIT`."""
    saturated_at = K1 * (1 - B + B / typical_length * lengths)
    return np.rint(UNIT * (K1 + 1) * occurrences / (occurrences + saturated_at)).astype(np.uint16)
