"""Replay comparison of one stream: a topic partition against the replay's records, byte by byte (law 4).

Enters: the records of both sides, each in order. Leaves: a `StreamReport` with equal records and differences. Pure;
never raises. Records are paired by key and origin, so one missing record is one difference. At most `APART` unpaired
records per side are kept.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

import orjson

from hmx_pipeline.contracts.headers import origin_of
from hmx_pipeline.stages.fold import Record

APART: Final = 10_000
"""Largest distance between records of both sides that are still paired."""
EXAMPLES: Final = 20
SHOWN: Final = 60
"""Characters of a value shown in a difference."""

Origin = tuple[int, int] | None
"""Partition and offset; None: no header names it."""


class StreamDifference(StrEnum):
    ALTERED = "altered"
    """On both sides, with different bytes."""
    MISSING = "missing"
    """Made by the replay, not in the topic."""
    EXTRA = "extra"
    """In the topic, not made by the replay."""
    MOVED = "moved"
    """On both sides, in another order."""


class DifferenceExample(NamedTuple):
    difference: StreamDifference
    offset: int | None
    """Offset in the topic."""
    origin: Origin
    key: str
    detail: str


@dataclass
class StreamReport:
    topic: str
    partition: int
    same: int = 0
    later: int = 0
    """Records in the topic that come from input after the replay's end."""
    replaced: int = 0
    """Replayed records that compaction or an erasure has removed from the topic."""
    taken: int = 0
    """Replayed records that retention may have deleted from the topic."""
    not_compared: str = ""
    """Why nothing was compared."""
    differences: Counter[str] = field(default_factory=Counter)
    examples: list[DifferenceExample] = field(default_factory=list)

    def differ(self, difference: StreamDifference, record: Record, offset: int | None, detail: str = "") -> None:
        self.differences[difference] += 1
        if len(self.examples) < EXAMPLES:
            key = (record.key or b"").decode(errors="replace")
            self.examples.append(DifferenceExample(difference, offset, origin_of(record.headers), key, detail))

    def as_json(self) -> dict[str, Any]:
        return {
            **vars(self),
            "not_compared": self.not_compared or None,
            "differences": {str(difference): count for difference, count in self.differences.items()},
            "examples": [example._asdict() for example in self.examples],
        }


def compare(
    report: StreamReport,
    replayed: Iterable[Record],
    live: Iterable[Record],
    settled: int,
    *,
    trimmed: bool = False,
    compacted: bool = False,
    ordered: bool = True,
) -> StreamReport:
    """Compares both sides, reading them alternately so that pairs stay close together.

    All `live` records below the offset `settled` come from input that the replay has folded. `trimmed`: retention
    deleted the first of them. `ordered`: they are in the order of their origins.
    """
    alignment = Alignment(report, settled, compacted=compacted)
    pulled = iter(replayed)
    head = next(pulled, None)
    for position, record in enumerate(live):
        if position == 0 and trimmed:
            while head is not None and _identity(head) != _identity(record):
                report.taken += 1
                head = next(pulled, None)
        while head is not None and ordered and _precedes(head, record):
            alignment.replayed(head)
            head = next(pulled, None)
        if head is not None:
            alignment.replayed(head)
            head = next(pulled, None)
        alignment.live(record)
    while head is not None:
        alignment.replayed(head)
        head = next(pulled, None)
    alignment.end()
    return report


class Alignment:
    """Pairs records of both sides in any order of arrival."""

    def __init__(self, report: StreamReport, settled: int, *, compacted: bool = False) -> None:
        self._report = report
        self._settled = settled
        self._compacted = compacted
        self._replayed = _UnmatchedRecords()
        self._live = _UnmatchedRecords()
        self._last = (-1, -1)

    def replayed(self, record: Record) -> None:
        place = self._replayed.count()
        found = self._live.take(record)
        if found is not None:
            self._pair(place, record, *found)
        else:
            if self._compacted and record.value is None:
                self._report.replaced += self._replayed.drop_older(record)
            self._replayed.hold(place, record)
            if len(self._replayed.held) > APART and not self._compacted:
                self._missing(self._replayed.oldest())

    def live(self, record: Record) -> None:
        place = self._live.count()
        if self._compacted:
            self._report.replaced += self._replayed.drop_older(record)
        found = self._replayed.take(record)
        if found is not None:
            self._pair(*found, place, record)
        else:
            self._live.hold(place, record)
            if len(self._live.held) > APART:
                self._extra(self._live.oldest())

    def end(self) -> None:
        """Reports all records that are still unpaired."""
        while self._replayed.held:
            self._missing(self._replayed.oldest())
        while self._live.held:
            self._extra(self._live.oldest())

    def _pair(self, at: int, replayed: Record, place: int, live: Record) -> None:
        moved = not (at > self._last[0] and place > self._last[1])
        self._last = (max(at, self._last[0]), max(place, self._last[1]))
        if moved:
            self._report.differ(StreamDifference.MOVED, live, live.offset)
        elif _bytes(replayed) != _bytes(live):
            self._report.differ(StreamDifference.ALTERED, live, live.offset, _told_apart(live, replayed))
        else:
            self._report.same += 1

    def _missing(self, record: Record) -> None:
        if self._compacted and record.value is None:  # compaction removes tombstones in the end
            self._report.replaced += 1
        else:
            self._report.differ(StreamDifference.MISSING, record, None)

    def _extra(self, record: Record) -> None:
        if record.offset >= self._settled:
            self._report.later += 1
        else:
            self._report.differ(StreamDifference.EXTRA, record, record.offset)


