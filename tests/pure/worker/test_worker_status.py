"""Health of a worker: live while it moves on or has nothing to do, ready once restored and fresh; why not is named."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from faust.types import TP

from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.runtime.transaction import SetAsideError
from hmx_pipeline.stages.executor import Executor
from hmx_pipeline.stages.fold import Backlog
from hmx_pipeline.topology import EVENTS, SESSIONS
from hmx_pipeline.worker import worker_status
from hmx_pipeline.worker.partition import FetchedBatch, LogEnd, OwnedPartition
from hmx_pipeline.worker.worker_status import STUCK_S, WorkerHealth
from tests.support.inprocess import sessions_fold
from tests.support.records import event, log

NOW_MS = 1_760_000_000_000


class Clock:
    """Stands in for the module `time`: it moves when it is told to."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def monotonic(self) -> float:
        return self.seconds

    def time(self) -> float:
        return NOW_MS / 1000 + self.seconds - 1_000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(worker_status, "time", made)
    return made


def partition(number: int = 0, *, ready: bool = True, position: int = 0, high: int = 0) -> OwnedPartition:
    made = OwnedPartition(TP(EVENTS, number), SESSIONS, sessions_fold, None)  # type: ignore[arg-type]
    made.ready, made.position, made.end = ready, position, LogEnd(high, high)
    return made


def health(clock: Clock, *partitions: OwnedPartition, most_s: float = 60) -> WorkerHealth:
    made = WorkerHealth(most_s, lambda: None)
    made.runner = SimpleNamespace(  # type: ignore[assignment]
        partitions={each.tp: each for each in partitions}, was_assigned=True, last_progress=clock.seconds
    )
    made.watch.look(partitions)
    return made


def pass_time(clock: Clock, seconds: float, of: WorkerHealth, *, looking: bool = True) -> None:
    """The loop turns on."""
    clock.seconds += seconds
    of.runner.last_progress = clock.seconds  # type: ignore[union-attr]
    if looking:
        of.watch.look(of.runner.partitions.values())  # type: ignore[union-attr]


def queue(to: OwnedPartition, appended_ms: int) -> None:
    record: Any = SimpleNamespace(timestamp=appended_ms)
    to.queue.append(FetchedBatch(to.tp, 0, to.position, to.position + 1, [record], 1))
    to.queued += 1


def test_a_worker_that_waits_for_kafka_is_live_and_not_ready(clock: Clock) -> None:
    waiting = WorkerHealth(60, lambda: "Kafka does not answer: of test")
    assert waiting.live()[0]
    assert waiting.ready() == (False, "Kafka does not answer: of test")
    assert waiting.started() == (False, "waiting for Kafka and its topics: the log says why")


def test_a_worker_whose_kafka_goes_away_is_live_and_not_ready_until_it_is_back(clock: Clock) -> None:
    """Of the end of its log it knows the last, so no lag would tell."""
    silent = ["Kafka does not answer: of test"]
    of = health(clock, partition(position=7, high=7))
    of._silent = lambda: silent[0] if silent else None
    assert of.live()[0]
    assert of.started()[0]
    assert of.ready() == (False, "Kafka does not answer: of test")
    silent.clear()
    assert of.ready()[0]


def test_an_idle_worker_is_live_and_ready_for_ever(clock: Clock) -> None:
    idle = health(clock, partition(position=7, high=7))
    pass_time(clock, 10 * STUCK_S, idle)
    assert idle.live()[0]
    assert idle.ready() == (True, "1 partitions owned and restored\nnothing is behind")


def test_a_loop_that_no_longer_turns_is_not_live(clock: Clock) -> None:
    stuck = health(clock, partition())
    clock.seconds += STUCK_S + 1
    live, why = stuck.live()
    assert not live
    assert "61 s" in why


def test_a_restoring_partition_is_live_however_long_it_takes_and_not_ready(clock: Clock) -> None:
    restoring = health(clock, partition(0), partition(3, ready=False, high=1_000))
    pass_time(clock, 10 * STUCK_S, restoring)
    assert restoring.live()[0]
    assert restoring.ready() == restoring.started() == (False, f"{EVENTS}/3: restoring")


