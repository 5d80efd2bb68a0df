"""Dead letters query: the newest rejected records of all tenants, or one by its place, without secrets.

Enters: settings; a place. Leaves: `DeadLetter`s, each with the tenant whose it is, by which the route chooses, and
views for JSON. A letter is its tenant's if its value names the tenant, whatever key it came under; what names none is
nobody's. Raises what reading Kafka raises.
"""

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson
from confluent_kafka import Consumer, Message

from hmx_pipeline.contracts import headers as names
from hmx_pipeline.contracts.episode import owner_in, subject_of
from hmx_pipeline.contracts.headers import header, origin_of
from hmx_pipeline.contracts.keys import split_key
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.contracts.rejections import PREFACE, mending
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.intake.redaction import TooCostlyError, redact
from hmx_pipeline.kafka.clients import Cluster, Watermarks, consumer_config, headers_of, read_assigned, read_partition
from hmx_pipeline.kafka.preflight import existing_topics
from hmx_pipeline.kafka.publisher import key_of
from hmx_pipeline.kafka.range_reader import BOUNDED
from hmx_pipeline.queries.dead_letter_policy import returned
from hmx_pipeline.settings import Settings
from hmx_pipeline.stages.fold import Output, Record
from hmx_pipeline.topology import EVENTS, EVENTS_DLQ

if TYPE_CHECKING:
    from hmx_pipeline.store.erased_memory import Erasures

NEWEST: Final = 400
"""Newest offsets read of each partition; `hmx dlq` reads all."""
STRETCH: Final = 50
"""Offsets read at a time, from the end backwards."""
READ_BYTES: Final = 16 * MB
"""So many bytes are read at most, and one stretch of each partition beyond."""
VALUE_BYTES: Final = 8 * 1024
"""A longer value is neither kept nor shown."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    partition: int
    offset: int
    tenant: str
    """As its value says; empty if it names none."""
    session: str
    subject: str
    """Whose its value says it is, or its session's name; empty if neither does."""
    origin: tuple[int, int]
    """Partition and offset of the rejected record."""
    rejected: int
    """When (ms)."""
    reason: str
    step: str
    path: str
    detail: str
    size: int
    value: bytes | None
    """None if it is longer than VALUE_BYTES, or was too large to be kept."""

    def as_json(self) -> dict[str, Any]:
        return {
            "partition": self.partition,
            "offset": self.offset,
            "origin": "{}:{}".format(*self.origin),
            "session_id": self.session,
            "rejected_at": format_ms(self.rejected),
            "reason": self.reason,
            "step": self.step,
            "path": _without_secrets(self.path),
            "detail": _without_secrets(self.detail),
            "advice": mending(self.reason),
            "size": self.size,
            "value": self._shown(),
        }

    def _shown(self) -> str | None:
        """The value without secrets, those of its ids too, which an event would keep."""
        if self.value is None:
            return None
        try:
            return orjson.dumps(redact({"value": orjson.loads(self.value)})[0]["value"]).decode()
        except orjson.JSONDecodeError:
            return _without_secrets(self.value.decode(errors="backslashreplace"))
        except TooCostlyError:
            return None


def _without_secrets(text: str) -> str | None:
    """Returns None for what can't be searched for them."""
    try:
        return str(redact({"value": text})[0]["value"])
    except TooCostlyError:
        return None


def _subject(value: bytes, session: str) -> str:
    try:
        found = orjson.loads(value)
    except orjson.JSONDecodeError:
        found = None
    named = isinstance(found, dict) and isinstance(found.get("metadata"), dict) and subject_of(found)
    return named or owner_in(session)


def newest(settings: Settings) -> tuple[list[DeadLetter], bool]:
    """Returns the newest letters first, and whether these are all."""
    topic, partitions = settings.topic_prefix + EVENTS_DLQ, existing_topics(settings, EVENTS_DLQ)[EVENTS_DLQ]
    kafka, found, complete = settings.require_kafka(), list[DeadLetter](), True
    with closing(Cluster(kafka)) as cluster, closing(Consumer(consumer_config(kafka, **BOUNDED))) as consumer:
        for partition in range(partitions):
            low, high = cluster.watermarks(topic, partition)
            begin, size = high, 0
            while begin > max(low, high - NEWEST) and size < READ_BYTES // partitions:
                begin, end = max(low, begin - STRETCH), begin
                for message in read_assigned(consumer, topic, partition, Watermarks(begin, end)):
                    found.append(letter_of(row_of(message)))
                    size += found[-1].size
            complete = complete and begin <= low
    return sorted(found, key=lambda letter: -letter.rejected), complete


class FoundLetter(NamedTuple):
    letter: Record
    back: Output
    """The record that would be appended."""
    log: Watermarks
    """What is kept of the partition of the events topic that it would go to."""


def one(settings: Settings, partition: int, offset: int) -> FoundLetter | None:
    partitions, prefix = existing_topics(settings, EVENTS, EVENTS_DLQ), settings.topic_prefix
    with closing(Cluster(settings.require_kafka())) as cluster:
        low, high = cluster.watermarks(prefix + EVENTS_DLQ, partition) if partition < partitions[EVENTS_DLQ] else (0, 0)
        if not low <= offset < high:
            return None
        place = Watermarks(offset, offset + 1)
        for message in read_partition(cluster.kafka, prefix + EVENTS_DLQ, partition, place, **BOUNDED):
            letter = row_of(message)
            back = returned(letter, partitions[EVENTS])
            return FoundLetter(letter, back, cluster.watermarks(prefix + EVENTS, back.partition))
    return None


def row_of(message: Message) -> Record:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None, "a fetched record has an offset"
    key: Any = message.key()
    value: Any = message.value()
    return Record(partition, offset, message.timestamp()[1], key, value, headers_of(message))


def is_gone(erased: "Erasures", letter: DeadLetter) -> bool:
    """Returns whether a letter was erased. Of its age only the rejection tells: what it says itself may be what was
    rejected."""
    if erased.forgets(letter.tenant, letter.rejected):
        return True
    return erased.hides_event(letter.tenant, letter.session, letter.subject, letter.origin)


def letter_of(record: Record) -> DeadLetter:
    value, headers = record.value or b"", record.headers

    def said(name: str) -> str:
        return (header(headers, name) or b"").decode(errors="replace")

    key = key_of(value)
    tenant, session = split_key(key.decode()) if key is not None else ("", "")
    omitted = said(names.OMITTED)
    return DeadLetter(
        partition=record.partition,
        offset=record.offset,
        tenant=tenant,
        session=session,
        subject=_subject(value, session),
        origin=origin_of(headers) or (record.partition, -1),
        rejected=record.timestamp,
        reason=said(names.REASON),
        step=said(names.STEP),
        path=said(names.PATH),
        detail=said(names.DETAIL).removeprefix(PREFACE),
        size=int(omitted) if omitted.isdecimal() else len(value),
        value=None if omitted or len(value) > VALUE_BYTES else value,
    )
