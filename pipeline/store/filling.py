"""How far a fill of memory is: what the materialiser notes at its start, and what readers make of it.

Enters: by partition, the offsets between which a partition that memory knew nothing of is read. Leaves: `Completeness`.
A partition that has been read to the end that its fill began with stays complete: what comes later is lag.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pipeline.retrieval.completeness import Completeness, Progress
from pipeline.store.changes import Command
from pipeline.store.keys import Keys


def questions(keys: Keys) -> list[Command]:
    return [(b"HGETALL", keys.positions), (b"HGETALL", keys.goals)]


def begun(keys: Keys, goals: Mapping[str, tuple[int, int]]) -> Command:
    """Notes that these partitions are read from the first offset to the second."""
    rows = [part for name, (start, end) in goals.items() for part in (name.encode(), b"%d-%d" % (start, end))]
    return (b"HSET", keys.goals, *rows)


def completeness(positions: Any, goals: Any, damaged: Iterable[str] = ()) -> Completeness:
    """Of the answers to `questions`, flat or as mappings. What cannot be read counts as not there."""
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
