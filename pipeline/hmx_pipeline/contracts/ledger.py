"""The reinforcement ledger: what each kind of reinforcement weighs, how that fades, and a memory's score for a cue.

Input: what the ledger says of a memory, when it was made, and now, in milliseconds. Output: its salience, 0.01 to 10
(`salience`), and its score in the cognitive profile, 0 to 1 (`felt`).
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple, get_args

from hmx_pipeline.contracts.timestamps import milliseconds

WEIGHTS: Final[Mapping[str, float]] = {"surfaced": 1.05, "confirmed": 1.5, "promoted": 2.0, "invalidated": 0.2}
REINFORCES: Final = "memory.reinforcement"
"""Type of the events that make the ledger. They are no part of what happened, so no time passes with them."""
SURFACED: Final = "surfaced-"
"""Begins the names of sessions that only say what a pack has shown."""
FLOOR: Final = 0.15
"""What has less salience ranks behind everything else, unless it is pinned or accepted."""
_KEPT: Final = frozenset(("accepted", "authoritative", "parent-accepted", "promoted"))
_CUED: Final = 0.25
Cue = Literal["mission", "workspace", "tool", "phase"]
"""Where something was learnt, or is asked."""
CUES: Final[tuple[Cue, ...]] = get_args(Cue)
LEAST: Final = 0.01
MOST: Final = 10.0
"""Bounds of a factor, and the most that an event may weigh."""
_HALVED_MS: Final = 30 * 24 * 3600 * 1000


class Reinforced(NamedTuple):
    """What the ledger says of one memory."""

    factor: float = 1.0
    at: int = 0
    """When it was reinforced last, in milliseconds; 0 if never."""


def memory_hash(source_id: str) -> str:
    """Return the hash by which the ledger names an event, a record or an artifact."""
    return sha256(source_id.encode(errors="surrogatepass")).hexdigest()


def reinforced(record: Mapping[str, Any]) -> Reinforced:
    properties = record["body"]["properties"]
    return Reinforced(properties["factor"], milliseconds(properties["last_reinforced_at"]))


def salience(known: Reinforced, created: int, now: int) -> float:
    """Return the salience. It fades from the last reinforcement on, else from the memory's own time, so that nothing
    outranks a reinforced memory for ever because nobody ever saw it."""
    age = max(0, now - (known.at or created))
    faded: float = known.factor * 0.5 ** (age / _HALVED_MS)
    return min(MOST, max(LEAST, faded))


def felt(score: float, salience: float, properties: Mapping[str, Any], cues: Mapping[Cue, str]) -> float:
    """Return a memory's score in the cognitive profile. `properties`: what its events say of it; `cues`: those of the
    question."""
    own, asked = set(properties.get("cues", ())), {f"{name}={value}" for name, value in cues.items()}
    if own and asked:
        score = min(1.0, score + _CUED * len(own & asked) / len(own | asked))
    if salience < FLOOR:
        exempt = properties.get("pinned") is True or not _KEPT.isdisjoint(
            str(properties.get(place)) for place in ("status", "review_status", "authority_status")
        )
        salience = FLOOR if exempt else salience * LEAST
    return round(score * salience / MOST, 6)
