"""An idle worker asks seldom, and no record waits longer because of it."""

import inspect
import time
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.consumer.fetcher import Fetcher

from hmx_pipeline.worker import aiokafka_transport as transport
from hmx_pipeline.worker.runner import Runner


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
