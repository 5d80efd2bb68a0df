"""Appends events to `hmx.events.v1` as they were written: every line a record, invalid ones too.

Enters: lines of NDJSON. Leaves: records whose values are the lines' bytes, keyed where tenant and session can be read.
Fails: KafkaUnreachableError or TopicsError before anything is sent; what Kafka refuses later is counted by its reason.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any, Final, NamedTuple

import msgspec
from confluent_kafka import KafkaError, Message

from pipeline.contracts.headers import JSON, Headers, event_headers
from pipeline.contracts.keys import session_key
from pipeline.contracts.limits import KB, MB
from pipeline.kafka.access import denied
from pipeline.kafka.clients import plain_producer, produce
from pipeline.kafka.reach import existing_topics
from pipeline.kafka.rights import check_rights
from pipeline.settings import Settings
from pipeline.topology import EVENTS

RECORD_BYTES: Final = 2 * MB - 4 * KB
"""The topic takes 2 MB; key, headers and the batch around them need room in it."""
DELIVERY_MS: Final = 60_000
QUEUED_KB: Final = 64 * KB
REPORT_EVERY: Final = 256


class Published(NamedTuple):
    events: int
    """Records that Kafka has acknowledged."""
    bytes: int
    """Of the lines read, whether they were sent or not."""
    seconds: float
    too_large: int
    """Lines beyond what the topic takes; not sent."""
    failed: dict[str, int]
    """Records that Kafka has not acknowledged, by its reason."""

    @property
    def complete(self) -> bool:
        return not self.too_large and not self.failed


Progress = Callable[[int, int], None]
"""Called now and then with the lines and the bytes taken so far."""


class _Ids(msgspec.Struct):
    tenant_id: str
    session_id: str
    event_id: Any = None


_IDS: Final = msgspec.json.Decoder(_Ids)


def key_of(line: bytes) -> bytes | None:
    """The session's key, or None where tenant and session can't be read."""
    return named(line)[0]


def named(line: bytes) -> tuple[bytes | None, Headers]:
    """An event's key, as `key_of` says, and its headers; where its ids can't be read, they do not name it."""
    try:
        ids = _IDS.decode(line)
        key = session_key(ids.tenant_id, ids.session_id).encode()
        if isinstance(ids.event_id, str) and ids.event_id:
            return key, event_headers(ids.tenant_id, ids.session_id, ids.event_id)
        return key, [JSON]
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None, [JSON]


def publish(lines: Iterable[bytes], settings: Settings, on_progress: Progress | None = None) -> Published:
    """Blocks until Kafka has answered for every line. Lines carry no line end; blank ones are skipped."""
    existing_topics(settings, EVENTS)
    check_rights(settings.require_kafka(), "publisher", settings.topic_prefix)
    topic = settings.topic_prefix + EVENTS
    failed: Counter[str] = Counter()

    def refused(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed[denied(error, f"topic {topic}") or error.str()] += 1

    producer = plain_producer(
        settings.require_kafka(),
        **{
            "delivery.report.only.error": True,
            "on_delivery": refused,
            "delivery.timeout.ms": DELIVERY_MS,
            "queue.buffering.max.kbytes": QUEUED_KB,
        },
    )
    started, taken, size, too_large = time.monotonic(), 0, 0, 0
    with closing(producer):
        for line in lines:
            if not line.strip():
                continue
            taken += 1
            size += len(line)
            key, headers = named(line)
            if len(line) + len(key or b"") > RECORD_BYTES:
                too_large += 1
            else:
                produce(producer, topic, line, key, headers)
                producer.poll(0)
            if on_progress is not None and taken % REPORT_EVERY == 0:
                on_progress(taken, size)
        while producer.flush(0.2):
            pass
    if on_progress is not None:
        on_progress(taken, size)
    seconds = time.monotonic() - started
    return Published(taken - too_large - failed.total(), size, seconds, too_large, dict(failed))
