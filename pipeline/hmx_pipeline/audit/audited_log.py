"""Audited log: reads the session state, the events and the outputs for a conservation check.

Enters: settings. Leaves: rows, the state of a partition, its report. Raises KafkaUnreachableError, KafkaException, and
TimeoutError if a topic cannot be read to its end.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, Final, NamedTuple

import msgspec
from confluent_kafka import KafkaError, KafkaException

from hmx_pipeline.audit.partition_conservation import OutputPartition, PartitionState, conserve, copies_of
from hmx_pipeline.audit.partition_report import PartitionReport, Place, ReroutedCopy, Reroutes
from hmx_pipeline.audit.source_rows import Row, TopicRows
from hmx_pipeline.contracts.erasure import ErasureMark
from hmx_pipeline.contracts.rejections import UNREADABLE
from hmx_pipeline.kafka.clients import Cluster, Watermarks
from hmx_pipeline.kafka.erasure_marks import erasure_marks
from hmx_pipeline.kafka.preflight import existing_topics
from hmx_pipeline.settings import Settings
from hmx_pipeline.stages.executor import StagePosition, read_position
from hmx_pipeline.stages.fold import POSITION_KEY
from hmx_pipeline.stages.session_state import HELD
from hmx_pipeline.topology import EPISODES, ERASURES, EVENTS, EVENTS_DLQ, EVIDENCE, SESSION_STATE, SESSIONS

Progress = Callable[[str, int, int], None]
"""Called with what is read, offsets done and offsets in total."""
LOOK_AT: Final = 1_000
"""Records between two progress reports."""
SMALL_QUEUES: Final[dict[str, Any]] = {
    "queued.min.messages": 2_000,
    "queued.max.messages.kbytes": 2_048,
    "fetch.message.max.bytes": 1_048_576,
}
"""Read-ahead limits per consumer: each process reads three topics at a time."""


def silent(what: str, done: int, total: int) -> None:
    pass


class _WaitingEvent(msgspec.Struct):
    """The two fields of `stages.session_state.Held` that the audit needs; the event stays undecoded."""

    offset: int
    deadline: int


_waiting: Final = msgspec.json.Decoder(_WaitingEvent).decode


@contextmanager
def opened(settings: Settings) -> Iterator["AuditedLog"]:
    """Opens the topics for reading. Raises if Kafka, the topics or the settings are not usable."""
    partitions = existing_topics(settings, EVENTS, EVENTS_DLQ, EPISODES, ERASURES, EVIDENCE, SESSION_STATE)
    with closing(Cluster(settings.require_kafka())) as cluster:
        yield AuditedLog(cluster, settings.topic_prefix, partitions, settings.require_control_key())


def _hidden_by(marks: list[ErasureMark]) -> Callable[[dict[str, Any]], bool] | None:
    """Returns whether an episode is erased, as a function; None if nothing is."""
    if not marks:
        return None
    from hmx_pipeline.store.erased_memory import Erasures  # memory that most audits need not spend

    return Erasures(marks).hides_episode


class AuditedState(NamedTuple):
    """A partition's state, and the end of the state topic when it was read."""

    standing: PartitionState
    state_end: int


class AuditedLog(TopicRows):
    """The topics of one pipeline. The state is read first, so all outputs of what it has processed are below the other
    topics' ends."""

    def __init__(self, cluster: Cluster, prefix: str, partitions: dict[str, int], control_key: str) -> None:
        super().__init__(cluster, prefix, **SMALL_QUEUES)
        self._control_key = control_key
        self._hides = _hidden_by(list(erasure_marks(cluster.kafka, prefix)))
        self.partitions = partitions

    def events(self, partition: int, marks: Watermarks, position: int) -> Iterator[Row]:
        """Yields events as the worker read them up to `position`. Later records may be in a batch that cannot be
        decompressed; those are yielded as unreadable."""
        known = Watermarks(marks.low, min(max(marks.low, position), marks.high))
        yield from self.source(SESSIONS, partition, known)
        following = known.high
        try:
            for row in self.source(SESSIONS, partition, Watermarks(following, marks.high)):
                following = row.offset + 1
                yield row
        except KafkaException as error:
            if error.args[0].code() != KafkaError._BAD_COMPRESSION:
                raise
            for offset in range(following, marks.high):
                yield Row(partition, offset, 0, None, UNREADABLE, [])

    def event(self, place: Place, stood: AuditedState) -> Row | None:
        partition, offset = place
        low, high = self.marks(EVENTS, partition)
        if not low <= offset < high:
            return None
        return next(self.events(partition, Watermarks(offset, offset + 1), stood.standing.position), None)

    def standing(self, partition: int, on_progress: Progress) -> AuditedState:
        """Reads the state topic and keeps the last record of each key."""
        on_progress(SESSION_STATE, partition, self.partitions[EVENTS])
        marks = self.marks(SESSION_STATE, partition)
        position: StagePosition | None = None
        waiting: dict[bytes, _WaitingEvent] = {}
        for row in self.rows(SESSION_STATE, partition, marks):
            key = row.key or b""
            if key == POSITION_KEY.encode() and row.value is not None:
                position = read_position(row.value)
            elif key.startswith(HELD.encode()):
                if row.value is None:
                    waiting.pop(key, None)
                else:
                    waiting[key] = _waiting(row.value)
        if position is None:
            return AuditedState(PartitionState(self.marks(EVENTS, partition).low, {}), marks.high)
        until = {held.offset: held.deadline for held in waiting.values()}
        return AuditedState(PartitionState(position.position, until, position.lost, position.clock), marks.high)

    def reroutes(self, on_progress: Progress) -> Reroutes:
        """Reads the whole events topic and keeps only the rerouted copies."""
        copies: dict[Place, ReroutedCopy] = {}
        all_marks = [self.marks(EVENTS, partition) for partition in range(self.partitions[EVENTS])]
        for partition, marks in enumerate(all_marks):
            on_progress(f"{EVENTS} for copies", partition, len(all_marks))
            for first, copy in copies_of(self.events(partition, marks, marks.low), self._control_key):
                copies.setdefault(first, copy)
        return Reroutes(copies, frozenset(n for n, marks in enumerate(all_marks) if marks.low > 0))

    def conserved(
        self,
        partition: int,
        stood: AuditedState,
        asked: int | None = None,
        *,
        on_done: Callable[[int], None] = lambda _: None,
    ) -> PartitionReport:
        """Audits one partition. `on_done` receives the number of offsets read."""
        marks = self.marks(EVENTS, partition)
        outputs = []
        for topic in (EPISODES, EVENTS_DLQ):
            ends = self.marks(topic, partition)
            outputs.append(OutputPartition(topic, self.rows(topic, partition, ends), trimmed=ends.low > 0))
        told = -1

        def events() -> Iterator[Row]:
            nonlocal told
            for count, row in enumerate(self.events(partition, marks, stood.standing.position)):
                if count % LOOK_AT == 0 and row.offset > told:  # no progress in the second pass
                    told = row.offset
                    on_done(told - marks.low)
                yield row
            told = marks.high
            on_done(told - marks.low)

        return conserve(
            partition,
            marks.low,
            stood.standing,
            events,
            outputs,
            self.partitions[EVENTS],
            self._control_key,
            lambda: self.marks(SESSION_STATE, partition).high == stood.state_end,
            asked,
            self._hides,
        )
