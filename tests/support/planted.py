"""A small real pipeline at rest with one of everything in it, what the verifier has read of it, and faults to plant."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.keys import partition_of, session_key
from hmx_pipeline.kafka.clients import Cluster, plain_producer
from hmx_pipeline.runtime.stored_positions import stored_positions
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import SESSIONS
from tests.support.pipeline import new_settings, running
from tests.support.records import event
from tests.support.sessions import interleaved, session
from tests.support.talk import said
from tests.support.waiting import until
from tests.verifier import Fault, Report, Rules, Snapshot, check, compare, read
from tests.verifier.log import Part, Row
from tests.verifier.memory import Memory, root_of
from tests.verifier.rules import ARTIFACTS, EVENTS, EVENTS_DLQ, EVIDENCE

PARTITIONS = 2
WINDOW_MS = 3_600_000
"""Longer than the tests on the busiest machine: what waits behind a gap still does when it is looked at."""


@dataclass
class Verified:
    """A pipeline at rest, and what the verifier has read of it."""

    settings: Settings
    snapshot: Snapshot

    @property
    def rules(self) -> Rules:
        return Rules(self.settings.control_key, window_ms=WINDOW_MS)

    def check(self) -> Report:
        made = self.settings
        return check(made.kafka_bootstrap, made.topic_prefix, made.redis_url, made.control_key, window_ms=WINDOW_MS)

    def rows(self, topic: str, number: int) -> list[Row]:
        return list(self.snapshot.topics[topic][number].rows)

    def most(self, topic: str) -> int:
        """The partition with most of it."""
        parts = self.snapshot.topics[topic]
        return max(range(len(parts)), key=lambda number: len(parts[number].rows))

    def with_rows(self, topic: str, number: int, rows: list[Row]) -> list[Fault]:
        """The faults if the partition held these; Redis is not looked at."""
        parts = list(self.snapshot.topics[topic])
        parts[number] = Part(parts[number].low, parts[number].high, rows)
        topics = {**self.snapshot.topics, topic: parts}
        return compare(replace(self.snapshot, topics=topics, memory=None), self.rules).faults

    def with_memory(self, **changes: Any) -> list[Fault]:
        """The faults if Redis held these; None: the key is gone."""
        memory: Memory = {**(self.snapshot.memory or {})}
        for key, value in changes.items():
            memory.pop(key.encode(), None)
            if value is not None:
                memory[key.encode()] = value
        return compare(replace(self.snapshot, memory=memory), self.rules).faults

    def key(self, kind: str) -> str:
        """The first of a kind in Redis."""
        start = f"{root_of(self.settings.topic_prefix)}:{{acme}}:{kind}".encode()
        return min(key for key in self.snapshot.memory or {} if key.startswith(start)).decode()

    def value(self, key: str) -> Any:
        return (self.snapshot.memory or {})[key.encode()]


@contextmanager
def at_rest(kafka: str, redis_url: str, logs: Path) -> Iterator[Verified]:
    settings = new_settings(kafka, redis_url, window_ms=WINDOW_MS)
    with running(settings, logs, "worker", "materialiser", partitions=PARTITIONS):
        events: list[Any] = interleaved([session(n) for n in range(20)], 1)
        events += [*said("known", "We use Redis."), *said("also", "Our database is Postgres.", "We use Kafka.", at=1)]
        events += said("later", "Our database is MySQL.", at=2)
        for part in (events[: len(events) // 2], events[len(events) // 2 :] + oddities()):
            publish(settings, part)
            wait_for_all(settings)
        publish(settings, [event("gap", 7)])
        await_stage(settings)
        yield Verified(settings, read(kafka, settings.topic_prefix, redis_url))


def oddities() -> list[Any]:
    """Late, doubled, of an id in use, astray, invalid."""
    seen = [event("late", n) for n in (0, 1, 2)]
    astray = (1 - home("astray"), event("astray", 0))
    late = event("late", 0, event_id="later")
    return [*seen, late, seen[1], {**seen[2], "content": {"other": 1.5}}, astray, b"no JSON", None]


def home(name: str) -> int:
    return partition_of(session_key("acme", name), PARTITIONS)


def publish(settings: Settings, items: list[Any]) -> None:
    """Each event where it belongs, unless a partition comes with it."""
    topic = settings.topic_prefix + EVENTS
    with closing(plain_producer(settings.kafka_bootstrap)) as producer:
        for item in items:
            number, value = item if isinstance(item, tuple) else (_partition(item), item)
            packed = orjson.dumps(value) if isinstance(value, dict) else value
            producer.produce(topic, packed, b"key", number, headers=[("mine", b"1")])
        assert producer.flush(30) == 0


def _partition(item: Any) -> int:
    return home(item["session_id"]) if isinstance(item, dict) else 0


def await_stage(settings: Settings) -> None:
    """Until the sessions stage has read all that there is."""
    with closing(Cluster(settings.kafka_bootstrap)) as cluster:
        ends = [cluster.watermarks(settings.topic_prefix + EVENTS, number).high for number in range(PARTITIONS)]

        def read_to_the_end() -> bool:
            stood = stored_positions(cluster, SESSIONS, settings.topic_prefix)
            return all(at is not None and at.position >= end for at, end in zip(stood, ends, strict=True))

        until(read_to_the_end)


def places(faults: list[Fault]) -> list[tuple[str, str]]:
    return [(fault.kind, fault.where) for fault in faults]


def altered(row: Row, change: Callable[[Any], Any]) -> Row:
    value = orjson.loads(row.value or b"")
    change(value)
    return row._replace(value=orjson.dumps(value))


def origin(row: Row) -> str:
    return f"{row.number('hmx-origin-partition')}:{row.number('hmx-origin-offset')}"


def stands(row: Row) -> str:
    return f"offset {row.offset} of {origin(row)}"


def a_dead_letter(verified: Verified) -> tuple[int, list[Row], int]:
    for number in range(PARTITIONS):
        rows = verified.rows(EVENTS_DLQ, number)
        for place, row in enumerate(rows):
            if row.header("hmx-reason") == b"not_json":
                return number, rows, place
    raise AssertionError("there is none")


def a_replaced_contribution(verified: Verified) -> tuple[int, list[Row], int]:
    """One that a later one replaces, so that no artifact rests on it any more."""
    number = verified.most(EVIDENCE)
    rows = verified.rows(EVIDENCE, number)
    said = [row.key for row in rows if row.header("hmx-kind") == b"contribution"]
    replaced = next(key for key in said if said.count(key) > 1)
    return number, rows, [row.key for row in rows].index(replaced)


def a_second_version(verified: Verified) -> tuple[int, list[Row], int]:
    """The first record of a second version, of a pattern whose newest is live."""
    for number in range(PARTITIONS):
        rows = verified.rows(ARTIFACTS, number)
        said = [orjson.loads(row.value or b"") for row in rows]
        newest = {artifact["metadata"]["pattern"]: artifact["status"] for artifact in said}
        for place, artifact in enumerate(said):
            if artifact["version"] == 2 and newest[artifact["metadata"]["pattern"]] in ("draft", "active"):
                return number, rows, place
    raise AssertionError("there is none")
