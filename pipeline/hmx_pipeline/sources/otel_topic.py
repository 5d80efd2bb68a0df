"""A topic of an OpenTelemetry collector's Kafka exporter as a source: each message is an export, posted to the service.

Enters: a topic, a consumer group, and the service's address and headers. Leaves: one POST for each message, and a
`FeedReport`. Raises ForbiddenError if the service refuses the key. The service maps, bounds and counts an export as one
that came over HTTP. A message is committed once the service has answered, so a crash repeats exports and loses none;
repeated events are recognised by their ids.
"""

import logging
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPException
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException

from hmx_pipeline.kafka.clients import consumer_config
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.settings import Settings
from hmx_pipeline.sources.feed import RETRY_S, TAKE_S, FeedHealth, FeedReport

LOG: Final = logging.getLogger("hmx.source")
ANSWER_S: Final = 60.0
_KEY: Final = (401, 403)
_BAD: Final = (400, 413, 415, 422)
"""The service will never take such an export."""


class ForbiddenError(Exception):
    """The service does not take exports with this key."""


def forward(
    settings: Settings,
    topic: str,
    group: str,
    url: str,
    headers: Mapping[str, str],
    stop: threading.Event,
    health: FeedHealth,
    *,
    until_empty: bool = False,
) -> FeedReport:
    """Runs until told to stop, or until every partition is read; waits while Kafka or the service is away.

    Raises KafkaException if Kafka refuses to be read, and ForbiddenError.
    """
    reading = {"group.id": group, "auto.offset.reset": "earliest"}
    report, ended = FeedReport(0, 0), set[int]()
    with closing(Consumer(consumer_config(settings.require_kafka(), **reading))) as consumer:
        consumer.subscribe([topic])
        while not stop.is_set() and not (until_empty and _all_read(consumer, ended)):
            message = consumer.poll(TAKE_S)
            if message is None:
                continue
            error = message.error()
            if error is None:
                taken = _posted(url, message.value() or b"", headers, stop, health)
                if taken is None:
                    break
                if not taken:
                    LOG.warning("export %s/%s is none that is taken", message.partition(), message.offset())
                    METRICS.source_refused.labels("no_export").inc()
                METRICS.source_events.inc(taken)
                report = FeedReport(report.events + taken, report.refused + (not taken))
                consumer.commit(message=message, asynchronous=True)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition() or 0)
                health.waits = ""
            elif error.fatal() or error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, _UNKNOWN):
                raise KafkaException(error)
    return report


_UNKNOWN: Final = KafkaError.UNKNOWN_TOPIC_OR_PART


def _all_read(consumer: Any, ended: set[int]) -> bool:
    assigned = {each.partition for each in consumer.assignment()}
    return bool(assigned) and assigned <= ended


def _posted(
    url: str, body: bytes, headers: Mapping[str, str], stop: threading.Event, health: FeedHealth
) -> bool | None:
    """Whether the service took it; none if told to stop first."""
    while not stop.is_set():
        request = urllib.request.Request(url, body, dict(headers))  # noqa: S310  checked: http
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S):  # noqa: S310
                health.waits = ""
                return True
        except urllib.error.HTTPError as error:
            with error:
                if error.code in _KEY:
                    raise ForbiddenError(f"the service answers {error.code}: check HMX_SOURCE_KEY") from None
                if error.code in _BAD:
                    return False
            health.waits = f"the service answers {error.code}"
        except (OSError, HTTPException) as error:
            health.waits = f"the service does not answer: {error}"
        METRICS.source_retries.inc()
        stop.wait(RETRY_S)
    return None