def test_a_partition_that_is_set_aside_is_named_with_the_command_that_mends_it_and_the_worker_lives(
    clock: Clock,
) -> None:
    aside = partition(3, ready=False)
    aside.set_aside = SetAsideError("type `hmx state rebuild 3 --stage sessions`", 9)
    of = health(clock, partition(), aside)
    pass_time(clock, 10 * STUCK_S, of)
    assert of.live()[0]
    assert of.started()[0]
    assert of.ready() == (False, f"{EVENTS}/3: type `hmx state rebuild 3 --stage sessions`")
    of.refresh()
    gauges = {key: gauge._value.get() for key, gauge in METRICS.set_aside._metrics.items()}
    assert gauges == {("sessions", "0"): 0.0, ("sessions", "3"): 1.0}


def test_a_partition_that_has_work_and_does_not_move_on_is_not_live(clock: Clock) -> None:
    stuck, fine = partition(3, position=5, high=9), partition(4, position=5, high=9)
    queue(stuck, NOW_MS)
    queue(fine, NOW_MS)
    of = health(clock, stuck, fine)
    pass_time(clock, STUCK_S / 2, of)
    fine.position += 1
    pass_time(clock, STUCK_S / 2 + 1, of)
    live, why = of.live()
    assert not live
    assert why == f"{EVENTS}/3: no progress for 61 s at offset 5"
    stuck.position += 1
    pass_time(clock, 1, of)
    assert of.live()[0]


def test_a_transaction_under_way_is_work_too(clock: Clock) -> None:
    busy = partition(position=5, high=6)
    busy.busy = cast("asyncio.Future[Any]", object())
    of = health(clock, busy)
    pass_time(clock, STUCK_S + 1, of)
    assert not of.live()[0]


def test_a_worker_far_behind_is_live_and_started_but_not_ready(clock: Clock) -> None:
    late = partition(3, position=5, high=500)
    queue(late, NOW_MS - 90_000)
    of = health(clock, partition(), late)
    assert of.live()[0]
    assert of.started()[0]
    ready, why = of.ready()
    assert not ready
    assert f"{EVENTS}/3: 90.0 s behind, 495 records, at offset 5" in why
    assert health(clock, late, most_s=100).ready()[0]


def test_what_arrives_after_a_silence_is_not_as_old_as_the_silence(clock: Clock) -> None:
    quiet = partition(position=7, high=7)
    quiet.executor._tx.clock = NOW_MS - 3_600_000
    of = health(clock, quiet)
    pass_time(clock, 5, of, looking=False)
    quiet.end = LogEnd(7, 9)
    assert of.watch.behind(quiet).seconds == 5
    assert of.ready()[0]


def test_after_a_restore_a_record_is_as_old_as_the_log_says_at_most(clock: Clock) -> None:
    """A worker that was stopped for long still believes, for a moment, to be at the end that it saw last."""
    stopped = partition(position=7, high=7)
    stopped.executor._tx.clock = NOW_MS
    of = health(clock, stopped)
    pass_time(clock, 90, of)
    restored = partition(position=7)
    restored.end, restored.epoch, restored.executor._tx.clock = None, 2, NOW_MS
    of.runner.partitions = {restored.tp: restored}  # type: ignore[union-attr]
    of.watch.look([restored])
    assert of.ready() == (False, f"{EVENTS}/0: the end of its log is not known yet")
    restored.end = LogEnd(7, 9)
    of.watch.look([restored])
    assert of.watch.behind(restored).seconds == 90
    assert not of.ready()[0]


def test_markers_at_the_end_are_nothing_to_wait_for(clock: Clock) -> None:
    marked = partition(position=7, high=9)
    assert health(clock, marked).watch.behind(marked).records == 0


def test_a_partition_that_was_given_up_is_forgotten(clock: Clock) -> None:
    stuck = partition(position=5, high=9)
    queue(stuck, NOW_MS)
    of = health(clock, stuck)
    pass_time(clock, STUCK_S, of)
    of.watch.look([])
    of.watch.look([stuck])
    pass_time(clock, 1, of)
    assert of.live()[0]


def test_what_waits_is_counted_in_the_state() -> None:
    executor = Executor(sessions_fold(), 0)
    executor.run(log([(n, event(sequence=sequence)) for n, sequence in enumerate((0, 2, 3))]))
    assert executor.fold.backlog == Backlog(waiting=2, sessions=1)
    assert executor.records >= 4
