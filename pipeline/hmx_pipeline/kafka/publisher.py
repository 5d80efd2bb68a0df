"""Publisher: appends NDJSON lines to `hmx.events.v1` unchanged, including invalid ones.

Enters: lines. Leaves: one record per line, keyed if tenant and session can be read. Raises KafkaUnreachableError or
TopicsError before sending; refused records are counted by error.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import msgspec
from confluent_kafka import KafkaError

from hmx_pipeline.contracts.headers import JSON, Headers, event_headers
from hmx_pipeline.contracts.keys import session_key
from hmx_pipeline.contracts.limits import KB, MB
from hmx_pipeline.kafka.acl_rights import check_rights
from hmx_pipeline.kafka.client_login import denied
from hmx_pipeline.kafka.clients import delivering, produce
from hmx_pipeline.kafka.preflight import existing_topics
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS

RECORD_BYTES: Final = 2 * MB - 4 * KB
"""Longest line: the topic takes 2 MB, including key, headers and batch overhead."""
DELIVERY_MS: Final = 60_000
QUEUED_KB: Final = 64 * KB
REPORT_EVERY: Final = 256


class PublishReport(NamedTuple):
    events: int
    """Number of acknowledged records."""
    bytes: int
    """Bytes of all lines read, sent or not."""
    seconds: float
    too_large: int
    """Number of lines above the topic's limit; not sent."""
    failed: dict[str, int]
    """Error → number of unacknowledged records."""

    @property
    def complete(self) -> bool:
        return not self.too_large and not self.failed


Progress = Callable[[int, int], None]
"""Called regularly with the number of lines and bytes so far."""


class _Ids(msgspec.Struct):
    tenant_id: str
    session_id: str
    event_id: Any = None


_IDS: Final = msgspec.json.Decoder(_Ids)


def key_of(line: bytes) -> bytes | None:
    """Returns the session key, or None if tenant or session cannot be read."""
    return named(line)[0]


def named(line: bytes) -> tuple[bytes | None, Headers]:
    """Returns the event's key, or None, and its headers, which name its ids if they can be read."""
    try:
        ids = _IDS.decode(line)
        key = session_key(ids.tenant_id, ids.session_id).encode()
        if isinstance(ids.event_id, str) and ids.event_id:
            return key, event_headers(ids.tenant_id, ids.session_id, ids.event_id)
        return key, [JSON]
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None, [JSON]


def publish(lines: Iterable[bytes], settings: Settings, on_progress: Progress | None = None) -> PublishReport:
    """Blocks until Kafka has answered for every line. Lines have no line end; blank ones are skipped."""
    existing_topics(settings, EVENTS)
    check_rights(settings.require_kafka(), "publisher", settings.topic_prefix)
    topic = settings.topic_prefix + EVENTS
    failed: Counter[str] = Counter()

    def refused(error: KafkaError) -> None:
        failed[denied(error, f"topic {topic}") or error.str()] += 1

    queues = {"delivery.timeout.ms": DELIVERY_MS, "queue.buffering.max.kbytes": QUEUED_KB}
    started, taken, size, too_large = time.monotonic(), 0, 0, 0
    with delivering(settings.require_kafka(), refused, **queues) as producer:
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
    if on_progress is not None:
        on_progress(taken, size)
    seconds = time.monotonic() - started
    return PublishReport(taken - too_large - failed.total(), size, seconds, too_large, dict(failed))
