"""Both stages in process, without Kafka: the folds as the worker makes them, on records of a log."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from pipeline.contracts.headers import AUTHENTICATION
from pipeline.contracts.keys import partition_of, session_key
from pipeline.intake.control import barrier, signature, tick
from pipeline.stages.executor import Executor
from pipeline.stages.fold import Fold, Output
from pipeline.stages.patterns import PatternsFold
from pipeline.stages.sessions import SessionsFold
from pipeline.topology import ARTIFACTS, EPISODES, EVENTS_DLQ, EVIDENCE
from tests.support.records import START_MS, LogRecord

KEY = "control-key"


def sessions_fold(
    partitions: int = 1, evidence_partitions: int = 1, window_ms: int = 5_000, strict: bool = False
) -> SessionsFold:
    return SessionsFold(
        partitions=partitions,
        evidence_partitions=evidence_partitions,
        control_key=KEY,
        window_ms=window_ms,
        strict=strict,
    )


def signed(value: bytes, partition: int, offset: int, at: int) -> LogRecord:
    """A control record of our own; `at` in milliseconds after START_MS."""
    return LogRecord(partition, offset, START_MS + at, b"control", value, [(AUTHENTICATION, signature(KEY, value))])


def tick_record(at: int, partition: int = 0, offset: int = 0) -> LogRecord:
    return signed(tick(partition, START_MS + at), partition, offset, at)


def barrier_record(at: int, partition: int = 0, offset: int = 0, barrier_id: str = "b") -> LogRecord:
    return signed(barrier(barrier_id, partition, START_MS + at), partition, offset, at)


@dataclass
class Ran:
    """What came out of one partition."""

    outputs: list[Output] = field(default_factory=list)
    appends: list[Output] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)

    def on(self, topic: str) -> list[Output]:
        return [output for output in self.outputs if output.topic == topic]

    @property
    def episodes(self) -> list[dict[str, Any]]:
        return [orjson.loads(output.value or b"") for output in self.on(EPISODES)]

    @property
    def released(self) -> list[str]:
        """Event ids in the order of their release; late ones marked."""
        return [e["id"] + ("!" if e["metadata"]["hmx"]["release"]["late"] else "") for e in self.episodes]

    @property
    def dead(self) -> list[Output]:
        return self.on(EVENTS_DLQ)

    @property
    def contributions(self) -> list[dict[str, Any]]:
        values = [orjson.loads(output.value or b"") for output in self.on(EVIDENCE)]
        return [value for value in values if "contribution_id" in value]


Cut = Callable[[int], int]
"""Given how many records are left, how many go into the next batch."""


def run(
    new_fold: Callable[[], Fold], records: Sequence[LogRecord], cut: Cut | None = None, restores: bool = False
) -> Ran:
    """Folds a partition's records in batches; with `restores`, every batch on state restored from its topic."""
    ran, rest = Ran(), list(records)
    partition = rest[0].partition if rest else 0
    executor = Executor(new_fold(), partition)
    state_topic: list[tuple[str, bytes | None]] = []
    while rest:
        n = cut(len(rest)) if cut is not None else len(rest)
        batch, rest = rest[:n], rest[n:]
        effects = executor.run(batch)
        ran.outputs += effects.outputs
        ran.appends += effects.appends
        state_topic += [*effects.changes.items(), ("!", executor.position_record(batch[-1].offset + 1, "id", ()))]
        if restores:
            executor = Executor(new_fold(), partition)
            executor.restore(state_topic)
    ran.counts, ran.state = dict(executor.counts), dict(executor.state)
    return ran


def events_log(events: Iterable[dict[str, Any]], partitions: int = 4, pace_ms: int = 1) -> dict[int, list[LogRecord]]:
    """Events in this order → the partitions' records, with a barrier at the end of each."""
    log: dict[int, list[LogRecord]] = defaultdict(list)
    at = 0
    for item in events:
        key = session_key(item["tenant_id"], item["session_id"])
        partition = partition_of(key, partitions)
        record = LogRecord(partition, len(log[partition]), START_MS + at, key.encode(), orjson.dumps(item))
        log[partition].append(record)
        at += pace_ms
    for partition in range(partitions):
        log[partition].append(barrier_record(at, partition, len(log[partition])))
        log[partition].append(tick_record(at + 6_000, partition, len(log[partition])))
    return log


def artifacts_of(events: Iterable[dict[str, Any]], partitions: int = 4) -> list[dict[str, Any]]:
    """Every artifact record that both stages publish for these events, in order."""
    evidence: dict[int, list[LogRecord]] = defaultdict(list)
    for records in events_log(events, partitions).values():
        ran = run(lambda: sessions_fold(partitions, partitions), records)
        for output in ran.on(EVIDENCE):
            offset = len(evidence[output.partition])
            evidence[output.partition].append(
                LogRecord(output.partition, offset, START_MS + offset, output.key, output.value, output.headers)
            )
    published = []
    for _, records in sorted(evidence.items()):
        published += [orjson.loads(o.value or b"") for o in run(PatternsFold, records).on(ARTIFACTS)]
    return published


def law_five(artifacts: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What any interleaving of the same sessions leaves alike: of every active artifact, what it says and rests on."""
    latest = {artifact["artifact_id"]: artifact for artifact in artifacts}
    return sorted(
        (
            a["tenant_id"], a["artifact_type"], a["title"], a["content_hash"], a["confidence"], a["observed_count"],
            a.get("success_rate"), tuple(sorted(a["source_events"])), tuple(sorted(a["source_memory_ids"])),
        )
        for a in latest.values()
        if a["status"] == "active"
    )  # fmt: skip
