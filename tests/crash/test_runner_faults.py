"""The runner between a log and transactions that both misbehave: batches lost on the way, aborts, revocations,
brokers that do not answer while the state is restored.

No Kafka here: the log is a list, a transaction is kept or not. What is held is that every record is folded exactly once
and in order, whatever goes wrong in between, which rests on the first-position check and on seeking after an abort.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence

import pytest
from faust.types import TP
from hypothesis import given, settings
from hypothesis import strategies as st

from hmx_pipeline.kafka.topic_files import KafkaUnreachableError
from hmx_pipeline.runtime.transaction import AbortedError, RestoredState, SetAsideError
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.topology import SESSIONS
from hmx_pipeline.worker.partition import FetchedBatch, LogEnd, OwnedPartition
from hmx_pipeline.worker.runner import Runner

PARTITION = TP(SESSIONS.source, 0)


class Row(int):
    """A record that is nothing but its offset."""

    timestamp = 0


class Store:
    """What the transactions have committed; outlives the workers."""

    def __init__(self) -> None:
        self.folded: list[int] = []
        self.position = 0


class FakePartition(OwnedPartition):
    """Folds a batch by remembering its offsets; aborts when the dice say so, after the effects, like a real one."""

    def __init__(self, store: Store, dice: random.Random) -> None:
        self._store, self._dice = store, dice
        super().__init__(PARTITION, SESSIONS, PatternsFold, None)  # type: ignore[arg-type]

    def fence(self) -> None:
        pass

    def restore(self) -> RestoredState:
        if self._dice.random() < 0.2:
            raise KafkaUnreachableError("no controller yet")
        self.position = self._store.position
        return RestoredState(self.position, 0, 0)

    def process(self, batch: FetchedBatch) -> Mapping[str, int]:
        if self._dice.random() < 0.15:
            raise AbortedError("the broker said no")
        self._store.folded += batch.records
        self._store.position = self.position = batch.next
        return {}

    def close(self) -> None:
        pass


class FakeConsumer:
    """Fetches from the log after the last seek, ahead of what is processed, and loses batches on the way."""

    def __init__(self, runner: Runner, log: Sequence[int], end: int, dice: random.Random) -> None:
        self.runner, self._log, self._end, self._dice = runner, log, end, dice
        self._position: int | None = None
        self._epoch = 0

    async def seek_and_resume(self, tp: TP, position: int, epoch: int) -> None:
        self._position, self._epoch = position, epoch

    async def commit_advisory(self, positions: Mapping[TP, int]) -> None:
        pass

    async def run(self) -> None:
        while True:
            self.fetch()
            if self._position is not None:
                self.runner.at_end({PARTITION: LogEnd(self._position, self._end)})
            await asyncio.sleep(0.0005)

    def fetch(self) -> None:
        """One batch, if the runner is hungry. Offsets have holes, so positions are not counts."""
        if self._position is None or not self.runner.hungry(4) or self._position >= self._end:
            return
        rest = [offset for offset in self._log if offset >= self._position]
        records = rest[: self._dice.randint(1, 5)]
        following = rest[len(records)] if len(records) < len(rest) else self._end
        batch = FetchedBatch(PARTITION, self._epoch, self._position, following, records, 0)
        self._position = following
        if self.runner.expect(batch) and self._dice.random() > 0.1:
            self.runner.feed(batch)

    def revoke(self) -> None:
        self._position = None


async def quiet(_: Runner) -> None:
    await asyncio.Event().wait()


async def drive(seed: int) -> None:
    dice = random.Random(seed)
    log = [Row(offset) for offset in sorted(dice.sample(range(150), 90))]
    end = log[-1] + 2
    store = Store()
    ended: list[int] = []
    runner = Runner(
        lambda _: FakePartition(store, dice), quiet, stall_s=0.02, patience_s=0.001, exit_process=ended.append
    )
    consumer = FakeConsumer(runner, log, end, dice)
    runner.start(consumer)
    runner.assigned(consumer, [PARTITION])
    fetching = asyncio.create_task(consumer.run())
    for _ in range(2_000):
        await asyncio.sleep(0.002)
        if store.position == end or ended:
            break
        if dice.random() < 0.02:
            consumer.revoke()
            await runner.revoked(consumer)
            runner.assigned(consumer, [PARTITION])
    fetching.cancel()
    await runner.revoked(consumer)
    await runner.stop()
    assert not ended
    assert store.folded == log


@settings(max_examples=25)
@given(seed=st.integers(0, 100_000))
def test_every_record_is_folded_once_and_in_order_whatever_is_lost_aborted_or_revoked(seed: int) -> None:
    asyncio.run(drive(seed))


async def reached(condition: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("not reached")


class DamagedPartition(FakePartition):
    """Its state can't be read until somebody has written to its topic, and fenced this owner."""

    def __init__(self, tp: TP, damaged: dict[int, bool]) -> None:
        super().__init__(Store(), random.Random(0))
        self.tp, self.damaged, self.fenced = tp, damaged, 0

    def restore(self) -> RestoredState:
        if self.damaged[self.tp.partition]:
            raise SetAsideError("can't be read", 10)
        self.fenced_at_restore = self.fenced
        return RestoredState(0, 0, 0)

    def state_end(self) -> int:
        return 10 if self.damaged[self.tp.partition] else 11

    def fence_again(self) -> None:
        self.fenced += 1


