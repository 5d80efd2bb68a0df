"""Sealed decisions: what operators decided on patterns of which nothing is left.

Enters: a pattern's state key and its decisions as bytes. Leaves: the key `d/tenant/hash` and masked bytes, and the
decisions again for whoever has the pattern's key. A decision outlives its evidence, but the pattern's name and the
operator's reason may hold words of what was erased. So the state keeps it under the hash of that name, and unreadable
without it, until evidence or a decision names the pattern again.
"""

import hashlib
from collections.abc import Set
from typing import Final

import msgspec

_NONCE: Final = 16


class SealedRuling(msgspec.Struct, frozen=True):
    """A subject's own, in a pattern of the tenant."""

    before: int
    """How many of the other rulings of the pattern, which subjects did not decide, stand before it."""
    whose: str
    """Mark of the subject."""
    sealed: bytes


class SealedDecisions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    sealed: bytes
    """But for what subjects decided on their own in a pattern of the tenant."""
    at: int = 0
    """When the last of them was made; 0 if they are not too old at any time."""
    whose: str = ""
    """Mark of the subject whose pattern it is; empty if it is the tenant's."""
    by_subjects: tuple[SealedRuling, ...] = ()
    by_subjects_alone: bool = False
    """True if nobody else has decided anything."""

    def without(self, subjects: Set[str]) -> "SealedDecisions | None":
        """Return what an erasure leaves of them; None if nothing. `subjects`: marks."""
        left = tuple(each for each in self.by_subjects if each.whose not in subjects)
        if self.whose in subjects or (self.by_subjects_alone and not left):
            return None
        return msgspec.structs.replace(self, by_subjects=left)


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
