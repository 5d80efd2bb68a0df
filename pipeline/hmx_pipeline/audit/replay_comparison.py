"""Replay comparison: shadow topics against the pipeline's topics, first byte by byte, then as memory.

Enters: the written shadow topics and the cut. Leaves: the report's streams, artifacts and notes. Raises what reading
Kafka raises. If retention deleted the log's beginning, sessions that began there and what rests on them are set aside.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from hmx_pipeline.audit import replay_artifacts
from hmx_pipeline.audit.replay_fold import ReplayFold
from hmx_pipeline.audit.replay_streams import StreamReport, compare, compare_by_origin
from hmx_pipeline.audit.replay_topics import OF_PATTERNS, OutputRange, Shadow
from hmx_pipeline.audit.source_rows import Row
from hmx_pipeline.contracts.episode import RESERVED
from hmx_pipeline.contracts.headers import REASON, header, origin_of
from hmx_pipeline.contracts.limits import KB
from hmx_pipeline.contracts.rejections import Reason
from hmx_pipeline.kafka.clients import Watermarks
from hmx_pipeline.topology import ARTIFACTS, EPISODES, EVENTS, EVENTS_DLQ, EVIDENCE, EVIDENCE_DLQ

CHANGES_KEPT: Final = 1_000
GONE: Final = "its source's beginning is gone"
AS_MANY_AS_SOURCES: Final[dict[str, Any]] = {"queued.max.messages.kbytes": 4 * KB}
"""Read-ahead limit: one reader is open per source partition, all at once."""
Whole = Callable[[Row], bool]
"""Returns whether a record can be compared: everything that decided it is still in the log."""


@dataclass
class ReplayReport:
    shadow: str
    """Prefix of the shadow topics."""
    events: int = 0
    evidence: int = 0
    streams: list[StreamReport] = field(default_factory=list)
    patterns: int = 0
    """Number of patterns with the same artifact on both sides."""
    changes: Counter[str] = field(default_factory=Counter)
    artifacts: list[replay_artifacts.ArtifactChange] = field(default_factory=list)
    """The first `CHANGES_KEPT` changes."""
    moving: int = 0
    """Number of patterns that differ because the pipeline was still working on them."""
    set_aside: int = 0
    """Number of patterns that differ because they rest on deleted parts of the log."""
    notes: list[str] = field(default_factory=list)
    """What could not be compared, and why."""

    @property
    def differences(self) -> Counter[str]:
        return sum((stream.differences for stream in self.streams), Counter())

    @property
    def identical(self) -> bool:
        return not self.differences and not self.changes

    @property
    def compared(self) -> bool:
        """Returns whether there was anything to compare."""
        return any(stream.same for stream in self.streams) or not self.identical

    def as_json(self) -> dict[str, Any]:
        return {
            "identical": self.identical,
            "compared": self.compared,
            "shadow": self.shadow,
            "events": self.events,
            "evidence": self.evidence,
            "streams": [stream.as_json() for stream in self.streams],
            "artifacts": {
                "same": self.patterns,
                **{str(change): count for change, count in self.changes.items()},
                "in_motion": self.moving,
                "set_aside": self.set_aside,
                "changes": [change.as_json() for change in self.artifacts],
            },
            "notes": self.notes,
        }


class Comparison:
    def __init__(self, rebuild: ReplayFold, report: ReplayReport, shadow: Shadow, again: Shadow) -> None:
        self._rebuild = rebuild
        self._report = report
        self._shadow = shadow
        self._again = again
        self._lows = [marks.low for marks in rebuild.cut.sources[EVENTS]]
        total = sum(span.high - span.low for spans in rebuild.cut.outputs.values() for span in spans)
        self._watch = rebuild.watched("comparing", total)

    def run(self, made: list[list[Watermarks]], moving: set[replay_artifacts.PatternName]) -> None:
        for partition, low in enumerate(self._lows):
            whole = self._whole(partition, low)
            self._stream(EPISODES, partition, self._shadow, whole, ordered=False)
            self._stream(EVENTS_DLQ, partition, self._shadow, whole)
        for partition, marks in enumerate(self._rebuild.cut.sources[EVIDENCE]):
            self._evidence(partition, made)
            for topic in OF_PATTERNS:
                if marks.low > 0:
                    self._skip(topic, partition)
                else:
                    self._stream(topic, partition, self._again, None, compacted=topic != EVIDENCE_DLQ)
            self._artifacts(partition, moving)

    def _live(self, topic: str, partition: int) -> tuple[Iterator[Row], OutputRange]:
        span = self._rebuild.cut.outputs[topic][partition]
        return self._watch(self._rebuild.rows(topic, partition, Watermarks(span.low, span.high))), span

    def _skip(self, topic: str, partition: int) -> None:
        self._report.streams.append(StreamReport(topic, partition, not_compared=GONE))

    # law 4

    def _stream(
        self,
        topic: str,
        partition: int,
        shadow: Shadow,
        whole: Whole | None,
        *,
        ordered: bool = True,
        compacted: bool = False,
    ) -> None:
        rows, span = self._live(topic, partition)
        made: Iterable[Row] = shadow.rows(topic, partition)
        if whole is not None:
            rows, made = filter(whole, rows), filter(whole, made)
        report, trimmed = StreamReport(topic, partition), span.low > 0 and not compacted
        compare(report, made, rows, span.settled, trimmed=trimmed, compacted=compacted, ordered=ordered)
        self._report.streams.append(report)

    def _evidence(self, partition: int, made: list[list[Watermarks]]) -> None:
        rows, span = self._live(EVIDENCE, partition)
        if span.low > 0 or any(self._lows):
            return self._skip(EVIDENCE, partition)

        def came_of(source: int) -> Iterator[Row]:
            return self._shadow.rows(EVIDENCE, partition, made[source][partition], **AS_MANY_AS_SOURCES)

        report = StreamReport(EVIDENCE, partition)
        self._report.streams.append(compare_by_origin(report, came_of, len(made), rows, span.settled))
        return None

    def _whole(self, partition: int, low: int) -> Whole | None:
        """Returns a filter of comparable records; None if the partition is complete."""
        if low == 0:
            return None
        began_before = self._began_before(partition, low)
        self._report.notes.append(
            f"{EVENTS} partition {partition} begins at offset {low}: {len(began_before)} sessions that began earlier"
            " are not compared"
        )

        def whole(row: Row) -> bool:
            origin = origin_of(row.headers)
            if origin is None or origin[1] < low or row.key in began_before:
                return False
            return header(row.headers, REASON) != Reason.EVENT_ID_REUSED.encode()

        return whole

    def _began_before(self, partition: int, low: int) -> set[bytes]:
        """Returns the keys of sessions whose first retained episode is not their first, or has an origin below
        `low`."""
        seen: set[bytes] = set()
        found: set[bytes] = set()
        rows, _ = self._live(EPISODES, partition)
        for row in rows:
            key, origin = row.key or b"", origin_of(row.headers)
            if key not in seen:
                seen.add(key)
                if _index(row) != 0 or origin is None or origin[1] < low:
                    found.add(key)
        return found

    # law 5

    def _artifacts(self, partition: int, moving: set[replay_artifacts.PatternName]) -> None:
        rows, _ = self._live(ARTIFACTS, partition)
        before = replay_artifacts.current_artifacts(rows)
        after = replay_artifacts.current_artifacts(self._shadow.rows(ARTIFACTS, partition))
        differ = replay_artifacts.differing(before, after)
        self._report.patterns += len(before.keys() | after.keys()) - len(differ)
        self._report.moving += len(differ.keys() & moving)
        names = [name for name in differ if name not in moving]
        for start in range(0, len(names), CHANGES_KEPT):
            self._change(partition, {name: differ[name] for name in names[start : start + CHANGES_KEPT]})

    def _change(
        self, partition: int, differ: dict[replay_artifacts.PatternName, tuple[int | None, int | None]]
    ) -> None:
        """Reads the artifacts that differ again, to list the changed paths."""
        live, _ = self._live(ARTIFACTS, partition)
        before = _values(live, {old for old, _ in differ.values()})
        after = _values(self._shadow.rows(ARTIFACTS, partition), {new for _, new in differ.values()})
        truncated = any(self._lows)
        for name, (old, new) in differ.items():
            change = replay_artifacts.change_of(name, before.get(old), after.get(new))
            if truncated and replay_artifacts.rests_on_more(change):
                self._report.set_aside += 1
                continue
            self._report.changes[change.change] += 1
            if len(self._report.artifacts) < CHANGES_KEPT:
                self._report.artifacts.append(change)


def _index(episode: Row) -> int | None:
    """Returns the episode's index in its session; None if the record is no episode."""
    try:
        return int(orjson.loads(episode.value or b"")["metadata"][RESERVED]["release"]["index"])
    except (ValueError, LookupError, TypeError):
        return None


def _values(rows: Iterable[Row], offsets: set[int | None]) -> dict[int | None, bytes | None]:
    return {row.offset: row.value for row in rows if row.offset in offsets}
