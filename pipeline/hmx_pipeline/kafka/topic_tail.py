"""Topic tail: one consumer at the end of some topics that feeds any number of subscribers.

Leaves: committed records in partition order. A subscriber that reads a range up to the position where it joined misses
nothing; it must skip offsets already read, since the tail may lag behind. Raises KafkaException, KafkaUnreachableError,
TimeoutError; subscribers are told of failures.
"""

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from hmx_pipeline.kafka.clients import Cluster, Watermarks, consumer_config
from hmx_pipeline.kafka.consumer_lag import Place
from hmx_pipeline.kafka.range_reader import BOUNDED, Chunk, PassingRecord, RangeReader, Wanted, passing
from hmx_pipeline.kafka.topic_files import KafkaUnreachableError
from hmx_pipeline.kafka_profile import KafkaProfile
from hmx_pipeline.observe.logs import said

LOG: Final = logging.getLogger("hmx.kafka")
LINGER_S: Final = 30.0
"""The tail keeps reading this long without subscribers."""
POLL_S: Final = 0.1
AT_ONCE: Final = 500


class TailSubscriber(Protocol):
    """A subscriber; both methods are called in the tail's thread and must not block."""

    def take(self, record: PassingRecord) -> bool:
        """Takes a record; returns False to unsubscribe."""

    def fail(self) -> None:
        """The tail has failed."""


class TopicTail:
    """The ends of some topics; thread-safe."""

    def __init__(self, kafka: KafkaProfile, prefix: str, topics: Sequence[str]) -> None:
        self._kafka = kafka
        self._prefix = prefix
        self._topics = topics
        self._starting = threading.Lock()
        self._lock = threading.Lock()
        self._next: dict[Place, int] = {}
        self._readers: dict[bytes, set[TailSubscriber]] = {}
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._stretches = RangeReader(kafka, prefix)

    @cached_property
    def _cluster(self) -> Cluster:
        return Cluster(self._kafka)

    def marks(self) -> tuple[str, dict[Place, Watermarks]]:
        """Returns a fingerprint of the topics, which changes if one is recreated, and all watermarks. Blocks."""
        with self._starting:
            infos = {topic: self._cluster.topic(self._prefix + topic) for topic in self._topics}
            marks = {
                (topic, number): self._cluster.watermarks(self._prefix + topic, number)
                for topic, info in infos.items()
                for number in range(info.partitions)
            }
        ids = "".join(f"{topic} {info.topic_id} {info.partitions}\n" for topic, info in infos.items())
        return hashlib.blake2b(ids.encode(), digest_size=4).hexdigest(), marks

    def end(self, place: Place) -> int:
        """Returns the offset after the last record of any topic's partition. Blocks."""
        return self._cluster.watermarks(self._prefix + place[0], place[1]).high

    def portion(self, place: Place, begin: int, end: int, wanted: Wanted) -> Chunk:
        """Reads a chunk of stored records, see `RangeReader`. Blocks."""
        return self._stretches.portion(place, begin, end, wanted)

    def join(self, owner: bytes, reader: TailSubscriber) -> dict[Place, int]:
        """Subscribes to records whose key starts with `owner/`, from the returned positions on. Blocks."""
        while True:
            with self._lock:
                if self._thread is not None:
                    self._readers.setdefault(owner, set()).add(reader)
                    return dict(self._next)
            if self._stop.is_set():
                raise KafkaUnreachableError("the topic tail is closed")
            self._start()

    def leave(self, owner: bytes, reader: TailSubscriber) -> None:
        with self._lock:
            self._forget(owner, reader)

    def passed(self, idle: Callable[[], bool]) -> dict[Place, int] | None:
        """Returns the positions passed so far if the subscriber is idle; nothing is delivered meanwhile."""
        with self._lock:
            return dict(self._next) if idle() else None

    def close(self) -> None:
        self._stop.set()
        thread = self._thread
        if thread is not None:
            thread.join()
        self._stretches.close()
        if "_cluster" in self.__dict__:
            self._cluster.close()

    def _start(self) -> None:
        _, marks = self.marks()
        with self._starting:
            if self._thread is not None or self._stop.is_set():
                return
            consumer = Consumer(consumer_config(self._kafka, **BOUNDED))
            consumer.assign(
                [TopicPartition(self._prefix + place[0], place[1], mark.high) for place, mark in marks.items()]
            )
            with self._lock:
                self._next = {place: mark.high for place, mark in marks.items()}
                self._thread = threading.Thread(target=self._read, args=(consumer,), name="tail", daemon=True)
            self._thread.start()

    def _read(self, consumer: Consumer) -> None:
        followed = time.monotonic()
        try:
            while not self._stop.is_set():
                messages = consumer.consume(AT_ONCE, POLL_S)
                with self._lock:
                    for message in messages:
                        self._pass_on(message)
                    if self._readers:
                        followed = time.monotonic()
                    elif time.monotonic() - followed > LINGER_S:
                        self._thread = None  # the next subscriber starts another thread
                        return
        except Exception as error:  # noqa: BLE001  subscribers must be told of any failure
            LOG.warning("reading the topic tail failed: %s", said(error))
        finally:
            with self._lock:
                if self._thread is threading.current_thread():
                    self._thread = None
                    for reader in [reader for readers in self._readers.values() for reader in readers]:
                        reader.fail()
                    self._readers.clear()
            consumer.close()

    def _pass_on(self, message: Message) -> None:
        place = (str(message.topic()).removeprefix(self._prefix), message.partition() or 0)
        error, offset = message.error(), message.offset() or 0
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            self._next[place] = max(self._next[place], offset)
            return
        record = passing(place, message)
        self._next[place] = record.offset + 1
        owner = record.key.partition(b"/")[0]
        for reader in list(self._readers.get(owner, ())):
            if not reader.take(record):
                self._forget(owner, reader)

    def _forget(self, owner: bytes, reader: TailSubscriber) -> None:
        readers = self._readers.get(owner, set())
        readers.discard(reader)
        if not readers:
            self._readers.pop(owner, None)
