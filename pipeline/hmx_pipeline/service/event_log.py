"""Event log: appends records to the events topic from asyncio, and returns once Kafka has acknowledged all.

Enters: keys and values. Leaves: partition and offset of each. Raises NotAppendedError if one is not acknowledged in
time; some may be in the log then, but resending is safe, since the sessions stage drops duplicates.
"""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from hmx_pipeline.contracts.headers import Headers
from hmx_pipeline.kafka.answering import KafkaAnswers
from hmx_pipeline.kafka.client_login import denied
from hmx_pipeline.kafka.clients import plain_producer, sendable
from hmx_pipeline.kafka_profile import KafkaProfile

ACKNOWLEDGED_MS: Final = 10_000
AT_ONCE: Final = 1_000
"""Records handed over before the event loop gets a turn; at least a batch of captures."""
POLL_S: Final = 0.5
IDLE_S: Final = 2.0
"""While nothing waits for its acknowledgement, the client is asked that often whether it has anything to tell."""


class NotAppendedError(Exception):
    """An append was not acknowledged; the message is for the sender."""


class EventRecord(NamedTuple):
    key: str
    value: bytes
    headers: Headers


class LogPosition(NamedTuple):
    partition: int
    offset: int


class _Delivery:
    """Collects one append's acknowledgements in the polling thread."""

    def __init__(self, count: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._positions: list[LogPosition | None] = [None] * count
        self._missing = count
        self._error: KafkaError | None = None
        self.done: asyncio.Future[list[LogPosition]] = self._loop.create_future()

    def report(self, index: int, error: KafkaError | None, message: Message) -> None:
        if error is None:
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            self._positions[index] = LogPosition(partition, offset)
        else:
            self._error = error
        self._missing -= 1
        if not self._missing:
            self._loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        if self.done.done():  # the caller has gone
            return
        if self._error is not None:
            self.done.set_exception(NotAppendedError(denied(self._error) or self._error.str()))
        else:
            self.done.set_result([position for position in self._positions if position is not None])


class EventLog:
    """The process's producer, and the thread that polls it for acknowledgements."""

    def __init__(self, kafka: KafkaProfile, topic: str) -> None:
        self.topic = topic
        self._kafka = kafka
        self._producer = self._connect()
        self._stop, self._waiting = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._poll, name="acknowledgements", daemon=True)
        self._thread.start()
        self.answers = KafkaAnswers(lambda: self._producer, topic, "service")

    async def append(self, records: Sequence[EventRecord]) -> list[LogPosition]:
        """Appends records, see the module. Events of one session keep their order."""
        if not records:
            return []
        delivery = _Delivery(len(records))
        try:
            for index, (key, value, headers) in enumerate(records):
                if index and not index % AT_ONCE:
                    await asyncio.sleep(0)
                report = partial(delivery.report, index)
                self._producer.produce(self.topic, value, key.encode(), headers=sendable(headers), on_delivery=report)
                self._waiting.set()
        except BufferError:
            raise NotAppendedError("too many events wait for Kafka's acknowledgement") from None
        except KafkaException as error:
            cause: KafkaError = error.args[0]
            if cause.code() == KafkaError._FATAL:  # a fatal error of an idempotent producer is permanent
                self._replace()
            raise NotAppendedError(cause.str()) from None
        return await delivery.done

    def give_up(self) -> None:
        """Drops unacknowledged records; their callers get an error."""
        self._producer.purge()

    def close(self) -> None:
        """Waits for pending acknowledgements, then closes."""
        self._producer.flush(ACKNOWLEDGED_MS / 1000)
        self._stop.set()
        self._waiting.set()
        self._thread.join()
        self._producer.close()

    def _replace(self) -> None:
        old, self._producer = self._producer, self._connect()
        old.purge()
        old.flush(POLL_S)  # reports errors to waiting callers

    def _connect(self) -> Producer:
        return plain_producer(self._kafka, **{"message.timeout.ms": ACKNOWLEDGED_MS})

    def _poll(self) -> None:
        while not self._stop.is_set():
            with suppress(KafkaException):  # a fatal error: whoever appends next is told, and the producer replaced
                self._producer.poll(POLL_S if len(self._producer) else 0)
            self._waiting.clear()
            if not (len(self._producer) or self._stop.is_set()):
                self._waiting.wait(IDLE_S)
