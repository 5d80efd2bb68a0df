"""Consumer lag of readers at given positions, in records and seconds, and the owners of partitions.

Enters: positions. Leaves: `Behind` per partition. Trailing transaction markers and open transactions do not count, as
they cannot be read. Raises KafkaException.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from hmx_pipeline.kafka.clients import ANSWER_S, consumer_config
from hmx_pipeline.kafka.topic_files import connect, settled
from hmx_pipeline.kafka_profile import KafkaProfile
from hmx_pipeline.observe.freshness import Behind, behind
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import GROUP

Place = tuple[str, int]
"""Topic without prefix, and partition."""
_PEEK: Final = {"queued.min.messages": 1, "fetch.queue.backoff.ms": 1, "fetch.message.max.bytes": 64 * 1024}
"""Minimal read-ahead: only the first record of each partition is needed."""


def members(settings: Settings) -> list[tuple[str, list[Place]]]:
    """Returns the worker id of each member of the workers' group, or its client and host, and the partitions that it
    owns: none while it joins or the group rebalances."""
    group, prefix = settings.topic_prefix + GROUP, settings.topic_prefix
    admin = connect(settings.require_kafka())

    def ask() -> Any:  # a new cluster makes the group's coordinator when it is first asked
        return admin.describe_consumer_groups([group], request_timeout=ANSWER_S)[group].result()

    return [
        (
            str(member.group_instance_id or f"{member.client_id}{member.host}"),
            [
                (where.topic.removeprefix(prefix), where.partition)
                for where in (member.assignment.topic_partitions if member.assignment is not None else ())
            ],
        )
        for member in settled(ask).members
    ]


def owners(settings: Settings) -> dict[Place, str]:
    """Returns the worker that owns each partition; empty without workers."""
    return {place: worker for worker, places in members(settings) for place in places}


class ConsumerLag:
    """Lag of several partitions; not thread-safe."""

    def __init__(self, kafka: KafkaProfile, prefix: str, answer_s: float = ANSWER_S) -> None:
        self._prefix = prefix
        self._answer_s = answer_s
        self._admin = connect(kafka)
        self._consumer = Consumer(consumer_config(kafka, **_PEEK))

    def places(self, topics: Iterable[str]) -> list[Place]:
        known = self._consumer.list_topics(timeout=self._answer_s).topics
        found = []
        for topic in topics:
            if self._prefix + topic not in known:
                raise KafkaException(KafkaError(KafkaError._UNKNOWN_TOPIC))
            found += [(topic, number) for number in sorted(known[self._prefix + topic].partitions)]
        return found

    def behind(self, positions: Mapping[Place, int]) -> dict[Place, Behind]:
        """Computes the lag; `positions` are the next offsets to read."""
        low, high = self._ends(positions, OffsetSpec.earliest()), self._ends(positions, OffsetSpec.latest())
        at = {place: max(position, low[place]) for place, position in positions.items()}
        appended = self._first({place: at[place] for place in positions if at[place] < high[place]})
        now_ms = int(time.time() * 1000)
        found = {}
        for place in positions:
            end = high[place] if place in appended else at[place]
            since = (appended[place],) if place in appended else ()
            found[place] = behind(f"{place[0]}/{place[1]}", at[place], end, since, now_ms)
        return found

    def close(self) -> None:
        self._consumer.close()

    def _ends(self, places: Iterable[Place], spec: OffsetSpec) -> dict[Place, int]:
        asked = {self._partition(place): spec for place in places}
        found = self._admin.list_offsets(asked, request_timeout=self._answer_s)
        return {self._place(where): end.result().offset for where, end in found.items()}

    def _first(self, at: Mapping[Place, int]) -> dict[Place, int]:
        """Returns the append time of the first record from each position; partitions without one are left out."""
        found: dict[Place, int] = {}
        waiting, limit = set(at), time.monotonic() + self._answer_s
        self._consumer.assign([self._partition(place, position) for place, position in at.items()])
        try:
            while waiting and time.monotonic() < limit:
                for message in self._consumer.consume(1_000, 0.05):
                    error, topic, number = message.error(), message.topic(), message.partition()
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:
                        raise KafkaException(error)
                    place = (str(topic).removeprefix(self._prefix), number or 0)
                    if error is None and place in waiting:
                        found[place] = message.timestamp()[1]
                    waiting.discard(place)
        finally:
            self._consumer.unassign()
        if waiting:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return found

    def _partition(self, place: Place, offset: int = -1001) -> TopicPartition:
        return TopicPartition(self._prefix + place[0], place[1], offset)

    def _place(self, partition: TopicPartition) -> Place:
        return partition.topic.removeprefix(self._prefix), partition.partition
