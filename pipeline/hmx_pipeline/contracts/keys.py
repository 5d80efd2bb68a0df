"""Record keys and partitions: percent-encoding, Kafka's murmur2 partitioner, reserved names.

Input: ids, and a number of partitions. Output: a key such as `tenant/session`, and the partition that Kafka's default
partitioner chooses for it. Only this module makes keys of records; `stages/pattern_keys` makes those of
the patterns stage's state. A key joins percent-encoded parts with `/`, so `a/b`+`c` and `a`+`b/c` differ.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from struct import unpack
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from hmx_pipeline.contracts.bounded_cache import ShortTextCache, remembered
from hmx_pipeline.contracts.limits import MB

CONTROL_TENANT: Final = "_hmx"
CONTROL_PREFIX: Final = "x-hmx-"
TICK: Final = "x-hmx-tick"
BARRIER: Final = "x-hmx-barrier"
ARCHIVE: Final = "x-hmx-archive"
IMPORT: Final = "x-hmx-import"
RULING: Final = "x-hmx-ruling"
ERASE: Final = "x-hmx-erase"
TENANT: Final = "x-hmx-tenant"
REMEMBERED: Final = 8 * MB
"""Cache size in bytes for keys and partitions: a session's events come close together."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.~-]*")
"""Characters that percent-encoding leaves unchanged."""
_ESCAPED: Final = {code: quote(chr(code), safe="") for code in range(128)}


def encoded(part: str) -> str:
    """Percent-encode a part; most parts stay unchanged."""
    if (part.isascii() and part.isalnum()) or _PLAIN.fullmatch(part):
        return part
    return part.translate(_ESCAPED) if part.isascii() else _quoted(part)


@remembered(REMEMBERED)
def _quoted(part: str) -> str:
    return quote(part, safe="")


ENCODED: Final = ShortTextCache(lambda part: encoded(part).encode(), 65_536)
"""The same as bytes, of words that come again."""


def join_key(*parts: str) -> str:
    """Join parts to a key; `split_key` reverses it."""
    return "/".join(map(encoded, parts))


def split_key(key: str) -> Sequence[str]:
    return [_unquoted(part) if "%" in part else part for part in key.split("/")]


@remembered(REMEMBERED)
def _unquoted(part: str) -> str:
    return unquote(part)


@remembered(REMEMBERED)
def session_key(tenant_id: str, session_id: str) -> str:
    """Return the key of a session's events, episodes and state."""
    return join_key(tenant_id, session_id)


def murmur2(data: bytes) -> int:
    """Return Kafka's 32-bit MurmurHash2, unsigned."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    words = len(data) >> 2
    h = 0x9747B28C ^ len(data)
    found: tuple[int, ...] = unpack(f"<{words}I", data[: words << 2])  # compiled, the type saves a quarter
    for word in found:
        k = word * m & mask
        h = (h * m & mask) ^ ((k ^ k >> 24) * m & mask)
    if tail := data[words << 2 :]:
        h = (h ^ int.from_bytes(tail, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ (h >> 15)


@remembered(REMEMBERED)
def partition_of(key: str, partitions: int) -> int:
    """Return the partition that Kafka's default partitioner chooses for the key."""
    return (murmur2(key.encode()) & 0x7FFFFFFF) % partitions


class Place(NamedTuple):
    """The key and partition of a session's events."""

    key: str
    encoded: bytes
    """The key as bytes."""
    partition: int


@lru_cache(maxsize=8_192)  # ids have at most 512 bytes, so this takes at most 64 MB
def session_place(tenant_id: str, session_id: str, partitions: int) -> Place:
    """Return the key and partition. Cached, because it runs for every event and a lookup is ten times as fast."""
    key = join_key(tenant_id, session_id)
    encoded = key.encode()
    return Place(key, encoded, (murmur2(encoded) & 0x7FFFFFFF) % partitions)


def tenant_partition(tenant_id: str, partitions: int) -> int:
    """Return the partition of a tenant's evidence, artifacts and knowledge. What is merged or counted together must be
    in one partition."""
    return partition_of(join_key(tenant_id), partitions)
