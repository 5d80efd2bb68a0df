"""Digests of the records in Redis, which reveal altered, cut or lost records. Pure.

Input: a record's bytes, and the digest or checksum stored with it. Output: whether they match; digests to store. The
digest of an event id is a sum, because episodes of several partitions arrive in any order.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final
from zlib import crc32

_CHECK: Final = 4
"""Checksum bytes before a document."""


def digest(value: bytes) -> bytes:
    return blake2b(value, digest_size=8).digest()


def digest_of_events(parts: Sequence[bytes]) -> int:
    """Returns the digest of alternating sessions and episodes."""
    return sum([crc32(parts[at], crc32(parts[at - 1])) for at in range(1, len(parts), 2)])


def with_checksum(number: int, document: bytes) -> bytes:
    """Prefixes a document with a checksum over it and its number."""
    return crc32(document, number & 0xFFFFFFFF).to_bytes(_CHECK, "little") + document


def verified_document(number: int, body: bytes) -> bytes | None:
    """Returns the document, or None if its checksum does not match."""
    document = body[_CHECK:]
    return document if body == with_checksum(number, document) else None


def is_sound(value: object, wanted: object) -> bool:
    """Returns whether a record exists and matches its digest."""
    return isinstance(value, bytes) and isinstance(wanted, bytes) and digest(value) == wanted


def are_sound(parts: object, wanted: object) -> bool:
    """Returns whether the whole list of an event id matches its digest."""
    if not isinstance(parts, list) or not isinstance(wanted, bytes) or not parts or len(parts) % 2:
        return False
    return b"%d" % digest_of_events(parts) == wanted
