"""Conservation of a running or resting pipeline, from its topics.

Enters: settings. Leaves: a `Report`. Fails: KafkaUnreachableError, KafkaException; TimeoutError where a topic
can't be read to its end. A pipeline at work may be verified: what it has not come to is `pending`.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from pipeline.audit.conservation import (
    VIOLATIONS_KEPT,
    Copy,
    Fault,
    Output,
    PartitionReport,
    Place,
    Reroutes,
    Standing,
    Violation,
    conserve,
    copies_of,
)
from pipeline.audit.explanation import Explanation, Witness
from pipeline.audit.explanation import explain as explained
from pipeline.audit.rows import Row, Sources, row_of
from pipeline.contracts.headers import KIND, ORIGIN_OFFSET, ORIGIN_PARTITION, header
from pipeline.kafka.clients import Cluster, Watermarks, read_partition
from pipeline.kafka.reach import existing_topics
from pipeline.kafka.topics import TopicsError
from pipeline.settings import Settings
from pipeline.stages.executor import Position
from pipeline.stages.fold import POSITION_KEY
from pipeline.topology import EPISODES, EVENTS, EVENTS_DLQ, EVIDENCE, SESSION_STATE

Progress = Callable[[str], None]
Tap = Callable[[str, Iterator["Row"]], Iterator["Row"]]
WAITING_PREFIX: Final = b"w/"


def untapped(_: str, rows: Iterator["Row"]) -> Iterator["Row"]:
    return rows


class _Held(msgspec.Struct):
    offset: int
    deadline: int


@dataclass
class Report:
    partitions: list[PartitionReport]
    evidence: Counter[str] = field(default_factory=Counter)
    """Records of the evidence topic by kind."""
    nameless: int = 0
    """Evidence records without their origin."""
    nameless_evidence: list[Violation] = field(default_factory=list)
    """The first of them."""

    @property
    def conserved(self) -> bool:
        return not self.faults

    @property
    def faults(self) -> Counter[str]:
        found: Counter[str] = sum((part.faults for part in self.partitions), Counter())
        if self.nameless:
            found[Fault.NAMELESS] += self.nameless
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
    with opened(settings) as log:
        stood = [log.standing(partition, on_progress) for partition in range(log.partitions[EVENTS])]
        reroutes = log.reroutes(on_progress)
        report = Report([])
        for partition, standing in enumerate(stood):
            on_progress(f"{EVENTS} partition {partition}")
            report.partitions.append(log.conserved(partition, standing, reroutes))
        for partition in range(log.partitions[EVIDENCE]):
            on_progress(f"{EVIDENCE} partition {partition}")
            _count_evidence(log, partition, report)
        return report


def explain(settings: Settings, place: Place, on_progress: Progress = lambda _: None) -> Explanation:
    """One record of the events topic. Raises TopicsError for a partition that there is not."""
    partition, offset = place
    with opened(settings) as log:
        if partition >= log.partitions[EVENTS]:
            raise TopicsError(f"{EVENTS} has partitions 0 to {log.partitions[EVENTS] - 1}, not {partition}")
        stood = log.standing(partition, on_progress)
        witness = Witness(place, log.event(place))
        reroutes = log.reroutes(on_progress) if witness.astray(log.partitions[EVENTS]) else log.unknown_reroutes()
        on_progress(f"{EVENTS} partition {partition}")
        report = log.conserved(partition, stood, reroutes, offset, witness.see)
        for other in range(log.partitions[EVIDENCE]):
            on_progress(f"{EVIDENCE} partition {other}")
            for _ in witness.see(EVIDENCE, log.rows(EVIDENCE, other, log.marks(EVIDENCE, other))):
                pass
        return explained(place, stood.standing, report, witness)


@contextmanager
def opened(settings: Settings) -> Iterator["Log"]:
    """The topics, to read; what is wrong with Kafka, the topics or the settings is raised here."""
    partitions = existing_topics(settings, EVENTS, EVENTS_DLQ, EPISODES, EVIDENCE, SESSION_STATE)
    with closing(Cluster(settings.require_kafka())) as cluster:
        yield Log(cluster, settings.topic_prefix, partitions, settings.require_control_key())


class Stood(NamedTuple):
    """What a partition's state says, and where its topic ended when it said so."""

    standing: Standing
    state_end: int


