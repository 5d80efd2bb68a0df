"""An idle worker asks seldom, and no record waits longer because of it."""

import asyncio
import inspect
import time
from collections import Counter
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.consumer.fetcher import Fetcher
from faust.sensors import Monitor
from faust.types import TP
from mode.threads import ServiceThread

from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.topology import SESSIONS
from hmx_pipeline.worker import aiokafka_transport as transport
from hmx_pipeline.worker import runner as running
from hmx_pipeline.worker.partition import FetchedBatch, LogEnd, OwnedPartition
from hmx_pipeline.worker.runner import Runner

PARTITION = TP(SESSIONS.source, 0)


def fetcher(records: Any = (), paused: bool = False) -> Any:
    states = {0: SimpleNamespace(paused=False), 1: SimpleNamespace(paused=paused)}
    assignment = SimpleNamespace(tps=states.keys(), state_value=states.__getitem__)
    subscriptions = SimpleNamespace(subscription=SimpleNamespace(assignment=assignment))
    return SimpleNamespace(_records=records, _subscriptions=subscriptions)


def test_only_a_fetch_of_all_partitions_waits_long_at_the_broker() -> None:
    """A record of a partition that a fetch lacks waits for the next fetch."""
    assert transport._wait_ms(fetcher()) == transport.WHOLE_WAIT_MS > transport.FETCH_WAIT_MS
    assert transport._wait_ms(fetcher(records={0: "read, but not yet taken"})) == transport.FETCH_WAIT_MS
    assert transport._wait_ms(fetcher(paused=True)) == transport.FETCH_WAIT_MS


@pytest.mark.parametrize("name", ["_fetch_max_wait_ms", "_fetcher_timeout"])
def test_aiokafka_asks_for_each_fetch_how_long_it_may_wait(name: str) -> None:
    assert f"self.{name}" in inspect.getsource(Fetcher._get_actions_per_node)


def test_faust_still_has_what_an_idle_worker_leaves_out() -> None:
    assert {"_thread_keepalive", "_keepalive2"} <= vars(ServiceThread).keys()
    assert "_sampler" in vars(Monitor)


def test_a_worker_is_quiet_since_its_latest_record_or_restore() -> None:
    runner = Runner.__new__(Runner)
    now = time.monotonic()
    runner.last_progress, runner.partitions = now - 7, {}
    assert 7 <= runner.quiet_s() < 60
    made: Any = {
        1: SimpleNamespace(last_record=None, restored_at=now - 300),
        2: SimpleNamespace(last_record=now - 90, restored_at=now - 300),
    }
    runner.partitions = made
    assert 90 <= runner.quiet_s() < 150
    made[1].restored_at = now
    assert runner.quiet_s() < 60


class Told:
    """A consumer that remembers what the runner asks for."""

    def __init__(self) -> None:
        self.committed: list[int] = []
        self.sought: list[int] = []

    async def seek_and_resume(self, tp: TP, position: int, epoch: int) -> None:
        self.sought.append(position)

    async def commit_advisory(self, positions: Mapping[TP, int]) -> None:
        self.committed += positions.values()


async def without_ticks(_: Runner) -> None:
    await asyncio.Event().wait()


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("not reached")


def test_an_idle_worker_neither_commits_nor_looks_for_stalls_and_does_both_once_there_is_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: Counter[str] = Counter()

    class Seen(OwnedPartition):
        @property
        def fetched_more(self) -> bool:
            looks["stalls"] += 1
            return super().fetched_more

        def process(self, batch: FetchedBatch) -> Mapping[str, int]:
            self.position = batch.next
            return {}

    class Watched(Runner):
        async def _commit_advisory(self, *asked: Any) -> None:
            looks["commits"] += 1
            await super()._commit_advisory(*asked)

    async def drive() -> None:
        runner, consumer = Watched(lambda _: partition, without_ticks, stall_s=0.005), Told()
        partition = Seen(PARTITION, SESSIONS, PatternsFold, None)  # type: ignore[arg-type]
        partition.ready, partition.position = True, 5
        runner.partitions[PARTITION] = partition
        runner.start(consumer)
        runner.at_end({PARTITION: LogEnd(5, 9)})
        idle = Counter(looks)
        await asyncio.sleep(0.05)
        assert (looks, looks["commits"]) == (idle, 0)

        partition.last_record = time.monotonic() - 60
        runner.at_end({PARTITION: LogEnd(9, 9)})  # fetched, and lost on the way
        await until(lambda: len(consumer.sought) > 1)
        assert set(consumer.sought) == {5}
        partition.queued, record = 1, SimpleNamespace(timestamp=0)
        await runner._take(consumer, partition, FetchedBatch(PARTITION, partition.epoch, 5, 9, [record], 0))
        await until(lambda: consumer.committed == [9])

        await asyncio.sleep(0.05)
        idle = Counter(looks)
        await asyncio.sleep(0.05)
        assert looks == idle
        await runner.stop()

    monkeypatch.setattr(running, "ADVISORY_S", 0.001)
    asyncio.run(drive())
