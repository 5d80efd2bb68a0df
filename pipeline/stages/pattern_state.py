"""State of the patterns stage.

| key | record |
|---|---|
| `m/tenant/pattern/session/segment` | Contribution: one entry of a pattern's map, also once it is withdrawn |
| `p/tenant/pattern` | PatternState: what the pattern last said, and when it is to speak |
| `b/barrier_id` | BarrierState: which events partitions it has been seen from |
"""

from bisect import insort
from typing import Any

import msgspec

from pipeline.compiler.candidate import rank
from pipeline.compiler.lifecycle import Said
from pipeline.contracts.evidence import Contribution, evidence_key
from pipeline.contracts.keys import join_key
from pipeline.contracts.limits import PATTERN_CONTRIBUTIONS
from pipeline.contracts.model import Model


class PatternState(Model):
    said: Said | None = None
    speak_at: int | None = None
    """Clock at which the pattern is compiled; None: nothing new."""


class BarrierState(msgspec.Struct, frozen=True, kw_only=True):
    seen: tuple[int, ...]
    partitions: int
    passed: bool
    forget_at: int


_BARRIER = msgspec.json.Decoder(BarrierState)


def map_key(contribution: Contribution) -> str:
    return f"m/{evidence_key(contribution)}"


def pattern_key(contribution: Contribution) -> str:
    return f"p/{join_key(contribution.tenant_id, contribution.pattern.text)}"


def barrier_state_key(barrier_id: str) -> str:
    return f"b/{join_key(barrier_id)}"


def decode_state(key: str, value: bytes) -> Any:
    match key[0]:
        case "m":
            return Contribution.model_validate_json(value)
        case "p":
            return PatternState.model_validate_json(value)
        case "b":
            return _BARRIER.decode(value)
    raise ValueError(f"no state record has the key {key!r}")


def encode_state(value: Any) -> bytes:
    return value.to_json() if isinstance(value, Model) else msgspec.json.encode(value)


def state_deadline(value: Any) -> int | None:
    if isinstance(value, PatternState):
        return value.speak_at
    if isinstance(value, BarrierState):
        return value.forget_at
    return None


class Maps:
    """Each pattern's map, and which patterns have something to say."""

    def __init__(self) -> None:
        self._maps: dict[str, dict[str, Contribution]] = {}
        self._ranks: dict[str, list[tuple[int, str]]] = {}
        self.pending: set[str] = set()

    def of(self, pattern: str) -> dict[str, Contribution]:
        """`pattern` is a `p/…` key; the result is not to be changed."""
        return self._maps.get(pattern, {})

    def surplus(self, pattern: str, key: str, contribution: Contribution) -> str | None:
        """The key that a full map has no place for once this one comes: of its own and the map's, the highest rank.

        So a map holds the lowest ranks of all that ever came. A withdrawn contribution keeps its place for that: what
        was turned away for it does not come again.
        """
        known = self.of(pattern)
        if key in known or len(known) < PATTERN_CONTRIBUTIONS:
            return None
        return max(self._ranks[pattern][-1], (rank(contribution), key))[1]

    def changed(self, key: str, old: Any, new: Any) -> None:
        match key[0]:
            case "m":
                self._follow(pattern_key(new if new is not None else old), key, old, new)
            case "p":
                if new is not None and new.speak_at is not None:
                    self.pending.add(key)
                else:
                    self.pending.discard(key)

    def _follow(self, pattern: str, key: str, old: Contribution | None, new: Contribution | None) -> None:
        entries, ranks = self._maps.setdefault(pattern, {}), self._ranks.setdefault(pattern, [])
        if old is not None and new is None:
            del entries[key]
            ranks.remove((rank(old), key))
            if not entries:
                del self._maps[pattern], self._ranks[pattern]
        elif new is not None:
            entries[key] = new
            if old is None:
                insort(ranks, (rank(new), key))
