"""Appending to the events log from asyncio: an append returns when Kafka has acknowledged all of it.

Enters: keys and values. Leaves: where each stands. Fails with NotAppendedError where one is not acknowledged in time;
some may stand in the log then, and sending all again is safe: the stage recognises duplicates.
"""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from pipeline.contracts.headers import Headers
from pipeline.kafka.access import denied, refusal
from pipeline.kafka.clients import plain_producer, sendable
from pipeline.kafka_profile import KafkaProfile

ACKNOWLEDGED_MS: Final = 10_000
AT_ONCE: Final = 1_000
"""Records that are handed over before other requests have a turn of the event loop: what captures append at most."""
REACHED_S: Final = 2.0
POLL_S: Final = 0.1


class NotAppendedError(Exception):
    """The message says why, for whoever sent the events."""


class Record(NamedTuple):
    key: str
    value: bytes
    headers: Headers


class Position(NamedTuple):
    partition: int
    offset: int


class _Delivery:
    """One append's acknowledgements, counted in the polling thread."""

    def __init__(self, count: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._positions: list[Position | None] = [None] * count
        self._missing = count
        self._error: KafkaError | None = None
        self.done: asyncio.Future[list[Position]] = self._loop.create_future()

    def report(self, index: int, error: KafkaError | None, message: Message) -> None:
        if error is None:
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            self._positions[index] = Position(partition, offset)
        else:
            self._error = error
        self._missing -= 1
        if not self._missing:
            self._loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        if self.done.done():  # whoever asked has gone
            return
        if self._error is not None:
            self.done.set_exception(NotAppendedError(denied(self._error) or self._error.str()))
        else:
            self.done.set_result([position for position in self._positions if position is not None])


class EventLog:
    """One producer for the process, and one thread that polls it for acknowledgements."""

    def __init__(self, kafka: KafkaProfile, topic: str) -> None:
        self.topic = topic
        self._kafka = kafka
        self._producer = self._connect()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="acknowledgements", daemon=True)
        self._thread.start()

    async def append(self, records: Sequence[Record]) -> list[Position]:
        """See the module. One session's events keep their order."""
        if not records:
            return []
        delivery = _Delivery(len(records))
        try:
            for index, (key, value, headers) in enumerate(records):
                if index and not index % AT_ONCE:
                    await asyncio.sleep(0)
                report = partial(delivery.report, index)
                self._producer.produce(self.topic, value, key.encode(), headers=sendable(headers), on_delivery=report)
        except BufferError:
            raise NotAppendedError("too many events wait for Kafka") from None
        except KafkaException as error:
            cause: KafkaError = error.args[0]
            if cause.code() == KafkaError._FATAL:  # an idempotent producer that lost its sequence never recovers
                self._replace()
            raise NotAppendedError(cause.str()) from None
        return await delivery.done

    def unreachable(self) -> str | None:
        """Why no event can be appended; None where one can. Blocks for REACHED_S at most."""
        try:
            found = self._producer.list_topics(self.topic, timeout=REACHED_S).topics[self.topic]
        except KafkaException as error:
            return refusal() or f"Kafka does not answer: {error.args[0].str()}"
        if found.error is None:
            return None
        return denied(found.error, f"topic {self.topic}") or f"topic {self.topic}: {found.error.str()}"

    def give_up(self) -> None:
        """What is not acknowledged by now is not waited for: whoever appends is told."""
        self._producer.purge()

    def close(self) -> None:
        """Waits for what is under way."""
        self._producer.flush(ACKNOWLEDGED_MS / 1000)
        self._stop.set()
        self._thread.join()
        self._producer.close()

    def _replace(self) -> None:
        old, self._producer = self._producer, self._connect()
        old.purge()
        old.flush(POLL_S)  # whoever waits for it is told

    def _connect(self) -> Producer:
        return plain_producer(self._kafka, **{"message.timeout.ms": ACKNOWLEDGED_MS})

    def _poll(self) -> None:
        while not self._stop.is_set():
            with suppress(KafkaException):  # a fatal error: whoever appends next is told, and the producer replaced
                self._producer.poll(POLL_S)
