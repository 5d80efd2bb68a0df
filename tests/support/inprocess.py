"""Both stages in process, without Kafka: the folds as the worker makes them, on records of a log."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Any

import orjson

from hmx_pipeline.contracts.headers import AUTHENTICATION
from hmx_pipeline.contracts.keys import partition_of, session_key
from hmx_pipeline.intake.control_records import barrier, signature, tick
from hmx_pipeline.stages.append_log import AppendLog
from hmx_pipeline.stages.executor import Executor
from hmx_pipeline.stages.fold import POSITION_KEY, Fold, Output, Record
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.stages.sessions import SessionsFold
from hmx_pipeline.topology import ARTIFACTS, EPISODES, EVENTS_DLQ, EVIDENCE
from tests.support.records import START_MS, LogRecord
from tests.support.sessions import interleaved

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
    journals: dict[str, AppendLog] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    """Keys of the state topic that a compaction leaves, but for the position."""

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
        effects = executor.run([Record(r.partition, r.offset, r.timestamp, r.key, r.value, r.headers) for r in batch])
        ran.outputs += effects.outputs
        ran.appends += effects.appends
        state_topic += [*effects.changes.items(), ("!", executor.position_record(batch[-1].offset + 1, "id", ()))]
        if restores:
            executor = Executor(new_fold(), partition)
            executor.restore(state_topic)
    ran.counts, ran.state, ran.journals = dict(executor.counts), dict(executor.state), dict(executor.journals)
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


def evidence_logs(
    logs: Iterable[Sequence[LogRecord]], partitions: int = 4, dice: random.Random | None = None, pace_ms: int = 1
) -> dict[int, list[LogRecord]]:
    """What the events partitions contribute, by evidence partition: one after the other, or mixed by `dice`."""
    made = [run(lambda: sessions_fold(partitions, partitions), log).on(EVIDENCE) for log in logs]
    evidence: dict[int, list[LogRecord]] = defaultdict(list)
    for output in interleaved(made, dice) if dice is not None else chain(*made):
        offset = len(evidence[output.partition])
        evidence[output.partition].append(
            LogRecord(output.partition, offset, START_MS + offset * pace_ms, output.key, output.value, output.headers)
        )
    return evidence


def artifacts_of(events: Iterable[dict[str, Any]], partitions: int = 4) -> list[dict[str, Any]]:
    """Every artifact record that both stages publish for these events, in order."""
    return published(evidence_logs(events_log(events, partitions).values(), partitions))


def published(evidence: Mapping[int, Sequence[LogRecord]]) -> list[dict[str, Any]]:
    """Every artifact record that the patterns stage publishes, in order, partition after partition."""
    outputs = (run(PatternsFold, records).on(ARTIFACTS) for _, records in sorted(evidence.items()))
    return [orjson.loads(output.value or b"") for output in chain.from_iterable(outputs)]


def learnt(events: Iterable[dict[str, Any]]) -> dict[tuple[str, str], tuple[Any, ...]]:
    """What is live after these events: type and content → status, confidence and how often it was seen."""
    last = {artifact["artifact_id"]: artifact for artifact in artifacts_of(events)}
    return {
        (a["artifact_type"], a["content_hash"]): (a["status"], a["confidence"], a["observed_count"])
        for a in last.values()
        if a["status"] in ("active", "draft")
    }


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


class Crash(StrEnum):
    """What becomes of the worker with a batch."""

    NONE = "goes on"
    AFTER = "dies after the first commit"
    BEFORE = "dies before the commit"


Fate = tuple[int, Crash]
"""How many records the next batch has, and what becomes of the worker with it."""


def run_through(new_fold: Callable[[], Fold], records: Sequence[LogRecord], fates: Iterable[Fate]) -> Ran:
    """Folds a partition's records as a worker does that dies on the way: what was not committed has not happened, and
    whoever comes next has what the state topic holds, compacted or not. What is left after the last fate is one batch.
    """
    ran, done = Ran(), 0
    partition = records[0].partition if records else 0
    executor = Executor(new_fold(), partition)
    state_topic: list[tuple[str, bytes | None]] = []
    for n, crash in [*fates, (len(records), Crash.NONE)]:
        batch = records[done : done + n]
        end = records[done + len(batch) - 1].offset + 1 if done + len(batch) else 0
        for effects, folded, _ in executor.parts(batch):
            if crash is Crash.BEFORE:
                break
            ran.outputs += effects.outputs
            ran.appends += effects.appends
            following = batch[folded].offset if folded < len(batch) else end
            state_topic += [*effects.changes.items(), (POSITION_KEY, executor.position_record(following, "id", ()))]
            if crash is Crash.AFTER:
                break
        else:
            folded = len(batch)
        done += folded if crash is not Crash.BEFORE else 0
        if crash is not Crash.NONE:
            if crash is Crash.AFTER:
                state_topic = list(compacted(state_topic))
            executor = Executor(new_fold(), partition)
            executor.restore(state_topic)
    ran.counts, ran.state, ran.journals = dict(executor.counts), dict(executor.state), dict(executor.journals)
    ran.kept = {key for key, _ in compacted(state_topic)} - {POSITION_KEY}
    return ran


def compacted(state_topic: Iterable[tuple[str, bytes | None]]) -> Iterator[tuple[str, bytes | None]]:
    """The last record of every key, where it stood; tombstones are gone too."""
    records = list(state_topic)
    last = {key: at for at, (key, _) in enumerate(records)}
    return ((key, value) for at, (key, value) in enumerate(records) if last[key] == at and value is not None)
