"""Range reader: reads offset ranges in chunks, with a small pool of consumers shared by all readers.

Enters: partition, offset range, key filter. Leaves: the next chunk. A consumer continues where its last chunk ended.
If there are more readers than consumers, the consumer of another range is moved. Raises KafkaException, TimeoutError.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, Message

from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.kafka.clients import Watermarks, consumer_config, read_assigned
from hmx_pipeline.kafka.consumer_lag import Place
from hmx_pipeline.kafka_profile import KafkaProfile

CONSUMERS: Final = 8
"""Size of the pool; each consumer has threads, a connection per broker and a buffer."""
SCANNED: Final = 5_000
PORTION_BYTES: Final = 1 * MB
"""A chunk ends after this many records read, or bytes of matching ones. Moving a consumer discards its buffer: with
chunks of a quarter, 32 readers took three times as long."""
BOUNDED: Final[dict[str, Any]] = {"queued.max.messages.kbytes": 8 * 1024}
"""Read-ahead limit of a consumer."""

Wanted = Callable[[bytes], bool]
"""Filters records by key."""


class PassingRecord(NamedTuple):
    """A record on its way to a subscriber."""

    place: Place
    offset: int
    key: bytes
    value: bytes | None


class Chunk(NamedTuple):
    position: int
    """Offset up to which the range has been read."""
    records: list[PassingRecord]


class _Range(NamedTuple):
    place: Place
    begin: int
    end: int


class RangeReader:
    """Pool of consumers; thread-safe."""

    def __init__(self, kafka: KafkaProfile, prefix: str) -> None:
        self._turns = threading.Semaphore(CONSUMERS)
        self._lock = threading.Lock()
        self._resting = [_Hand(kafka, prefix) for _ in range(CONSUMERS)]
        """Idle consumers, in order of reuse: first those without a range, last used first; then the longest idle."""

    def portion(self, place: Place, begin: int, end: int, wanted: Wanted) -> Chunk:
        """Reads the next chunk of a range. Blocks; chunks may be empty."""
        if begin >= end:
            return Chunk(begin, [])
        stretch = _Range(place, begin, end)
        with self._turns:
            with self._lock:
                hand = next((hand for hand in self._resting if hand.stands == stretch), self._resting[0])
                self._resting.remove(hand)
            try:
                return hand.read(stretch, wanted)
            except BaseException:
                hand.close()
                raise
            finally:
                with self._lock:
                    self._resting.insert(0 if hand.stands is None else CONSUMERS, hand)

    def close(self) -> None:
        """Closes the consumers. Call it after the last read."""
        for hand in self._resting:
            hand.close()


class _Hand:
    """One consumer, opened when it is first needed, and its position."""

    def __init__(self, kafka: KafkaProfile, prefix: str) -> None:
        self._kafka = kafka
        self._prefix = prefix
        self._consumer: Consumer | None = None
        self._messages: Iterator[Message] = iter(())
        self.stands: _Range | None = None
        """The unread rest of its range; None if finished."""

    def read(self, stretch: _Range, wanted: Wanted) -> Chunk:
        place, begin, end = stretch
        consumer = self._consumer = self._consumer or Consumer(consumer_config(self._kafka, **BOUNDED))
        if stretch != self.stands:
            self._messages = read_assigned(consumer, self._prefix + place[0], place[1], Watermarks(begin, end))
        found: list[PassingRecord] = []
        size, position = 0, end
        for scanned, message in enumerate(self._messages, 1):
            record = passing(place, message)
            if wanted(record.key):
                found.append(record)
                size += len(record.value or b"")
            if scanned == SCANNED or size > PORTION_BYTES:
                position = record.offset + 1
                break
        if position < end:
            self.stands = _Range(place, position, end)
        else:
            self.stands = None
            consumer.unassign()  # stops fetching
        return Chunk(position, found)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = self.stands = None


def passing(place: Place, message: Message) -> PassingRecord:
    offset, key, value = message.offset(), message.key(), message.value()
    assert offset is not None
    return PassingRecord(
        place, offset, key if isinstance(key, bytes) else b"", value if isinstance(value, bytes) else None
    )
