"""The sessions stage, exactly once in one process, against an empty Faust agent on the same topic.

The log is written before either starts. Both are timed from the first to the last of its records: the worker, from
the moment it may read, with all that a worker does but the patterns stage; the agent from its first record.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.kafka.clients import Cluster
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.runtime.stored_positions import stored_positions
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EPISODES, EVENTS, EVENTS_DLQ, SESSIONS
from tests.bench import workload
from tests.bench.kit import Bench, Worker, committed
from tests.bench.report import Bar, Line

EMPTY = "empty agent"


class Cost(NamedTuple):
    rate: float
    """Records a second."""
    cpu: float
    """CPU microseconds a record, of the whole process."""
    threads: Mapping[str, float] = MappingProxyType({})
    """The same by kind of thread."""


def sessions(bench: Bench) -> list[Line]:
    ours, empty = _rounds(bench, workload.compact(bench.events), Outcome.RELEASED)
    return [
        Line("sessions", "events/s", [c.rate for c in ours], EMPTY, [c.rate for c in empty]),
        _cpu("sessions", ours, empty, 0.75),
        *_by_thread(ours),
    ]


def spaces(bench: Bench) -> list[Line]:
    ours, empty = _rounds(bench, workload.spaced(bench.events // 2), Outcome.RELEASED)
    return [_cpu("sessions, JSON with spaces", ours, empty, 0.5)]


def invalid(bench: Bench) -> list[Line]:
    ours, empty = _rounds(bench, workload.invalid(bench.events // 2), Outcome.REJECTED)
    return [_cpu("sessions, invalid events", ours, empty, 1.5)]


def _cpu(name: str, ours: Sequence[Cost], empty: Sequence[Cost], limit: float) -> Line:
    return Line(name, "CPU µs/event", [c.cpu for c in ours], EMPTY, [c.cpu for c in empty], Bar("≤", limit))


def _by_thread(ours: Sequence[Cost]) -> list[Line]:
    """`folds` are the threads that fold and hand over to the client; the consumer's parses what was fetched."""
    whole = [c.cpu for c in ours]
    return [
        Line(f"  of it {kind}", "CPU µs/event", [c.threads.get(kind, 0.0) for c in ours], "all of it", whole)
        for kind in ("folds", "consumer", "event loop", "librdkafka")
    ]


def _rounds(bench: Bench, lines: Sequence[bytes], outcome: Outcome) -> tuple[list[Cost], list[Cost]]:
    ours, empty = in_turns(bench, lines, outcome, {EMPTY: _empty_agent})
    return ours, empty[EMPTY]


Baseline = Callable[[Bench, Settings, int], Cost]
"""Reads so many records of the events topic of these settings."""


def in_turns(
    bench: Bench, lines: Sequence[bytes], outcome: Outcome, baselines: Mapping[str, Baseline]
) -> tuple[list[Cost], dict[str, list[Cost]]]:
    """What the sessions stage costs in each round, and what each baseline does on the same topic."""
    ours: list[Cost] = []
    theirs: dict[str, list[Cost]] = {name: [] for name in baselines}
    for _ in bench.rounds():
        with bench.topics() as settings:
            publish(lines, settings)
            for name, baseline in baselines.items():
                theirs[name].append(baseline(bench, settings, len(lines)))
            ours.append(_sessions_stage(bench, settings, len(lines)))
            _check(settings, len(lines), outcome)
    return ours, theirs


def _empty_agent(bench: Bench, settings: Settings, count: int) -> Cost:
    spent = bench.child("empty_agent", settings.kafka_bootstrap, settings.topic_prefix + EVENTS, count)
    return Cost(count / spent["seconds"], spent["cpu"] / count * 1e6)


def _sessions_stage(bench: Bench, settings: Settings, count: int) -> Cost:
    worker = Worker(bench, settings, "sessions", SESSIONS.name)
    try:
        worker.await_ready()
        before = worker.threads()
        worker.go()
        notes = worker.await_records(SESSIONS.name, count)
        threads = worker.threads()
    finally:
        worker.stop()
    by_kind: Counter[str] = Counter()
    for thread, (kind, spent) in threads.items():
        by_kind[kind] += (spent - before.get(thread, ("", 0.0))[1]) / count * 1e6
    return Cost(count / (notes.until - notes.started), notes.cpu / count * 1e6, by_kind)


def _check(settings: Settings, count: int, outcome: Outcome) -> None:
    """Every record has the outcome expected, and what came of it is there, once."""
    cluster = Cluster(settings.kafka_bootstrap)
    positions = stored_positions(cluster, SESSIONS, settings.topic_prefix)
    cluster.close()
    outcomes = sum(position.counts.get(outcome, 0) for position in positions if position is not None)
    written = committed(settings, EPISODES if outcome is Outcome.RELEASED else EVENTS_DLQ)
    assert (outcomes, written) == (count, count), f"{outcome}: {outcomes} counted, {written} written, {count} expected"
