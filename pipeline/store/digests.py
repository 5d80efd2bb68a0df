"""What each record in Redis must be: a digest beside it, written in the same transaction. A record that was altered,
cut, lost or put there by somebody else is told by it. Pure.

An event id's episodes are appended from several partitions in no order, so theirs is a sum.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final
from zlib import crc32

_CHECK: Final = 4
"""Bytes before a document."""


def digest(value: bytes) -> bytes:
    return blake2b(value, digest_size=8).digest()


def digest_of_events(parts: Sequence[bytes]) -> int:
    """Of sessions in turn with episodes."""
    return sum(crc32(episode, crc32(session)) for session, episode in zip(parts[::2], parts[1::2], strict=False))


def checked(number: int, document: bytes) -> bytes:
    """A document with what tells that it is whole, and of that number."""
    return crc32(document, number & 0xFFFFFFFF).to_bytes(_CHECK, "little") + document


def unchecked(number: int, body: bytes) -> bytes | None:
    """The document; None where it is not what was written."""
    document = body[_CHECK:]
    return document if body == checked(number, document) else None


def is_sound(value: object, wanted: object) -> bool:
    """Whether a record is there and is what its digest says."""
    return isinstance(value, bytes) and isinstance(wanted, bytes) and digest(value) == wanted


def are_sound(parts: object, wanted: object) -> bool:
    """The same of an event id's list, whole."""
    if not isinstance(parts, list) or not isinstance(wanted, bytes) or not parts or len(parts) % 2:
        return False
    return b"%d" % digest_of_events(parts) == wanted
