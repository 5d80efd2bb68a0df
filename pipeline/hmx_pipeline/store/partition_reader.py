"""Partition reader: where the materialiser stands in each partition, one poll of their records, and their origin.

Enters: a consumer that the partitions are assigned to. Leaves: records by partition, in order. Raises KafkaException.
"""

import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from hmx_pipeline.contracts.keys import split_key
from hmx_pipeline.kafka.clients import consumer_config, headers_of
from hmx_pipeline.kafka_profile import KafkaProfile
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.topology import EPISODES, EVIDENCE

_READING: Final = {"queued.max.messages.kbytes": 32 * 1024, "fetch.wait.max.ms": 2_000}
"""The broker holds a fetch that long while nothing comes, and answers at once when something does: the fewer fetches,
the less an idle broker and this process compute. Nothing else may be asked over a connection that holds a fetch."""
_FILLING: Final = {**_READING, "fetch.wait.max.ms": 50, "fetch.queue.backoff.ms": 50}
"""While much is behind: a fetch of nothing but partitions that are read to their ends would hold up all others."""
POLL_RECORDS: Final = 5_000
"""Most records of one poll, over all partitions; enough to fill blocks."""
POLL_S: Final = 0.5
"""It ends at once when a record comes."""


@dataclass(slots=True)
class FilledPartition:
    """`stored` is the position in Redis, or None; `position` is the next offset here."""

    topic: str
    number: int
    stored: int | None
    position: int
    end: int
    low: int = 0
    """First offset that Kafka still has; the archive may have earlier ones."""
    lost: int = 0
    """Number of offsets below `low` that neither Kafka nor the archive has."""
    reached_ms: int = 0
    """Append time of the last record read, or the time when the end was reached."""
    left: bool = False
    """Another process fills this partition; records read here are dropped."""

    @property
    def waiting(self) -> int:
        return max(0, self.end - self.position)

    @property
    def name(self) -> str:
        return f"{self.topic}/{self.number}"


@dataclass(slots=True)
class ReadRecords:
    """Records read from a partition. `end` is its end, if the poll has reached it."""

    records: list[TopicRecord] = field(default_factory=list)
    at_ms: int = 0
    """Append time of the last record."""
    end: int | None = None


def taken_over(
    partitions: Collection[FilledPartition], stored: Mapping[str, int], few: int, many: int
) -> list[FilledPartition]:
    """Returns the partitions to take over from other processes: those whose position no longer moves.

    If there are none, and fewer than `few` records wait in the own partitions, it is the one that is furthest behind,
    by at least `many` records. Partitions that stay with other processes get the stored positions.
    """
    taken = []
    left = [p for p in partitions if p.left]
    for partition in left:
        at = stored[partition.name]
        if at == partition.position and partition.waiting:
            taken.append(partition)
        partition.stored = partition.position = at
        if not partition.waiting:
            partition.reached_ms = int(time.time() * 1000)
    others = [p for p in left if p.waiting >= many and p.position >= p.low]
    if others and not taken and sum(p.waiting for p in partitions if not p.left) < few:
        return [max(others, key=lambda p: p.waiting)]
    return taken


def reader(kafka: KafkaProfile, *, filling: bool = False) -> Consumer:
    return Consumer(consumer_config(kafka, **(_FILLING if filling else _READING)))


def read(consumer: Consumer, prefix: str, partitions: Collection[FilledPartition]) -> None:
    """Assigns the partitions from their positions on."""
    places = ((prefix + p.topic, p.number, max(p.position, p.low)) for p in partitions)
    consumer.assign([TopicPartition(*place) for place in places])


def poll(consumer: Consumer, prefix: str) -> dict[tuple[str, int], ReadRecords]:
    """Raises KafkaException for any error except end of partition.

    Waits for one record and then takes what is buffered; the client would wait for a full batch.
    """
    first = consumer.poll(POLL_S)
    messages = [] if first is None else [first, *consumer.consume(POLL_RECORDS, 0)]
    by_place: dict[Any, list[Message]] = defaultdict(list)
    for message in messages:
        by_place[message.topic(), message.partition()].append(message)
    places: dict[tuple[str, int], ReadRecords] = {}
    for (name, partition), some in by_place.items():
        if name is None:  # no partition's error
            raise KafkaException(some[0].error())
        topic = name.removeprefix(prefix)
        found = places[topic, partition] = ReadRecords()
        headed = topic == EVIDENCE  # no other records' headers are used
        for message in some:
            if (error := message.error()) is None:
                key, headers = message.key() or b"", headers_of(message) if headed else None
                found.records.append(
                    TopicRecord(topic, partition, message.offset() or 0, key, message.value(), headers)
                )
            elif error.code() == KafkaError._PARTITION_EOF:
                found.end = message.offset()
            else:
                raise KafkaException(error)
        found.at_ms = some[-1].timestamp()[1]
    return places


class _OriginTime(msgspec.Struct):
    log_time: int


class _Own(msgspec.Struct):
    origin: _OriginTime


class _Metadata(msgspec.Struct):
    hmx: _Own


class _EpisodeOrigin(msgspec.Struct):
    metadata: _Metadata


_EPISODE: Final = msgspec.json.Decoder(_EpisodeOrigin)
_SESSION: Final = {EPISODES: 1, EVIDENCE: 2}
"""Index of the session in a record key."""


def appended_ms(record: TopicRecord) -> int | None:
    """Returns the append time of the event behind an episode (ms)."""
    if record.topic != EPISODES or record.value is None:
        return None
    try:
        return _EPISODE.decode(record.value).metadata.hmx.origin.log_time
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def owner(record: TopicRecord) -> tuple[str | None, str | None]:
    """Returns tenant and session, as far as the key names them."""
    parts = split_key(record.key.decode(errors="replace"))
    at = _SESSION.get(record.topic)
    return parts[0] or None, parts[at] if at is not None and at < len(parts) else None
