"""Kafka clients as this pipeline uses them: what every configuration carries, and reading a partition whole.

Every reader is read_committed. Offsets have holes (transaction markers), so nothing here infers from contiguity.
"""

import logging
import time
from collections.abc import Callable, Container, Iterator
from operator import methodcaller
from typing import Any, Final, NamedTuple

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from pipeline.contracts.headers import Headers
from pipeline.contracts.limits import OUTPUT_BYTES
from pipeline.kafka.access import as_profile, client_config, refusal
from pipeline.kafka.rights import check_rights
from pipeline.kafka.topics import KafkaUnreachableError, settled
from pipeline.kafka_profile import KafkaProfile

LOG: Final = logging.getLogger("hmx.kafka")
Answered = Callable[[KafkaError | None, object], None]
"""Told what became of a record."""
ANSWER_S: Final = 10.0
RECONNECT_MS: Final = 1_000
"""A broker that comes back is found again so soon; the client's own default is ten seconds."""
AT_A_TIME: Final = 250
"""Records that are taken from the client at once, and then stand in memory."""
STUCK_S: Final = 60.0
"""A read without a record or an end for so long has failed: a transaction never ends, or a broker is gone."""


def producer_config(kafka: KafkaProfile, **settings: Any) -> dict[str, Any]:
    """Idempotent, acks=all, Java's partitioner (librdkafka's own would put the same key elsewhere)."""
    return {
        **client_config(kafka),
        "enable.idempotence": True,
        "acks": "all",
        "partitioner": "murmur2_random",
        "message.max.bytes": OUTPUT_BYTES + 64 * 1024,
        "compression.type": "lz4",
        "linger.ms": 5,
        "reconnect.backoff.max.ms": RECONNECT_MS,
        **settings,
    }


def consumer_config(kafka: KafkaProfile, **settings: Any) -> dict[str, Any]:
    """For assigned partitions only; the group is never joined."""
    return {
        **client_config(kafka),
        "group.id": as_profile(kafka).group,
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 20,
        "fetch.queue.backoff.ms": 5,  # with its queue full the client would pause for a second
        "fetch.message.max.bytes": OUTPUT_BYTES + 64 * 1024,
        "reconnect.backoff.max.ms": RECONNECT_MS,
        **settings,
    }


_HEADERS: Final = methodcaller("headers")
"""For a name that is no UTF-8 the client sets an error and returns a list with a hole in it. Only a call from C sees
the error at once: CPython's own fast calls don't look, and who touches the hole crashes."""


class TopicInfo(NamedTuple):
    topic_id: str
    """Another one after the topic was deleted and created again."""
    partitions: int


class Watermarks(NamedTuple):
    low: int
    high: int


class Cluster:
    """Questions to the brokers. One per process: a temporary admin client never resolves its futures."""

    def __init__(self, kafka: KafkaProfile) -> None:
        self.kafka = as_profile(kafka)
        self._admin = AdminClient(client_config(kafka))
        self._reader = Consumer(consumer_config(kafka, **{"isolation.level": "read_uncommitted"}))

    def check_rights(self, process: str, prefix: str) -> None:
        """Raises MissingRightsError, KafkaUnreachableError."""
        check_rights(self.kafka, process, prefix)

    def topic(self, name: str) -> TopicInfo:
        """Raises KafkaUnreachableError, or KafkaException for a topic that does not exist."""
        future = self._admin.describe_topics(TopicCollection([name]), request_timeout=ANSWER_S)[name]
        described = _answer(future.result)
        return TopicInfo(str(described.topic_id), len(described.partitions))

    def watermarks(self, topic: str, partition: int) -> Watermarks:
        """Low and high watermark; the high one counts open transactions. Waits while a leader changes."""
        target = TopicPartition(topic, partition)

        def ask() -> Any:
            try:
                return self._reader.get_watermark_offsets(target, timeout=ANSWER_S, cached=False)
            except KafkaException as error:
                if error.args[0].code() == KafkaError._UNKNOWN_PARTITION:
                    # Some broker's answer lacked it, and the client would believe that for ever.
                    self._reader.list_topics(topic, timeout=ANSWER_S)
                raise

        return Watermarks(*_answer(lambda: settled(ask)))

    def stable_end(self, topic: str, partition: int) -> int:
        """Below it every transaction has ended."""
        asked = TopicPartition(topic, partition)

        def ask() -> int:
            level = IsolationLevel.READ_COMMITTED
            answers = self._admin.list_offsets(
                {asked: OffsetSpec.latest()}, isolation_level=level, request_timeout=ANSWER_S
            )
            return int(answers[asked].result().offset)

        return int(_answer(lambda: settled(ask)))

    def close(self) -> None:
        self._reader.close()