class NewerPartition(DamagedPartition):
    """What begins beyond 0 is of a newer release; its state can be read."""

    def __init__(self, tp: TP) -> None:
        super().__init__(tp, {tp.partition: False})

    def state_end(self) -> int:
        return 10

    def process(self, batch: FetchedBatch) -> Mapping[str, int]:
        if batch.first:
            raise SetAsideError("of a newer release", 10)
        self.position = batch.next
        return {}


class Resumed:
    """Remembers which partitions go on."""

    def __init__(self) -> None:
        self.partitions: list[int] = []

    async def seek_and_resume(self, tp: TP, position: int, epoch: int) -> None:
        self.partitions.append(tp.partition)

    async def commit_advisory(self, positions: Mapping[TP, int]) -> None:
        pass


@pytest.mark.parametrize("revoked", [False, True], ids=["mended", "revoked"])
def test_a_partition_whose_state_cannot_be_read_is_set_aside_until_it_is_mended_and_the_others_run(
    revoked: bool,
) -> None:
    ended: list[int] = []
    damaged = {0: False, 1: True}

    async def drive() -> None:
        runner = Runner(lambda tp: DamagedPartition(tp, damaged), quiet, patience_s=0.001, exit_process=ended.append)
        consumer = Resumed()
        runner.assigned(consumer, [TP(SESSIONS.source, number) for number in damaged])
        aside = runner.partitions[TP(SESSIONS.source, 1)]
        assert isinstance(aside, DamagedPartition)
        await reached(lambda: aside.set_aside is not None and bool(consumer.partitions))
        assert consumer.partitions == [0]
        assert (runner.working, runner.hungry(4)) == (1, {TP(SESSIONS.source, 0)})
        assert not aside.fenced
        if not revoked:
            damaged[1] = False
            await reached(lambda: aside.ready)
            assert consumer.partitions == [0, 1]
            assert (aside.set_aside, aside.fenced_at_restore, runner.working) == (None, 1, 2)
        await runner.revoked(consumer)
        assert aside.task is not None
        await asyncio.wait([aside.task])
        await runner.stop()

    asyncio.run(drive())
    assert not ended


def test_a_partition_with_a_record_of_a_newer_release_is_set_aside_and_the_others_run() -> None:
    async def drive() -> None:
        runner = Runner(NewerPartition, quiet, patience_s=0.001, exit_process=ended.append)
        consumer = Resumed()
        runner.assigned(consumer, [TP(SESSIONS.source, number) for number in (0, 1)])
        aside, other = (runner.partitions[TP(SESSIONS.source, number)] for number in (0, 1))
        await reached(lambda: len(consumer.partitions) == 2)
        for partition, ends in ((aside, (1, 2)), (other, (1,))):
            for end in ends:
                batch = FetchedBatch(partition.tp, partition.epoch, end - 1, end, [Row(end - 1)], 1)
                assert runner.expect(batch)
                runner.feed(batch)
        await reached(lambda: aside.set_aside is not None and other.position == 1)
        assert (aside.position, runner.working, runner.hungry(4)) == (1, 1, {other.tp})
        await runner.revoked(consumer)
        assert aside.task is not None
        await asyncio.wait([aside.task])
        await runner.stop()

    ended: list[int] = []
    asyncio.run(drive())
    assert not ended


def test_an_assignment_that_arrives_while_the_worker_stops_is_left_alone() -> None:
    ended: list[int] = []

    async def late() -> Runner:
        dice = random.Random(0)
        runner = Runner(lambda _: FakePartition(Store(), dice), quiet, exit_process=ended.append)
        consumer = FakeConsumer(runner, [], 0, dice)
        runner.start(consumer)
        await runner.revoked(consumer)
        await runner.stop()
        runner.assigned(consumer, [PARTITION])
        await asyncio.sleep(0.05)
        return runner

    assert not asyncio.run(late()).partitions
    assert not ended
