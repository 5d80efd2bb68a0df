"""Two worker processes against one, both stages, on a log that was written before either started.

Timed from the word to begin until a barrier at the log's end has passed both stages. What workers and broker have of
the cores' time is counted too: on two cores two processes may be held up by nothing but the broker beside them.
"""

import os
import time
from statistics import median
from typing import NamedTuple

from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.kafka.clients import Cluster
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.local.ports import free_ports
from hmx_pipeline.runtime.barriers import wait_for_stages
from hmx_pipeline.runtime.stored_positions import stored_positions
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EPISODES, PATTERNS, SESSIONS
from tests.bench import workload
from tests.bench.kit import PATIENCE_S, Bench, Worker, committed
from tests.bench.report import Bar, Line

BUSY, CPU = 0.95, 1.15


class Run(NamedTuple):
    rate: float
    """Events a second."""
    cpu: float
    """CPU microseconds an event, of all worker processes."""
    busy: float
    """Share of all cores' time that the workers and the broker had."""


def processes(bench: Bench) -> list[Line]:
    one: list[Run] = []
    two: list[Run] = []
    for _ in bench.rounds():
        one.append(_run(bench, 1))
        two.append(_run(bench, 2))
    base = "one process"
    cpu = Line("two processes", "CPU µs/event", [r.cpu for r in two], base, [r.cpu for r in one])
    busy = Line("two processes, cores", "share busy", [r.busy for r in two], base, [r.busy for r in one])
    full = median(busy.values) >= BUSY and median(cpu.ratios) <= CPU
    instead = f"the cores are ≥ {BUSY:.0%} busy with it, at ≤ {CPU} × the CPU per event" if full else ""
    rate = [r.rate for r in two], base, [r.rate for r in one]
    return [Line("two processes", "events/s", *rate, Bar("≥", 1.6), instead), cpu, busy]


def _run(bench: Bench, count: int) -> Run:
    lines = workload.compact(bench.events)
    with bench.topics() as settings:
        publish(lines, settings)
        workers = [_worker(bench, settings, number) for number in range(count)]
        try:
            for worker in workers:
                worker.await_ready()
            if count > 1:
                time.sleep(3)  # the second one's assignment took everything from the first: it is restored again
                for worker in workers:
                    worker.await_ready()
            started, broker = time.monotonic(), bench.server_cpu("kafka")
            for worker in workers:
                worker.go()
            wait_for_stages(settings, PATIENCE_S)
            served, seconds = bench.server_cpu("kafka") - broker, time.monotonic() - started
            notes = [worker.notes() for worker in workers]
        finally:
            for worker in workers:
                worker.stop()
        _check(settings, len(lines))
    assert sum(n.records(SESSIONS.name) for n in notes) >= len(lines)
    assert all(n.records(SESSIONS.name) and n.records(PATTERNS.name) for n in notes), "a process had nothing to do"
    cpu = sum(n.cpu for n in notes)
    until = max(n.until for n in notes) - min(n.started for n in notes)
    busy = (cpu + served) / (seconds * (os.cpu_count() or 1))
    return Run(len(lines) / until, cpu / len(lines) * 1e6, busy)


def _worker(bench: Bench, settings: Settings, number: int) -> Worker:
    (port,) = free_ports(1)
    return Worker(bench, settings, f"both-{number}", SESSIONS.name, PATTERNS.name, worker_port=port)


def _check(settings: Settings, count: int) -> None:
    cluster = Cluster(settings.kafka_bootstrap)
    positions = stored_positions(cluster, SESSIONS, settings.topic_prefix)
    cluster.close()
    released = sum(position.counts.get(Outcome.RELEASED, 0) for position in positions if position is not None)
    written = committed(settings, EPISODES)
    assert (released, written) == (count, count), f"{released} released, {written} episodes, {count} expected"
