"""How fast what is lost with a process comes back: a partition's state from its topic, memory from the outputs."""

import time
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.kafka.topic_files import connect
from hmx_pipeline.local.ports import free_ports
from hmx_pipeline.runtime.barriers import output_ends, wait_for_stages
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.fetch import Store
from hmx_pipeline.store.memory_server import MemoryServer
from hmx_pipeline.topology import MATERIALISED, PATTERNS, SESSION_STATE, SESSIONS
from tests.bench import workload
from tests.bench.kit import PATIENCE_S, Bench, Worker, bare_read, cpu_seconds
from tests.bench.report import Bar, Line
from tests.support.memory import Memory
from tests.support.pipeline import Pipeline

LOOK_S = 0.02
SLOWEST = 50
"""Events a second, mined and compiled, at which a worker still goes on, by one interpreter beside other load."""


def restore(bench: Bench) -> list[Line]:
    """A partition of many sessions whose state topic has three times as many records."""
    ours: list[float] = []
    bare: list[float] = []
    with bench.topics() as settings:
        _never_compact(settings)
        written = bench.child("restore", "write", bench.many, settings=settings)
        for _ in bench.rounds():
            read = bench.child("restore", "read", settings=settings)
            assert read["state"] == written["state"], f"{read['state']} of {written['state']} records restored"
            ours.append(read["restore"])
            bare.append(read["bare"])
    notes = {"records": written["records"]}
    return [
        Line(f"restore, {bench.many:,} sessions", "s", ours, "bare read", bare, Bar("≤", 3, ratio=False), notes=notes)
    ]


def _never_compact(settings: Settings) -> None:
    entry = ConfigEntry("min.compaction.lag.ms", "86400000", incremental_operation=AlterConfigOpType.SET)
    topic = ConfigResource(ResourceType.TOPIC, settings.topic_prefix + SESSION_STATE, incremental_configs=[entry])
    admin = connect(settings.kafka_bootstrap)
    for done in admin.incremental_alter_configs([topic]).values():
        done.result()


def rebuild(bench: Bench) -> list[Line]:
    """An emptied Redis: from the first record in it until it stands at the outputs' ends.

    Two servers with a materialiser each have no cores of their own here, so one is filled after the other, and the
    slower one's rate is that of both.
    """
    ours: list[Filled] = []
    shared: list[Filled] = []
    servers: list[Filled] = []
    bare: list[float] = []
    with bench.topics() as settings:
        publish(workload.compact(bench.events), settings)
        worker = Worker(bench, settings, "rebuild", SESSIONS.name, PATTERNS.name)
        try:
            worker.await_ready()
            worker.go()
            wait_for_stages(settings, max(PATIENCE_S, bench.events / SLOWEST), lambda _: worker.check(inf))
        finally:
            worker.stop()
        memory = Memory(settings.redis_url, settings.topic_prefix)
        several = replace(settings, redis_url=f"{settings.redis_url} {settings.redis_url.removesuffix('/0')}/1")
        both = [memory, Memory(several.redis_url.split()[1], settings.topic_prefix)]
        _fill(bench, settings, memory.store, 1, 1)
        filled = _size(memory)
        for _ in bench.rounds():
            records, seconds = bare_read(settings, *MATERIALISED)
            bare.append(records / seconds)
            for processes, rounds in ((1, ours), (2, shared)):
                memory.wipe()
                rounds.append(_fill(bench, settings, memory.store, records, processes))
                assert _size(memory) == filled, "not all of it came back"
            memory.wipe()
            store = Store.open(several)
            found = [
                _fill(bench, replace(several, redis_server=number), each, records, 1)
                for number, each in enumerate(store.servers)
            ]
            assert all(server.completeness().complete for server in store.servers)
            for each in both:
                each.wipe()
            servers.append(min(found))
    rates = [filled.rate for filled in ours]
    return [
        Line("rebuild of an emptied Redis", "records/s", rates, "bare read", bare, Bar("≥", 22_000, ratio=False)),
        Line("  materialiser", "CPU µs/record", [filled.cpu for filled in ours]),
        Line("  Redis", "CPU µs/record", [filled.redis for filled in ours]),
        Line("  by two at once", "records/s", [filled.rate for filled in shared]),
        Line("  materialisers, by two at once", "CPU µs/record", [filled.cpu for filled in shared]),
        Line("  by two servers", "records/s", [each.rate for each in servers], "one server", rates, Bar("≥", 1.7)),
    ]


class Filled(NamedTuple):
    rate: float
    """Records a second."""
    cpu: float
    """CPU microseconds a record, of the materialisers."""
    redis: float


def _fill(bench: Bench, settings: Settings, filled: Store | MemoryServer, records: int, processes: int) -> Filled:
    """By so many materialisers that begin with nothing."""
    ends = output_ends(settings)
    pipeline = Pipeline(settings, bench.folder)
    ports = free_ports(processes)
    started_as = [
        pipeline.start(f"materialiser-{n}", ready=False, materialiser_port=port) for n, port in enumerate(ports)
    ]
    stats = [Path(f"/proc/{process.pid}/stat") for process in started_as]
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not (first := filled.positions()):
            assert time.monotonic() < deadline, pipeline.log("materialiser-0")
            time.sleep(LOOK_S)
        started, ahead = time.monotonic(), sum(first.values())
        cpu, redis = sum(map(cpu_seconds, stats)), bench.server_cpu("redis")
        while any(filled.positions().get(where, 0) < end for where, end in ends.items()):
            assert time.monotonic() < deadline, pipeline.log("materialiser-0")
            time.sleep(LOOK_S)
        written = records * (1 - ahead / sum(ends.values()))
        assert written, "all was in memory before the first look: measure more events"
        seconds = time.monotonic() - started
        cpu, redis = sum(map(cpu_seconds, stats)) - cpu, bench.server_cpu("redis") - redis
        return Filled(written / seconds, cpu / written * 1e6, redis / written * 1e6)
    finally:
        pipeline.stop_all()


def _size(memory: Memory) -> int:
    return sum(1 for _ in memory.client.scan_iter(match=f"{memory.keys.prefix}hmx:*", count=10_000))
