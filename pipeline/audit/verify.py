"""Conservation of a running or resting pipeline, from its topics.

Enters: settings. Leaves: a `Report`. Fails: KafkaUnreachableError, KafkaException; TimeoutError where a topic
can't be read to its end. A pipeline at work may be verified: what it has not come to is `pending`.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
from confluent_kafka import Message

from pipeline.audit.conservation import Fault, Output, PartitionReport, Standing, Violation, conserve
from pipeline.contracts.headers import KIND, ORIGIN_OFFSET, ORIGIN_PARTITION, Headers, header
from pipeline.kafka.clients import Cluster, Watermarks, read_partition
from pipeline.kafka.reach import existing_topics
from pipeline.settings import Settings
from pipeline.stages.executor import Position
from pipeline.stages.fold import POSITION_KEY
from pipeline.topology import EPISODES, EVENTS, EVENTS_DLQ, EVIDENCE, SESSION_STATE

Progress = Callable[[str], None]
WAITING_PREFIX: Final = b"w/"


class Row(NamedTuple):
    """A record of a topic (stages.fold.Record)."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class _Held(msgspec.Struct):
    offset: int


@dataclass
class Report:
    partitions: list[PartitionReport]
    evidence: Counter[str] = field(default_factory=Counter)
    """Records of the evidence topic by kind."""
    nameless_evidence: list[Violation] = field(default_factory=list)

    @property
    def conserved(self) -> bool:
        return not self.faults

    @property
    def faults(self) -> Counter[str]:
        found: Counter[str] = sum((part.faults for part in self.partitions), Counter())
        if self.nameless_evidence:
            found[Fault.NAMELESS] += len(self.nameless_evidence)
        return found

    @property
    def violations(self) -> list[Violation]:
        """The first of each partition."""
        return [*(v for part in self.partitions for v in part.violations), *self.nameless_evidence]

    @property
    def outcomes(self) -> Counter[str]:
        return sum((part.outcomes for part in self.partitions), Counter())

    @property
    def rejections(self) -> Counter[str]:
        return sum((part.rejections for part in self.partitions), Counter())

    def as_json(self) -> dict[str, Any]:
        return {
            "conserved": self.conserved,
            "outcomes": _plain(self.outcomes),
            "rejections": _plain(self.rejections),
            "pending": sum(part.pending for part in self.partitions),
            "unverified": sum(part.unverified for part in self.partitions),
            "evidence": _plain(self.evidence),
            "faults": _plain(self.faults),
            "violations": [violation._asdict() for violation in self.violations],
            "partitions": [
                {
                    "partition": part.partition,
                    "low": part.low,
                    "position": part.position,
                    "outcomes": _plain(part.outcomes),
                    "pending": part.pending,
                    "unverified": part.unverified,
                }
                for part in self.partitions
            ],
        }


def _plain(counts: Counter[str]) -> dict[str, int]:
    return {str(name): count for name, count in counts.most_common()}


def verify(settings: Settings, on_progress: Progress = lambda _: None) -> Report:
    partitions = existing_topics(settings, EVENTS, EVENTS_DLQ, EPISODES, EVIDENCE, SESSION_STATE)
    cluster = Cluster(settings.require_kafka())
    with closing(cluster):
        reader = _Reader(cluster, settings.topic_prefix)
        report = Report([])
        for partition in range(partitions[EVENTS]):
            on_progress(f"{EVENTS} partition {partition}")
            report.partitions.append(_verify_partition(reader, partition, settings.require_control_key()))
        for partition in range(partitions[EVIDENCE]):
            on_progress(f"{EVIDENCE} partition {partition}")
            _count_evidence(reader, partition, report)
        return report


class _Reader:
    def __init__(self, cluster: Cluster, prefix: str) -> None:
        self._cluster = cluster
        self._prefix = prefix

    def marks(self, topic: str, partition: int) -> Watermarks:
        return self._cluster.watermarks(self._prefix + topic, partition)

    def rows(self, topic: str, partition: int, marks: Watermarks) -> Iterator[Row]:
        """Committed records between the watermarks."""
        for message in read_partition(self._cluster.bootstrap, self._prefix + topic, partition, marks):
            yield _row(message)


def _row(message: Message) -> Row:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None, "a record that was read has a place"
    found: Any = message.headers() or []
    key: Any = message.key()
    value: Any = message.value()
    return Row(partition, offset, message.timestamp()[1], key, value, found)


def _verify_partition(reader: _Reader, partition: int, control_key: str) -> PartitionReport:
    """The state first: every output of what it has processed is then below the other topics' ends."""
    state_marks = reader.marks(SESSION_STATE, partition)
    events = reader.marks(EVENTS, partition)
    standing = _standing(reader.rows(SESSION_STATE, partition, state_marks), events.low)
    events = Watermarks(events.low, reader.marks(EVENTS, partition).high)
    outputs = []
    for topic in (EPISODES, EVENTS_DLQ):
        marks = reader.marks(topic, partition)
        outputs.append(Output(topic, reader.rows(topic, partition, marks), trimmed=marks.low > 0))
    return conserve(
        partition,
        events.low,
        standing,
        lambda: reader.rows(EVENTS, partition, events),
        outputs,
        control_key,
        lambda: reader.marks(SESSION_STATE, partition).high == state_marks.high,
    )


def _standing(state: Iterator[Row], low: int) -> Standing:
    """From all records of the state topic, the last of each key."""
    position: Position | None = None
    waiting: dict[bytes, int] = {}
    for row in state:
        key = row.key or b""
        if key == POSITION_KEY.encode() and row.value is not None:
            position = msgspec.json.decode(row.value, type=Position)
        elif key.startswith(WAITING_PREFIX):
            if row.value is None:
                waiting.pop(key, None)
            else:
                waiting[key] = msgspec.json.decode(row.value, type=_Held).offset
    if position is None:
        return Standing(low, frozenset())
    return Standing(position.position, frozenset(waiting.values()), position.lost)


def _count_evidence(reader: _Reader, partition: int, report: Report) -> None:
    """Every contribution and every barrier names the record that it came with; a tick comes from no record."""
    for row in reader.rows(EVIDENCE, partition, reader.marks(EVIDENCE, partition)):
        kind = (header(row.headers, KIND) or b"unknown").decode(errors="replace")
        report.evidence[kind] += 1
        named = all(header(row.headers, name) is not None for name in (ORIGIN_PARTITION, ORIGIN_OFFSET))
        if kind != "tick" and not named:
            detail = f"a {kind} without its origin"
            report.nameless_evidence.append(Violation(Fault.NAMELESS, EVIDENCE, partition, row.offset, detail))
