"""Sending dead letters of the events topic back to it.

Enters: settings, what is asked for. Leaves: every letter's fate (`returning`), and, where it is to happen, records at
the log's end. Which letters were sent back before, the events topic itself says: it is read from the first of the
letters on. Fails as reading Kafka does; what Kafka does not acknowledge is counted.
"""

from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from pipeline.audit.returning import (
    Asked,
    Fate,
    Judged,
    Place,
    first_place,
    judge,
    owner_of,
    reason_of,
    returned,
    sent_before,
)
from pipeline.audit.rows import Row, Sources, row_of
from pipeline.kafka.clients import (
    ANSWER_S,
    Cluster,
    Watermarks,
    consumer_config,
    plain_producer,
    read_partition,
    sendable,
)
from pipeline.kafka.reach import existing_topics
from pipeline.settings import Settings
from pipeline.stages.fold import Output
from pipeline.topology import EVENTS, EVENTS_DLQ

SAMPLE: Final = 5
"""Letters of each fate that are shown."""
DELIVERY_MS: Final = 60_000
Progress = Callable[[str], None]
Ends = Mapping[int, Watermarks]


@dataclass
class Returns:
    """What was found, and what was done."""

    applied: bool
    fates: dict[str, Counter[Fate]] = field(default_factory=dict)
    """By reason."""
    sample: dict[Fate, list[dict[str, Any]]] = field(default_factory=dict)
    failed: Counter[str] = field(default_factory=Counter)
    """Records that Kafka has not acknowledged, by its reason."""

    def note(self, judged: Judged) -> None:
        letter, fate, detail = judged
        self.fates.setdefault(reason_of(letter), Counter())[fate] += 1
        shown = self.sample.setdefault(fate, [])
        if len(shown) < SAMPLE:
            tenant, session = owner_of(letter)
            shown.append(
                {
                    "letter": f"{letter.partition}:{letter.offset}",
                    "origin": "{}:{}".format(*first_place(letter)),
                    "reason": reason_of(letter),
                    "tenant": tenant,
                    "session": session,
                    "detail": detail,
                }
            )

    @property
    def going(self) -> int:
        return sum(count for fates in self.fates.values() for fate, count in fates.items() if fate.goes)

    @property
    def letters(self) -> int:
        return sum(fates.total() for fates in self.fates.values())

    def as_json(self) -> dict[str, Any]:
        return {
            "applied": self.applied,
            "letters": self.letters,
            "sent" if self.applied else "would_be_sent": self.going - self.failed.total(),
            "failed": dict(self.failed),
            "reasons": {reason: {str(fate): n for fate, n in fates.items()} for reason, fates in self.fates.items()},
            "sample": {str(fate): shown for fate, shown in self.sample.items()},
        }


def send_back(settings: Settings, asked: Asked, *, apply: bool, on_progress: Progress = lambda _: None) -> Returns:
    """Judges every letter that was asked for, and sends back what goes where `apply` says so."""
    partitions = existing_topics(settings, EVENTS, EVENTS_DLQ)
    found = Returns(apply)
    with closing(Cluster(settings.require_kafka())) as cluster, closing(_Sender(settings, found.failed)) as sender:
        name = settings.topic_prefix + EVENTS_DLQ
        ends = {partition: cluster.watermarks(name, partition) for partition in range(partitions[EVENTS_DLQ])}
        since = _first(cluster, name, ends, asked)
        if since is None:
            return found
        on_progress("looking for what was sent back before")
        before = _before(cluster, settings.topic_prefix, partitions[EVENTS], since)
        for row in _letters(cluster, name, ends, asked):
            judged = judge(row, asked, before)
            found.note(judged)
            if apply and judged.fate.goes:
                sender.send(settings.topic_prefix, returned(row, partitions[EVENTS]))
                on_progress(f"sending back {found.going:,}")
    return found


def _letters(cluster: Cluster, name: str, ends: Ends, asked: Asked) -> Generator[Row, None, None]:
    for partition, marks in ends.items():
        for message in read_partition(cluster.bootstrap, name, partition, marks):
            row = row_of(message)
            if asked.selects(row):
                yield row


def _first(cluster: Cluster, name: str, ends: Ends, asked: Asked) -> int | None:
    """When the first of them was written: none was sent back before that."""
    times = []
    for partition, marks in ends.items():
        with closing(_letters(cluster, name, {partition: marks}, asked)) as letters:
            times += [row.timestamp for row in (next(letters, None),) if row is not None]
    return min(times, default=None)


def _before(cluster: Cluster, prefix: str, partitions: int, since_ms: int) -> set[Place]:
    """The letters that stand in the events topic already."""
    name, sources = prefix + EVENTS, Sources(cluster, prefix)
    consumer = Consumer(consumer_config(cluster.bootstrap))
    with closing(consumer):
        asked = [TopicPartition(name, partition, since_ms) for partition in range(partitions)]
        starts = consumer.offsets_for_times(asked, timeout=ANSWER_S)
    found: set[Place] = set()
    for start in starts:
        if start.error is not None:
            raise KafkaException(start.error)
        low, high = cluster.watermarks(name, start.partition)
        if start.offset >= 0:  # nothing has been appended since, otherwise
            marks = Watermarks(max(low, start.offset), high)
            found |= sent_before(sources.rows(EVENTS, EVENTS_DLQ, start.partition, marks))
    return found


class _Sender:
    """Connects when something is sent."""

    def __init__(self, settings: Settings, failed: Counter[str]) -> None:
        self._settings = settings
        self._failed = failed
        self._producer: Producer | None = None

    def send(self, prefix: str, record: Output) -> None:
        if self._producer is None:
            self._producer = plain_producer(self._settings.require_kafka(), **{"delivery.timeout.ms": DELIVERY_MS})
        while True:
            try:
                self._producer.produce(
                    prefix + record.topic, record.value, record.key, record.partition,
                    headers=sendable(record.headers), on_delivery=self._answered,
                )  # fmt: skip
                self._producer.poll(0)
                return
            except BufferError:  # the client's queue is full: let it send
                self._producer.poll(0.05)

    def close(self) -> None:
        while self._producer is not None and self._producer.flush(0.2):
            pass

    def _answered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failed[error.str()] += 1
