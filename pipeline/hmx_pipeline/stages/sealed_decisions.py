"""Sealed decisions: what operators decided on patterns of which nothing is left.

Enters: a pattern's state key and its decisions as bytes. Leaves: the key `d/tenant/hash` and masked bytes, and the
decisions again for whoever has the pattern's key. A decision outlives its evidence, but the pattern's name and the
operator's reason may hold words of what was erased. So the state keeps it under the hash of that name, and unreadable
without it, until evidence or a decision names the pattern again.
"""

import hashlib
from typing import Final

import msgspec

_NONCE: Final = 16


class SealedDecisions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    sealed: bytes
    at: int = 0
    """When the last of them was made; 0 if they are not too old at any time."""
    whose: str = ""
    """Mark of the subject whose pattern it is; empty if it is the tenant's."""


def sealed_key(pattern: str) -> str:
    """Return the key for that of a pattern, `p/tenant/pattern`."""
    tenant = pattern.split("/", 2)[1]
    return f"d/{tenant}/{hashlib.sha256(pattern.encode()).hexdigest()[:32]}"


def sealed(pattern: str, told: bytes) -> bytes:
    nonce = hashlib.sha256(told).digest()[:_NONCE]
    return nonce + _masked(pattern, nonce, told)


def opened(pattern: str, found: bytes) -> bytes:
    return _masked(pattern, found[:_NONCE], found[_NONCE:])


def _masked(pattern: str, nonce: bytes, told: bytes) -> bytes:
    """Combine bytes with a stream that only the name gives; twice gives them back."""
    stream = hashlib.shake_256(nonce + pattern.encode()).digest(len(told))
    return (int.from_bytes(told) ^ int.from_bytes(stream)).to_bytes(len(told))
