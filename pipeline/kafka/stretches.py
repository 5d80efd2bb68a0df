"""Reading up what is there of topics, a portion at a time, for however many want to: by a few consumers that all share.

Enters: a place, from which offset up to which, and whose records are wanted. Leaves: the next portion. A consumer that
has read so far goes on where its last portion ended; where there are more readers than consumers, another one's is
moved. Fails with KafkaException, TimeoutError.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, Message

from pipeline.contracts.limits import MB
from pipeline.kafka.clients import Watermarks, consumer_config, read_assigned
from pipeline.kafka.unread import Place
from pipeline.kafka_profile import KafkaProfile

CONSUMERS: Final = 8
"""Each has a connection to every broker, threads, and what it has fetched."""
SCANNED: Final = 5_000
PORTION_BYTES: Final = 1 * MB
"""A portion ends after so many records, whosever they are, or bytes of those that are wanted. To move a consumer costs
what it has fetched: of a quarter of that size they would be moved so often that 32 readers took three times as long."""
BOUNDED: Final[dict[str, Any]] = {"queued.max.messages.kbytes": 8 * 1024}
"""What a consumer fetches ahead."""

Wanted = Callable[[bytes], bool]
"""Of a record's key."""


class Passing(NamedTuple):
    """A record on its way to whoever follows."""

    place: Place
    offset: int
    key: bytes
    value: bytes | None


class Portion(NamedTuple):
    position: int
    """Up to where the stretch has been read."""
    records: list[Passing]


class Stretches:
    """Threads share one."""

    def __init__(self, kafka: KafkaProfile, prefix: str) -> None:
        self._kafka = kafka
        self._prefix = prefix
        self._turns = threading.Semaphore(CONSUMERS)
        self._lock = threading.Lock()
        self._resting: list[_Hand] = []
        """The one that has rested longest first; with those at work CONSUMERS at most."""
        self._opened = 0

    def portion(self, place: Place, begin: int, end: int, wanted: Wanted) -> Portion:
        """From one offset towards another, the records whose keys are wanted. Blocks; some portions hold none."""
        if begin >= end:
            return Portion(begin, [])
        stretch = _Stretch(place, begin, end)
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
        """Once nobody reads."""
        with self._lock:
            resting, self._resting = self._resting, []
            self._opened -= len(resting)
        for hand in resting:
            hand.close()

    def _taken(self, stretch: "_Stretch") -> "_Hand":
        """One that goes on there, else one that is done, else a new one, else the one that has rested longest."""
        with self._lock:
            for fits in (stretch, None):
                for at, hand in enumerate(self._resting):
                    if hand.stands == fits:
                        return self._resting.pop(at)
            if self._opened == CONSUMERS:
                return self._resting.pop(0)
            hand = _Hand(self._kafka, self._prefix)
            self._opened += 1  # only now: it may have failed
            return hand


class _Stretch(NamedTuple):
    place: Place
    begin: int
    end: int


class _Hand:
    """One consumer, and where it stands."""

    def __init__(self, kafka: KafkaProfile, prefix: str) -> None:
        self._consumer = Consumer(consumer_config(kafka, **BOUNDED))
        self._prefix = prefix
        self._messages: Iterator[Message] = iter(())
        self.stands: _Stretch | None = None
        """What is left of what it reads; None: nothing."""

    def read(self, stretch: _Stretch, wanted: Wanted) -> Portion:
        place, begin, end = stretch
        if stretch != self.stands:
            marks = Watermarks(begin, end)
            self._messages = read_assigned(self._consumer, self._prefix + place[0], place[1], marks)
        found: list[Passing] = []
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
            self.stands = _Stretch(place, position, end)
        else:
            self.stands = None
            self._consumer.unassign()  # nothing more is fetched
        return Portion(position, found)

    def close(self) -> None:
        self._consumer.close()


def passing(place: Place, message: Message) -> Passing:
    offset, key, value = message.offset(), message.key(), message.value()
    assert offset is not None
    return Passing(place, offset, key if isinstance(key, bytes) else b"", value if isinstance(value, bytes) else None)
