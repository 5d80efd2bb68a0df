"""How keys are spelt and which partition they belong to. Nobody else spells a key.

A key joins percent-encoded parts with `/`, so `a/b`+`c` and `a`+`b/c` stay apart.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from pipeline.contracts.limits import MB
from pipeline.contracts.remembered import remembered

CONTROL_TENANT: Final = "_hmx"
CONTROL_PREFIX: Final = "x-hmx-"
TICK: Final = "x-hmx-tick"
BARRIER: Final = "x-hmx-barrier"
ARCHIVE: Final = "x-hmx-archive"
IMPORT: Final = "x-hmx-import"
REMEMBERED: Final = 8 * MB
"""Of keys and partitions worked out lately: a session's events come close together."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.~-]*")
"""What percent-encoding leaves as it is."""


def encoded(part: str) -> str:
    """Percent-encoded; most parts are as they were then."""
    if (part.isascii() and part.isalnum()) or _PLAIN.fullmatch(part):
        return part
    return _quoted(part)


@remembered(REMEMBERED)
def _quoted(part: str) -> str:
    return quote(part, safe="")


def join_key(*parts: str) -> str:
    """Parts → one key, reversible by `split_key`."""
    return "/".join(map(encoded, parts))


def split_key(key: str) -> Sequence[str]:
    return [unquote(part) for part in key.split("/")]


@remembered(REMEMBERED)
def session_key(tenant_id: str, session_id: str) -> str:
    """Key of an event, of an episode, and of all state of a session."""
    return join_key(tenant_id, session_id)


def murmur2(data: bytes) -> int:
    """Kafka's own 32-bit MurmurHash2, as an unsigned integer."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    length = len(data)
    h = (0x9747B28C ^ length) & mask
    whole = length & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little")
        k = (k * m) & mask
        k ^= k >> 24
        k = (k * m) & mask
        h = (h * m) & mask
        h ^= k
    tail = data[whole:]
    if tail:
        h ^= int.from_bytes(tail, "little")
        h = (h * m) & mask
    h ^= h >> 13
    h = (h * m) & mask
    return h ^ (h >> 15)


@remembered(REMEMBERED)
def partition_of(key: str, partitions: int) -> int:
    """The partition Kafka's default partitioner gives this key."""
    return (murmur2(key.encode()) & 0x7FFFFFFF) % partitions


class Place(NamedTuple):
    """Where a session's events belong."""

    key: str
    encoded: bytes
    """The key as records have it."""
    partition: int


@lru_cache(maxsize=8_192)  # ids end at 512 bytes: at most 64 MB
def session_place(tenant_id: str, session_id: str, partitions: int) -> Place:
    """Asked for every event: what it answers costs ten times as much as to remember it."""
    key = join_key(tenant_id, session_id)
    encoded = key.encode()
    return Place(key, encoded, (murmur2(encoded) & 0x7FFFFFFF) % partitions)


def tenant_partition(tenant_id: str, partitions: int) -> int:
    """Evidence, artifacts and knowledge of one tenant live together: what may be merged or counted is in one place."""
    return partition_of(join_key(tenant_id), partitions)
