"""Feed: takes messages from a queue, appends each to `hmx.events.v1` unchanged, and acknowledges it once Kafka has it.

A crash in between repeats messages and loses none; the pipeline recognises repeated events by their ids.
"""

import logging
import threading
from contextlib import closing
from typing import Any, Final, NamedTuple, Protocol

from confluent_kafka import KafkaError, KafkaException

from hmx_pipeline.contracts.limits import KB
from hmx_pipeline.kafka.acl_rights import check_rights
from hmx_pipeline.kafka.clients import plain_producer, produce
from hmx_pipeline.kafka.preflight import existing_topics
from hmx_pipeline.kafka.publisher import QUEUED_KB, RECORD_BYTES, named
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS

LOG: Final = logging.getLogger("hmx.source")
BATCH: Final = 256
"""Messages taken, and unacknowledged, at once."""
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


class Source(Protocol):
    """`take` and `acknowledge` raise QueueAwayError."""

    def take(self) -> list[QueueMessage]:
        """Returns at most BATCH messages, those of an earlier process first; none after TAKE_S without one."""

    def acknowledge(self, taken: list[QueueMessage]) -> None: ...

    def close(self) -> None: ...


class FeedReport(NamedTuple):
    events: int
    """Messages that Kafka has; those that came twice count twice."""
    too_large: int
    """Messages above the topic's limit; they stay in the queue, unacknowledged."""


def feed(source: Source, settings: Settings, stop: threading.Event, *, until_empty: bool = False) -> FeedReport:
    """Runs until told to stop, or until the queue gives nothing. Waits while Kafka is away.

    Raises KafkaException for a record that Kafka refuses, and what kafka.preflight raises.
    """
    existing_topics(settings, EVENTS)
    check_rights(settings.require_kafka(), "publisher", settings.topic_prefix)
    topic, report = settings.topic_prefix + EVENTS, FeedReport(0, 0)
    endless = {"delivery.timeout.ms": 0, "queue.buffering.max.kbytes": max(QUEUED_KB, BATCH * RECORD_BYTES // KB)}
    with closing(plain_producer(settings.require_kafka(), **endless)) as producer:
        while not stop.is_set():
            try:
                taken = source.take()
                if not taken and until_empty:
                    break
                fitting = [one for one in taken if _fits(one)]
                if not _appended(producer, topic, fitting, stop):
                    break
                source.acknowledge(fitting)
            except QueueAwayError as error:
                LOG.warning("the queue does not answer, trying again: %s", error)
                stop.wait(RETRY_S)
                continue
            report = FeedReport(report.events + len(fitting), report.too_large + len(taken) - len(fitting))
    return report


def _fits(message: QueueMessage) -> bool:
    fits = len(message.value) + len(named(message.value)[0] or b"") <= RECORD_BYTES
    if not fits:
        LOG.warning("message %s is above the record limit of the events topic (2 MB): left where it is", message.name)
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
