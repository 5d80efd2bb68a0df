"""Range reader: reads offset ranges in chunks, with a small pool of consumers shared by all readers.

Enters: partition, offset range, key filter. Leaves: the next chunk. A consumer continues where its last chunk ended; if
there are more readers than consumers, another's is moved. Raises KafkaException, TimeoutError.
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


class RangeReader:
    """Pool of consumers; thread-safe."""

    def __init__(self, kafka: KafkaProfile, prefix: str) -> None:
        self._kafka = kafka
        self._prefix = prefix
        self._turns = threading.Semaphore(CONSUMERS)
        self._lock = threading.Lock()
        self._resting: list[_Hand] = []
        """Idle consumers, longest idle first; at most CONSUMERS including busy ones."""
        self._opened = 0

    def portion(self, place: Place, begin: int, end: int, wanted: Wanted) -> Chunk:
        """Reads the next chunk of a range. Blocks; chunks may be empty."""
        if begin >= end:
            return Chunk(begin, [])
        stretch = _Range(place, begin, end)
        with self._turns:
            hand = self._taken(stretch)
            try:
                portion = hand.read(stretch, wanted)
            except BaseException:
                with self._lock:
                    self._opened -= 1
                hand.close()
                raise
            with self._lock:
                self._resting.append(hand)
            return portion

    def close(self) -> None:
        """Closes the consumers, once nobody reads."""
        with self._lock:
            resting, self._resting = self._resting, []
            self._opened -= len(resting)
        for hand in resting:
            hand.close()

    def _taken(self, stretch: "_Range") -> "_Hand":
        """Chooses a consumer: at this range, else finished, else new, else longest idle."""
        with self._lock:
            for fits in (stretch, None):
                for at, hand in enumerate(self._resting):
                    if hand.stands == fits:
                        return self._resting.pop(at)
            if self._opened == CONSUMERS:
                return self._resting.pop(0)
            hand = _Hand(self._kafka, self._prefix)
            self._opened += 1  # only now, since opening may fail
            return hand


class _Range(NamedTuple):
    place: Place
    begin: int
    end: int


class _Hand:
    """One consumer and its position."""

    def __init__(self, kafka: KafkaProfile, prefix: str) -> None:
        self._consumer = Consumer(consumer_config(kafka, **BOUNDED))
        self._prefix = prefix
        self._messages: Iterator[Message] = iter(())
        self.stands: _Range | None = None
        """The unread rest of its range; None if finished."""

    def read(self, stretch: _Range, wanted: Wanted) -> Chunk:
        place, begin, end = stretch
        if stretch != self.stands:
            marks = Watermarks(begin, end)
            self._messages = read_assigned(self._consumer, self._prefix + place[0], place[1], marks)
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
            self._consumer.unassign()  # stops fetching
        return Chunk(position, found)

    def close(self) -> None:
        self._consumer.close()


def passing(place: Place, message: Message) -> PassingRecord:
    offset, key, value = message.offset(), message.key(), message.value()
    assert offset is not None
    return PassingRecord(
        place, offset, key if isinstance(key, bytes) else b"", value if isinstance(value, bytes) else None
    )