class _UnmatchedRecords:
    """Unpaired records of one side, oldest first, with their positions."""

    def __init__(self) -> None:
        self._next = 0
        self.held: dict[int, Record] = {}
        self._origins: defaultdict[bytes, dict[int, Origin]] = defaultdict(dict)
        """Key → position of each record → its origin."""

    def count(self) -> int:
        self._next += 1
        return self._next - 1

    def hold(self, place: int, record: Record) -> None:
        key, origin = _identity(record)
        self.held[place] = record
        self._origins[key][place] = origin

    def take(self, like: Record) -> tuple[int, Record] | None:
        """Removes and returns the oldest record of this identity; several outputs of one origin pair in order."""
        key, origin = _identity(like)
        place = next((place for place, own in self._origins.get(key, {}).items() if own == origin), None)
        return None if place is None else (place, self._remove(place))

    def oldest(self) -> Record:
        return self._remove(next(iter(self.held)))

    def drop_older(self, record: Record) -> int:
        """Drops the records that compaction would remove in favour of this one, and returns their number."""
        key, _ = _identity(record)
        older = [place for place in self._origins.get(key, ()) if _precedes(self.held[place], record)]
        for place in older:
            self._remove(place)
        return len(older)

    def _remove(self, place: int) -> Record:
        record = self.held.pop(place)
        key, _ = _identity(record)
        del self._origins[key][place]
        if not self._origins[key]:
            del self._origins[key]
        return record


def _identity(record: Record) -> tuple[bytes, Origin]:
    return record.key or b"", origin_of(record.headers)


def _precedes(one: Record, other: Record) -> bool:
    mine, theirs = origin_of(one.headers), origin_of(other.headers)
    return mine is not None and theirs is not None and mine < theirs


def _bytes(record: Record) -> tuple[object, ...]:
    return record.key, record.value, [tuple(header) for header in record.headers]


def _told_apart(live: Record, replayed: Record) -> str:
    if live.value == replayed.value:
        return "headers differ"
    return "; ".join(f"{path}: {old} → {new}" for path, old, new in changed_paths(live.value, replayed.value, 3))


def changed_paths(before: bytes | None, after: bytes | None, limit: int) -> list[tuple[str, str, str]]:
    """Returns the first JSON paths whose values differ, with both values."""
    try:
        found = _changes("$", orjson.loads(before or b"null"), orjson.loads(after or b"null"))
        return [change for change, _ in zip(found, range(limit), strict=False)]
    except orjson.JSONDecodeError:
        return [("$", _shown(repr(before)), _shown(repr(after)))]


def _changes(path: str, before: Any, after: Any) -> Iterator[tuple[str, str, str]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in [*before, *(name for name in after if name not in before)]:
            yield from _changes(f"{path}.{name}", before.get(name), after.get(name))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _changes(f"{path}[{index}]", old, new)
    elif before != after or type(before) is not type(after):
        yield path, _text(before), _text(after)


def _text(value: Any) -> str:
    return _shown(orjson.dumps(value).decode())


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def compare_by_origin(
    report: StreamReport,
    replayed: Callable[[int], Iterable[Record]],
    origins: int,
    live: Iterable[Record],
    settled: int,
) -> StreamReport:
    """Compares a partition that several source partitions write to; the order between sources is free.

    `replayed` returns the records of one source partition. Records without a valid origin, such as ticks, are skipped.
    """
    alignments: dict[int, Alignment] = {}
    pulled: dict[int, Iterator[Record]] = {}

    def opened(origin: int) -> Alignment:
        if origin not in alignments:
            alignments[origin] = Alignment(report, settled)
            pulled[origin] = iter(replayed(origin))
        return alignments[origin]

    for record in live:
        origin = origin_of(record.headers)
        if origin is None or not 0 <= origin[0] < origins:
            continue
        alignment = opened(origin[0])
        head = next(pulled[origin[0]], None)
        if head is not None:
            alignment.replayed(head)
        alignment.live(record)
    for partition in range(origins):
        alignment = opened(partition)
        for head in pulled[partition]:
            alignment.replayed(head)
        alignment.end()
    return report
