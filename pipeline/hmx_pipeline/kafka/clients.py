"""Kafka client configurations, and reading a whole partition.

Enters: a `KafkaProfile`. Leaves: configurations, producers, a `Cluster` that knows topic ids and offsets, and a
partition's committed records between two offsets. Raises KafkaUnreachableError, KafkaException, and TimeoutError for a
read that is stuck. Readers are read_committed unless told otherwise. Offsets have gaps (transaction markers), so
nothing relies on consecutive offsets.
"""

import time
from collections.abc import Callable, Container, Iterator
from contextlib import closing, contextmanager
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

from hmx_pipeline.contracts.headers import Headers
from hmx_pipeline.contracts.limits import OUTPUT_BYTES
from hmx_pipeline.kafka.acl_rights import check_rights
from hmx_pipeline.kafka.answering import KafkaAnswers
from hmx_pipeline.kafka.client_login import as_profile, client_config, refusal
from hmx_pipeline.kafka.topic_files import KafkaUnreachableError, settled
from hmx_pipeline.kafka_profile import KafkaProfile

Answered = Callable[[KafkaError | None, object], None]
"""Delivery callback."""
ANSWER_S: Final = 10.0
RECONNECT_MS: Final = 1_000
"""How soon a returning broker is found; the client's default is ten seconds."""
AT_A_TIME: Final = 250
"""Records taken from the client at once, which then stay in memory."""
STUCK_S: Final = 60.0
"""A read without progress for this time fails: a transaction stays open, or a broker is down."""


def producer_config(kafka: KafkaProfile, **settings: Any) -> dict[str, Any]:
    """Configures an idempotent producer with Java's partitioner; librdkafka's own would place keys differently."""
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
    """Configures a consumer for assigned partitions; it never joins a group."""
    return {
        **client_config(kafka),
        "group.id": as_profile(kafka).group,
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 20,
        "fetch.queue.backoff.ms": 5,  # with a full queue the client would pause for a second
        "fetch.message.max.bytes": OUTPUT_BYTES + 64 * 1024,
        "reconnect.backoff.max.ms": RECONNECT_MS,
        **settings,
    }


_HEADERS: Final = methodcaller("headers")
"""Calls `headers` from C: for names that are not UTF-8 the client returns a broken list together with an error, which
CPython's fast calls do not check."""


class TopicInfo(NamedTuple):
    topic_id: str
    """Changes when the topic is deleted and created again."""
    partitions: int


class Watermarks(NamedTuple):
    low: int
    high: int


class Cluster:
    """Admin requests. One per process, because a temporary admin client never resolves its futures."""

    def __init__(self, kafka: KafkaProfile) -> None:
        self.kafka = as_profile(kafka)
        self._admin = AdminClient(client_config(kafka))
        self._reader = Consumer(consumer_config(kafka, **{"isolation.level": "read_uncommitted"}))

    def answers(self, topic: str, process: str) -> KafkaAnswers:
        return KafkaAnswers(lambda: self._admin, topic, process)

    def check_rights(self, process: str, prefix: str) -> None:
        """Raises MissingRightsError, KafkaUnreachableError."""
        check_rights(self.kafka, process, prefix)

    def topic(self, name: str) -> TopicInfo:
        """Raises KafkaUnreachableError, and KafkaException if the topic does not exist."""
        future = self._admin.describe_topics(TopicCollection([name]), request_timeout=ANSWER_S)[name]
        described = _answer(future.result)
        return TopicInfo(str(described.topic_id), len(described.partitions))

    def watermarks(self, topic: str, partition: int) -> Watermarks:
        """Returns the watermarks; the high one includes open transactions. Waits during a leader change."""
        target = TopicPartition(topic, partition)

        def ask() -> Any:
            try:
                return self._reader.get_watermark_offsets(target, timeout=ANSWER_S, cached=False)
            except KafkaException as error:
                if error.args[0].code() == KafkaError._UNKNOWN_PARTITION:
                    # A broker's answer lacked the partition, and the client would remember that.
                    self._reader.list_topics(topic, timeout=ANSWER_S)
                raise

        return Watermarks(*_answer(lambda: settled(ask)))

    def stable_end(self, topic: str, partition: int) -> int:
        """Returns the last stable offset: all transactions below have ended."""
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
    """Yields every record between the watermarks; `settings` go to the client.

    `unreadable` are offsets to skip if the client cannot decompress their batch.

    Below the high watermark, an end of partition means an open transaction, which is waited for. Other errors raise
    KafkaException; no progress for STUCK_S raises TimeoutError.
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
    """Like `read_partition` with an existing consumer, which is reassigned."""
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
                offset = max(offset, following)  # the error names the batch, which may begin earlier
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
            raise TimeoutError(f"reading {topic}/{partition} is stuck below offset {high}: see `hmx status`")


def headers_of(message: Message) -> Headers:
    """Returns the headers; empty if a name is not UTF-8, as the client cannot decode it.

    The worker treats such records alike (worker.fetched_records), so audits match its output.
    """
    try:
        return _HEADERS(message) or []
    except (SystemError, UnicodeDecodeError):
        return []


def sendable(headers: Headers) -> list[tuple[str, str | bytes | None]]:
    """Converts headers to the client's type."""
    return headers if isinstance(headers, list) else list(headers)


def produce(
    producer: Producer,
    topic: str,
    value: bytes | None,
    key: bytes | None,
    headers: Headers,
    partition: int = -1,
    answered: Answered | None = None,
    at_ms: int = 0,
) -> None:
    """Produces a record, of this time or of now; waits while the client's queue is full."""
    options: dict[str, Any] = {"headers": sendable(headers), "on_delivery": answered, "timestamp": at_ms}
    while True:
        try:
            return producer.produce(topic, value, key, partition, **options)
        except BufferError:
            producer.poll(0.05)


@contextmanager
def delivering(kafka: KafkaProfile, on_failure: Callable[[KafkaError], None], **settings: Any) -> Iterator[Producer]:
    """A producer. At the end Kafka has answered for every record; `on_failure` is called for each that it refused."""

    def answered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            on_failure(error)

    reports = {"delivery.report.only.error": True, "on_delivery": answered}
    with closing(plain_producer(kafka, **reports, **settings)) as producer:
        yield producer
        while producer.flush(0.2):
            pass


def plain_producer(kafka: KafkaProfile, **settings: Any) -> Producer:
    """Creates an idempotent producer without transactions, for events, ticks and barriers."""
    return Producer(producer_config(kafka, **settings))
