"""Fill progress: how much of memory is loaded from the topics.

Enters: of each partition the position and the offset range that a fill reads; kinds of damaged keys. Leaves:
`Completeness`. A partition is complete once it was read to the end noted at the start of the fill; what comes later is
lag.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from hmx_pipeline.retrieval.memory_completeness import Completeness, Progress
from hmx_pipeline.store.changes import Command
from hmx_pipeline.store.redis_keys import Keys


def questions(keys: Keys) -> list[Command]:
    return [(b"HGETALL", keys.positions), (b"HGETALL", keys.goals)]


def begun(keys: Keys, goals: Mapping[str, tuple[int, int]]) -> Command:
    """Notes the offset range that a fill of each partition reads."""
    rows = [part for name, (start, end) in goals.items() for part in (name.encode(), b"%d-%d" % (start, end))]
    return (b"HSET", keys.goals, *rows)


def completeness(positions: Any, goals: Any, damaged: Iterable[str] = ()) -> Completeness:
    """Builds the completeness from the answers to `questions`; unreadable values count as missing."""
    at, noted = _mapping(positions), _mapping(goals)
    partitions = {name.decode(): _progress(goal, at.get(name)) for name, goal in noted.items()}
    found = {name: each for name, each in partitions.items() if each is not None}
    return Completeness(bool(found) and len(found) == len(noted), found, tuple(sorted(set(damaged))))


def _mapping(answer: Any) -> Mapping[bytes, bytes]:
    if isinstance(answer, Mapping):
        return answer
    return dict(zip(answer[::2], answer[1::2], strict=True)) if isinstance(answer, list) else {}


def _progress(goal: bytes, position: bytes | None) -> Progress | None:
    start, _, end = goal.partition(b"-")
    if not (start.isdigit() and end.isdigit()):
        return None
    return Progress(int(position) if position and position.isdigit() else 0, int(start), int(end))
