"""Deterministic ids: UUIDv8 from event time and content hash, so that a replay gives the same ids.

Input: milliseconds since 1970, by which ids sort, and texts. Output: a UUID as text.
"""

import hashlib

from hmx_pipeline.contracts.keys import join_key
from hmx_pipeline.contracts.limits import ID_BYTES


def too_long(text: str) -> bool:
    """Return True if the id has more bytes of UTF-8 than allowed."""
    return len(text) > ID_BYTES or not (text.isascii() or len(text.encode()) <= ID_BYTES)


def content_id(ms: int, *parts: str) -> str:
    """Return a UUIDv8: 48 bits of `ms` (milliseconds since 1970), by which it sorts, and 74 bits of SHA-256
    of `parts`."""
    digest = int.from_bytes(hashlib.sha256(join_key(*parts).encode()).digest()[:10], "big")
    time = max(0, ms) & 0xFFFFFFFFFFFF
    value = (time << 80) | (8 << 76) | ((digest >> 64 & 0xFFF) << 64) | (0b10 << 62) | (digest & (1 << 62) - 1)
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def keyed_id(tenant_id: str, session_id: str, key: str) -> str:
    """Return the id of what a producer calls `key` within a session: sent again, it is a duplicate."""
    return content_id(0, "capture", tenant_id, session_id, key)
