"""Feed: takes messages from a queue, appends each to `hmx.events.v1` unchanged, and acknowledges it once Kafka has it.

Enters: a `Source` of messages. Leaves: records, and a report with what was refused because it is too large. A crash in
between repeats messages and loses none; the pipeline recognises repeated events by their ids.
"""

import logging
import threading
from contextlib import closing
from typing import Any, Final, NamedTuple, Protocol

from confluent_kafka import KafkaError, KafkaException

from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.kafka.acl_rights import check_rights
from hmx_pipeline.kafka.clients import plain_producer, produce
from hmx_pipeline.kafka.preflight import existing_topics
from hmx_pipeline.kafka.publisher import QUEUED_KB, RECORD_BYTES, named
from hmx_pipeline.observe.health_server import Answer
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS

LOG: Final = logging.getLogger("hmx.source")
BATCH: Final = 256
BATCH_BYTES: Final = 8 * MB
"""No more messages are taken once this many, or this many bytes, are unacknowledged."""
SOME: Final = 8
"""Messages taken in one call: neither queue can bound their bytes."""
TAKE_S: Final = 1.0
"""How long a source waits for a first message."""
RETRY_S: Final = 1.0
"""Pause while a queue does not answer."""


class QueueMessage(NamedTuple):
    name: str
    value: bytes
    handle: Any
    """By which the source acknowledges it."""


class QueueAwayError(Exception):
    """The queue does not answer for now; what it gave and was not acknowledged comes again."""


class QueueDamagedError(Exception):
    """What is read is no queue; asking again does not help."""


class Source(Protocol):
    """Methods raise QueueAwayError or QueueDamagedError."""

    def take(self, wait_s: float) -> list[QueueMessage]:
        """Returns at most SOME messages, those of an earlier process first; none after a time without one."""

    def drained(self) -> bool:
        """Returns whether nothing is left that this source will be given; asked when `take` has given nothing."""

    def acknowledge(self, taken: list[QueueMessage]) -> None: ...

    def refuse(self, taken: list[QueueMessage]) -> None:
        """Makes sure that messages which cannot be sent do not come again."""

    def close(self) -> None: ...


class FeedReport(NamedTuple):
    events: int
    """Messages that Kafka has; those that came twice count twice."""
    refused: int
    """Messages that can never be taken; they do not come again."""


class FeedHealth:
    """Ready while the queue and Kafka answer (see observe.health_server)."""

    def __init__(self) -> None:
        self.waits = "nothing has been taken yet"
        """Why it waits; empty if it does not."""

    def live(self) -> Answer:
        return True, "it runs"

    def ready(self) -> Answer:
        return not self.waits, self.waits or "it feeds"

    started = ready

    def refresh(self) -> None: ...


def feed(
    source: Source,
    settings: Settings,
    stop: threading.Event,
    health: FeedHealth | None = None,
    *,
    until_empty: bool = False,
) -> FeedReport:
    """Runs until told to stop, or until the queue gives nothing. Waits while Kafka is away.

    Raises KafkaException for a record that Kafka refuses, QueueDamagedError, and what kafka.preflight raises.
    """
    existing_topics(settings, EVENTS)
    check_rights(settings.require_kafka(), "publisher", settings.topic_prefix)
    topic, report, health = settings.topic_prefix + EVENTS, FeedReport(0, 0), health or FeedHealth()
    endless = {"delivery.timeout.ms": 0, "queue.buffering.max.kbytes": QUEUED_KB}
    with closing(plain_producer(settings.require_kafka(), **endless)) as producer:
        while not stop.is_set():
            try:
                taken = _batch(source)
                if not taken and until_empty and source.drained():
                    break
                fitting = [one for one in taken if _fits(one)]
                health.waits = "Kafka has not acknowledged what was taken" if fitting else ""
                if not _appended(producer, topic, fitting, stop):
                    break
                source.acknowledge(fitting)
                health.waits = ""
                if len(fitting) < len(taken):
                    source.refuse([one for one in taken if one not in fitting])
                    METRICS.source_refused.labels("too_large").inc(len(taken) - len(fitting))
            except QueueAwayError as error:
                LOG.warning("the queue gives nothing for now, trying again: %s", error)
                METRICS.source_retries.inc()
                health.waits = str(error)
                stop.wait(RETRY_S)
                continue
            METRICS.source_events.inc(len(fitting))
            report = FeedReport(report.events + len(fitting), report.refused + len(taken) - len(fitting))
    return report


def _batch(source: Source) -> list[QueueMessage]:
    taken = more = source.take(TAKE_S)
    while more and len(taken) < BATCH and sum(len(one.value) for one in taken) < BATCH_BYTES:
        more = source.take(0)
        taken = taken + more
    return taken


def _fits(message: QueueMessage) -> bool:
    fits = len(message.value) + len(named(message.value)[0] or b"") <= RECORD_BYTES
    if not fits:
        LOG.warning("message %s is above the record limit of the events topic (2 MB): refused", message.name)
    return fits


def _appended(producer: Any, topic: str, messages: list[QueueMessage], stop: threading.Event) -> bool:
    """Returns whether Kafka has acknowledged all of them; False if told to stop first."""
    refused: list[KafkaError] = []

    def answered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            refused.append(error)

    for message in messages:
        key, headers = named(message.value)
        produce(producer, topic, message.value, key, headers, answered=answered)
    while producer.flush(0.2):
        if stop.is_set():
            producer.purge()
            return False
    if refused:
        raise KafkaException(refused[0])
    return True