def _answer(ask: Any) -> Any:
    try:
        return ask()
    except KafkaException as error:
        reason: KafkaError = error.args[0]
        if reason.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT):
            raise KafkaUnreachableError(refusal() or f"Kafka does not answer: {reason.str()}") from error
        raise


def read_partition(
    kafka: KafkaProfile,
    topic: str,
    partition: int,
    marks: Watermarks,
    isolation: str = "read_committed",
    *,
    unreadable: Container[int] = (),
    **settings: Any,
) -> Iterator[Message]:
    """Every record from the low to the high watermark as they were given. `settings` are the client's own.

    `unreadable`: offsets that are passed over where the client can't unpack their batch; it would try for ever.

    Below the high watermark an end of partition is an open transaction whose marker has still to come: it is waited
    for. Any other error raises KafkaException; no progress for STUCK_S raises TimeoutError.
    """
    if marks.low >= marks.high:
        return
    reading = {"isolation.level": isolation, "queued.min.messages": 100_000, **settings}
    consumer = Consumer(consumer_config(kafka, **reading))
    try:
        yield from read_assigned(consumer, topic, partition, marks, unreadable)
    finally:
        consumer.close()


def read_assigned(
    consumer: Consumer, topic: str, partition: int, marks: Watermarks, unreadable: Container[int] = ()
) -> Iterator[Message]:
    """The same with a consumer that is there; whatever it was assigned before is forgotten."""
    low, high = marks
    consumer.assign([TopicPartition(topic, partition, low)])  # OFFSET_BEGINNING costs half a second
    limit = time.monotonic() + STUCK_S
    following = low
    while True:
        messages = consumer.consume(AT_A_TIME, 0.05)
        for message in messages:
            error, offset = message.error(), message.offset()
            assert offset is not None
            if error is None:
                following = offset + 1
            elif error.code() == KafkaError._BAD_COMPRESSION:
                offset = max(offset, following)  # it names the batch, which may begin before what is asked for
                if offset < high and offset not in unreadable:
                    raise KafkaException(error)
                while offset in unreadable:
                    offset += 1
                following = offset
                consumer.seek(TopicPartition(topic, partition, offset))
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            if offset >= high:
                return
            if error is None:
                yield message
                limit = time.monotonic() + STUCK_S
        if time.monotonic() > limit:
            raise TimeoutError(f"reading {topic}/{partition} is stuck below offset {high}")


def headers_of(message: Message) -> Headers:
    """Empty where a name among them is no UTF-8: the client can't make a text of it, and has nothing else to give.

    The worker takes such a record in the same way (worker.records), or audits would differ from what it wrote.
    """
    try:
        return _HEADERS(message) or []
    except (SystemError, UnicodeDecodeError):
        return []


def sendable(headers: Headers) -> list[tuple[str, str | bytes | None]]:
    """Headers in the form that the client's type wants."""
    return headers if isinstance(headers, list) else list(headers)


def produce(
    producer: Producer,
    topic: str,
    value: bytes | None,
    key: bytes | None,
    headers: Headers,
    partition: int = -1,
    answered: Answered | None = None,
) -> None:
    """Waits where the client's queue is full, and lets it send."""
    while True:
        try:
            return producer.produce(topic, value, key, partition, headers=sendable(headers), on_delivery=answered)
        except BufferError:
            producer.poll(0.05)


def plain_producer(kafka: KafkaProfile, **settings: Any) -> Producer:
    """Idempotent, not transactional: for publishing, ticks and barriers."""
    return Producer(producer_config(kafka, **settings))