class Log:
    """What the audits read. The state goes first: every output, and every copy, of what it has processed is then below
    the other topics' ends."""

    def __init__(self, cluster: Cluster, prefix: str, partitions: dict[str, int], control_key: str) -> None:
        self._cluster = cluster
        self._prefix = prefix
        self._control_key = control_key
        self._sources = Sources(cluster, prefix)
        self.partitions = partitions

    def marks(self, topic: str, partition: int) -> Watermarks:
        return self._cluster.watermarks(self._prefix + topic, partition)

    def rows(self, topic: str, partition: int, marks: Watermarks) -> Iterator[Row]:
        """Committed records between the watermarks."""
        for message in read_partition(self._cluster.bootstrap, self._prefix + topic, partition, marks):
            yield row_of(message)

    def events(self, partition: int, marks: Watermarks) -> Iterator[Row]:
        """The events topic as the worker has read it."""
        return self._sources.rows(EVENTS, EVENTS_DLQ, partition, marks)

    def event(self, place: Place) -> Row | None:
        partition, offset = place
        low, high = self.marks(EVENTS, partition)
        if not low <= offset < high:
            return None
        return next(self.events(partition, Watermarks(offset, offset + 1)), None)

    def unknown_reroutes(self) -> Reroutes:
        """For who does not ask for them."""
        count = self.partitions[EVENTS]
        return Reroutes(count, trimmed=frozenset(range(count)))

    def standing(self, partition: int, on_progress: Progress) -> Stood:
        on_progress(f"{SESSION_STATE} partition {partition}")
        marks = self.marks(SESSION_STATE, partition)
        found = _standing(self.rows(SESSION_STATE, partition, marks), self.marks(EVENTS, partition).low)
        return Stood(found, marks.high)

    def reroutes(self, on_progress: Progress) -> Reroutes:
        """A pass over the whole events topic; only what is said of copies is kept."""
        copies: dict[Place, Copy] = {}
        trimmed = set()
        for partition in range(self.partitions[EVENTS]):
            on_progress(f"{EVENTS} partition {partition} for copies")
            marks = self.marks(EVENTS, partition)
            if marks.low > 0:
                trimmed.add(partition)
            for first, copy in copies_of(self.events(partition, marks), self._control_key):
                copies.setdefault(first, copy)
        return Reroutes(self.partitions[EVENTS], copies, frozenset(trimmed))

    def conserved(
        self, partition: int, stood: Stood, reroutes: Reroutes, asked: int | None = None, tap: Tap = untapped
    ) -> PartitionReport:
        """`tap` sees every output on its way."""
        events = self.marks(EVENTS, partition)
        outputs = []
        for topic in (EPISODES, EVENTS_DLQ):
            marks = self.marks(topic, partition)
            rows = tap(topic, self.rows(topic, partition, marks))
            outputs.append(Output(topic, rows, trimmed=marks.low > 0))
        return conserve(
            partition,
            events.low,
            stood.standing,
            lambda: self.events(partition, events),
            outputs,
            reroutes,
            self._control_key,
            lambda: self.marks(SESSION_STATE, partition).high == stood.state_end,
            asked,
        )


def _standing(state: Iterator[Row], low: int) -> Standing:
    """From all records of the state topic, the last of each key."""
    position: Position | None = None
    waiting: dict[bytes, _Held] = {}
    for row in state:
        key = row.key or b""
        if key == POSITION_KEY.encode() and row.value is not None:
            position = msgspec.json.decode(row.value, type=Position)
        elif key.startswith(WAITING_PREFIX):
            if row.value is None:
                waiting.pop(key, None)
            else:
                waiting[key] = msgspec.json.decode(row.value, type=_Held)
    if position is None:
        return Standing(low, {})
    until = {held.offset: held.deadline for held in waiting.values()}
    return Standing(position.position, until, position.lost, position.clock)


def _count_evidence(log: Log, partition: int, report: Report) -> None:
    """Every contribution and every barrier names the record that it came with; a tick comes from no record."""
    for row in log.rows(EVIDENCE, partition, log.marks(EVIDENCE, partition)):
        kind = (header(row.headers, KIND) or b"unknown").decode(errors="replace")
        report.evidence[kind] += 1
        named = all(header(row.headers, name) is not None for name in (ORIGIN_PARTITION, ORIGIN_OFFSET))
        if kind != "tick" and not named:
            report.nameless += 1
            detail = f"a {kind} without its origin"
            if report.nameless <= VIOLATIONS_KEPT:
                report.nameless_evidence.append(Violation(Fault.NAMELESS, EVIDENCE, partition, row.offset, detail))
