"""Everything that a pipeline has written, read once: its topics, read_committed and to the end, and its Redis.

Enters: addresses. Leaves: a `Snapshot`; what moves while it is read is read again. Fails: KafkaException;
TimeoutError where a topic cannot be read to its end or does not come to rest.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import methodcaller
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.verifier.memory import Memory, read_memory
from tests.verifier.rules import STATE, TOPICS

Headers = list[tuple[str, bytes | None]]
Progress = Callable[[str], None]
ANSWER_S: Final = 15.0
STUCK_S: Final = 90.0
"""Longer than a dead producer's transaction stays open."""
ATTEMPTS: Final = 5
TRANSIENT: Final = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError._NOENT,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
}
"""While a partition's leader changes."""
_headers = methodcaller("headers")
"""Called from C: a name that is no UTF-8 then raises at once; CPython's own calls would crash on what is returned."""


class Row(NamedTuple):
    offset: int
    at: int
    """Append time, milliseconds."""
    key: bytes | None
    value: bytes | None
    headers: Headers

    def header(self, name: str) -> bytes | None:
        """The last of that name."""
        return next((value for other, value in reversed(self.headers) if other == name), None)

    def number(self, name: str) -> int:
        """A header that holds a number; -1 where it is missing or holds none."""
        text = self.header(name) or b""
        return int(text) if text.isdigit() else -1


@dataclass
class Part:
    """One partition: its rows in the order of their offsets; of a state topic the last of each key."""

    low: int = 0
    high: int = 0
    rows: list[Row] = field(default_factory=list)


@dataclass
class Snapshot:
    topics: dict[str, list[Part]]
    """By name, without the installation's prefix."""
    topic_ids: dict[str, str]
    memory: Memory | None
    """None: no Redis was named."""
    prefix: str = ""

    def after(self, earlier: "Snapshot") -> "Snapshot":
        """This one, and what retention has deleted since `earlier` was read."""
        topics = {
            name: [
                _joined(old, new) if name not in STATE else new
                for old, new in zip(earlier.topics[name], parts, strict=True)
            ]
            for name, parts in self.topics.items()
        }
        return Snapshot(topics, self.topic_ids, self.memory, self.prefix)


def _joined(old: Part, new: Part) -> Part:
    return Part(old.low, new.high, [*(row for row in old.rows if row.offset < new.low), *new.rows])


def read(bootstrap: str, prefix: str, redis_url: str = "", progress: Progress = lambda _: None) -> Snapshot:
    """What is there, all as of one moment: nothing was written while it was read."""
    admin = _admin(bootstrap)
    names = [prefix + topic for topic in TOPICS]
    described = {
        name: future.result()
        for name, future in admin.describe_topics(TopicCollection(names), request_timeout=ANSWER_S).items()
    }
    counts = {topic: len(described[prefix + topic].partitions) for topic in TOPICS}
    for _ in range(ATTEMPTS):
        before = _ends(bootstrap, prefix, counts)
        topics = {}
        for topic in TOPICS:
            progress(f"reading {topic}")
            topics[topic] = _read_topic(bootstrap, prefix + topic, before[topic], last_only=topic in STATE)
        progress("reading Redis")
        memory = read_memory(redis_url, prefix) if redis_url else None
        if _ends(bootstrap, prefix, counts) == before:
            ids = {topic: str(described[prefix + topic].topic_id) for topic in TOPICS}
            return Snapshot(topics, ids, memory, prefix)
    raise TimeoutError(f"the topics of {prefix!r} still grow: verify when the pipeline has come to rest")


Ends = dict[str, list[tuple[int, int]]]


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})


def _ends(bootstrap: str, prefix: str, counts: dict[str, int]) -> Ends:
    """Low and high watermarks; the high ones count open transactions. A new leader may not know them at once, and a
    client may hold on to the epoch of an old one: so each try has a client of its own."""
    limit = time.monotonic() + STUCK_S
    while True:
        admin = _admin(bootstrap)
        try:
            low, high = (_offsets(admin, prefix, counts, at) for at in (OffsetSpec.earliest(), OffsetSpec.latest()))
        except KafkaException as error:
            if error.args[0].code() not in TRANSIENT or time.monotonic() > limit:
                raise
            time.sleep(0.2)
        else:
            return {topic: list(zip(low[topic], high[topic], strict=True)) for topic in counts}


def _offsets(admin: AdminClient, prefix: str, counts: dict[str, int], at: OffsetSpec) -> dict[str, list[int]]:
    asked = {TopicPartition(prefix + topic, number): at for topic, count in counts.items() for number in range(count)}
    answers = admin.list_offsets(asked, request_timeout=ANSWER_S)
    found = {(where.topic, where.partition): answer.result().offset for where, answer in answers.items()}
    return {topic: [found[prefix + topic, number] for number in range(count)] for topic, count in counts.items()}


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "verifier-unused",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.message.max.bytes": 8 * 1024 * 1024,
            "fetch.wait.max.ms": 20,
            "queued.min.messages": 100_000,
            "log_level": 3,
        }
    )


def _read_topic(bootstrap: str, name: str, ends: list[tuple[int, int]], *, last_only: bool) -> list[Part]:
    """Every partition from its low to its high watermark; an open transaction below that is waited for."""
    parts = [Part(low, high) for low, high in ends]
    last: list[dict[bytes | None, Row]] = [{} for _ in parts]
    left = {number for number, part in enumerate(parts) if part.low < part.high}
    consumer = _consumer(bootstrap)
    try:
        consumer.assign([TopicPartition(name, number, parts[number].low) for number in left])
        limit = time.monotonic() + STUCK_S
        while left:
            for message in consumer.consume(10_000, 0.1):
                number, offset, error = message.partition(), message.offset(), message.error()
                if error is not None and error.code() in TRANSIENT:
                    continue
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                assert number is not None
                assert offset is not None
                if error is None and offset < parts[number].high:
                    limit = time.monotonic() + STUCK_S
                    row = _row(message, offset)
                    if last_only:
                        last[number].pop(row.key, None)
                        last[number][row.key] = row
                    else:
                        parts[number].rows.append(row)
                if offset >= parts[number].high - (error is None):
                    left.discard(number)
            if time.monotonic() > limit:
                raise TimeoutError(f"{name}: partitions {sorted(left)} cannot be read to their ends")
    finally:
        consumer.close()
    if last_only:
        for part, rows in zip(parts, last, strict=True):
            part.rows = _without_tombstones(rows.values())
    return parts


def _without_tombstones(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.value is not None]


def _row(message: Message, offset: int) -> Row:
    key: Any = message.key()
    value: Any = message.value()
    try:
        headers: Headers = _headers(message) or []
    except (SystemError, UnicodeDecodeError):
        headers = []  # the client can't say what they are; the pipeline takes such a record as one without any
    return Row(offset, message.timestamp()[1], key, value, headers)
