"""The runner: what happens to a partition from assignment to revocation.

Assigned: fence, restore, seek to the stored position, then batch by batch. A batch is processed only if its first fetch
position is exactly where the state ends; otherwise it is dropped and the consumer seeks again. After an abort: restore
with the same producer, seek. Revoked: wait for the transaction in flight, then drop. Fenced while it believes that it
owns the partition, or any other error in the background: the process ends, and whoever supervises it starts another.
A partition whose state can't be read is set aside: the others go on, and it does once its state topic has changed.
"""

import asyncio
import itertools
import logging
import os
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol, TypeVar

from faust.types import TP

from pipeline.contracts.outcomes import Outcome
from pipeline.contracts.rejections import Reason
from pipeline.kafka.topics import KafkaUnreachableError
from pipeline.kafka.transaction import AbortedError, FencedError, RefusalError, SetAsideError
from pipeline.observe.logs import at, said
from pipeline.observe.metrics import METRICS, count_effects
from pipeline.worker.partition import Batch, LogEnd, OwnedPartition, StuckError

LOG: Final = logging.getLogger("hmx.worker")
T = TypeVar("T")
_ALARMING: Final = (Reason.POISON, Reason.DEADLY, Reason.UNREADABLE_BATCH, Reason.OUTPUT_REFUSED)
THREADS: Final = 64
RELEASE_S: Final = 8.0
ADVISORY_S: Final = 1.0
STALL_S: Final = 5.0
"""A partition that has fetched further than it has folded and does nothing for so long has lost a batch on the way."""
PATIENCE_S: Final = 1.0
"""Between two tries to restore while no broker answers."""
EXIT_FENCED: Final = 3
EXIT_FAILED: Final = 4
EXIT_REFUSED: Final = 5


class Consumer(Protocol):
    async def seek_and_resume(self, tp: TP, position: int, epoch: int) -> None: ...

    async def commit_advisory(self, positions: Mapping[TP, int]) -> None: ...


class Runner:
    def __init__(
        self,
        new_partition: Callable[[TP], OwnedPartition],
        ticker: Callable[["Runner"], Coroutine[Any, Any, None]],
        *,
        stall_s: float = STALL_S,
        patience_s: float = PATIENCE_S,
        exit_process: Callable[[int], None] = os._exit,
    ) -> None:
        self._stall_s = stall_s
        self._patience_s = patience_s
        self._exit = exit_process
        self._new_partition = new_partition
        self._ticker = ticker
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="partition")
        self._background: set[asyncio.Task[None]] = set()
        self._started = self._stopping = False
        self._epochs = itertools.count(1)
        self._suspecting, self._calm = asyncio.Lock(), asyncio.Event()
        self._calm.set()
        self.partitions: dict[TP, OwnedPartition] = {}
        self.was_assigned = False
        self.last_progress = time.monotonic()

    # what health and ticks look at

    @property
    def working(self) -> int:
        """Partitions that are owned and not set aside."""
        return sum(partition.set_aside is None for partition in self.partitions.values())

    @property
    def ready(self) -> bool:
        """Assigned at least once, and everything assigned is restored."""
        return self.was_assigned and all(partition.ready for partition in self.partitions.values())

    def progress(self) -> None:
        self.last_progress = time.monotonic()

    # what the consumer calls

    def start(self, consumer: Consumer) -> None:
        if not self._started:
            self._started = True
            self._spawn(self._ticker(self), "ticks")
            self._spawn(self._commit_advisory_for_ever(consumer), "advisory commits")
            self._spawn(self._watch_for_ever(consumer), "watching for stalls")

    async def stop(self) -> None:
        """After `revoked`: ends what runs in the background."""
        self._stopping = True
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def hungry(self, limit: int) -> set[TP]:
        """Partitions that can take more batches."""
        return {tp for tp, partition in self.partitions.items() if partition.ready and partition.queued < limit}

    def at_end(self, ends: Mapping[TP, LogEnd]) -> None:
        for tp, end in ends.items():
            if tp in self.partitions:
                self.partitions[tp].end = end

    def out_of_range(self, tps: Iterable[TP]) -> None:
        """Retention overtook these partitions, or they are another topic's: restoring counts it or refuses."""
        for tp in tps:
            if tp in self.partitions:
                self.partitions[tp].out_of_range = True
                self.partitions[tp].wake.set()

    def expect(self, batch: Batch) -> bool:
        """Is this batch from the latest seek of a partition that is ours? Then it will be fed."""
        partition = self.partitions.get(batch.tp)
        if partition is None or batch.epoch != partition.epoch:
            return False
        partition.last_record = time.monotonic()
        partition.queued += 1
        return True

    def feed(self, batch: Batch) -> None:
        """The agent hands over what its stream brought."""
        partition = self.partitions.get(batch.tp)
        if partition is not None and not partition.dropped:
            partition.enqueue(batch)

    def assigned(self, consumer: Consumer, tps: Iterable[TP]) -> None:
        """A task per partition, also for silent ones: a dead owner's open transaction hides healthy output."""
        if self._stopping:  # an assignment that was under way
            return
        for tp in sorted(tps):
            partition = self._new_partition(tp)
            self.partitions[tp] = partition
            partition.task = self._spawn(self._own(consumer, partition), f"{tp.topic}/{tp.partition}")
        self.was_assigned = True
        METRICS.partitions_owned.set(len(self.partitions))

    async def revoked(self, consumer: Consumer) -> None:
        """A transaction in flight ends before the next owner can fence it."""
        partitions, self.partitions = list(self.partitions.values()), {}
        for partition in partitions:
            partition.drop()
        busy = [partition.busy for partition in partitions if partition.busy is not None]
        if busy:
            await asyncio.wait(busy, timeout=RELEASE_S)
        await self._commit_advisory(consumer, partitions)
        for partition in partitions:
            self._spawn(self._close(partition), "closing")
        METRICS.partitions_owned.set(0)

    # a partition's life

    async def _own(self, consumer: Consumer, partition: OwnedPartition) -> None:
        started = time.monotonic()
        try:
            partition.busy = self._in_pool(partition.fence)
            await partition.busy
        except FencedError as error:
            if not partition.dropped:
                self._end(EXIT_FENCED, f"could not fence: {error}")
        finally:
            partition.busy = None
        METRICS.fence_seconds.labels(partition.stage.name).observe(time.monotonic() - started)
        if not await self._restore(partition):
            return
        await self._seek(consumer, partition)
        while not partition.dropped:
            if partition.queue:
                await self._take(consumer, partition, partition.queue.popleft())
            elif partition.out_of_range:
                partition.out_of_range = False
                await self._again(consumer, partition)
            else:
                partition.wake.clear()
                await partition.wake.wait()

    async def _take(self, consumer: Consumer, partition: OwnedPartition, batch: Batch) -> None:
        if batch.epoch != partition.epoch:
            return None
        partition.queued -= 1
        if batch.first != partition.position:
            LOG.warning("batch dropped: the state ends at %d", partition.position, extra=at(*batch.tp, batch.first))
            METRICS.batches_dropped.inc()
            return await self._seek(consumer, partition)
        started, before = time.monotonic(), partition.committed
        try:
            counts = await self._process(partition, batch)
        except AbortedError as error:
            LOG.warning("transaction aborted, restoring: %s", error, extra=at(*batch.tp, batch.first))
            METRICS.transactions.labels(partition.stage.name, "aborted").inc()
            if isinstance(error, StuckError):
                await asyncio.sleep(self._patience_s)
            await self._again(consumer, partition)
        except FencedError as error:
            METRICS.transactions.labels(partition.stage.name, "fenced").inc()
            if not partition.dropped:
                self._end(EXIT_FENCED, f"fenced: {error}")
        else:
            partition.advisory = partition.position
            _note(partition.stage.name, batch, counts, time.monotonic() - started)
        finally:
            partition.busy = None
            METRICS.transactions.labels(partition.stage.name, "committed").inc(partition.committed - before)

    async def _process(self, partition: OwnedPartition, batch: Batch) -> Mapping[str, int]:
        if partition.suspicious:
            return await self._process_alone(partition, batch)
        while not self._calm.is_set():
            await self._calm.wait()
        partition.busy = processing = self._in_pool(partition.process, batch)
        return await processing

    async def _process_alone(self, partition: OwnedPartition, batch: Batch) -> Mapping[str, int]:
        """While nothing else is folded: if the process dies now, it dies of these records (worker.trials)."""
        async with self._suspecting:
            self._calm.clear()
            LOG.warning("owners have died here: one record at a time", extra=at(*batch.tp, batch.first))
            try:
                if others := [other.busy for other in self.partitions.values() if other.busy is not None]:
                    await asyncio.wait(others)
                partition.busy = processing = self._in_pool(partition.process, batch)
                return await processing
            finally:
                self._calm.set()

    async def _again(self, consumer: Consumer, partition: OwnedPartition) -> None:
        partition.ready = False
        if await self._restore(partition):
            await self._seek(consumer, partition)

    async def _restore(self, partition: OwnedPartition) -> bool:
        """False when the partition was revoked meanwhile. Brokers that do not answer are waited for."""
        started, restored = time.monotonic(), None
        while restored is None:
            revoked = partition.dropped
            if revoked:
                return False
            try:
                if partition.set_aside is not None and not await self._mended(partition, partition.set_aside.end):
                    return False
                partition.busy = restoring = self._in_pool(partition.restore)
                restored = await restoring
            except (KafkaUnreachableError, AbortedError) as error:
                LOG.warning("can't be restored yet, trying again: %s", error, extra=at(*partition.tp))
                await asyncio.sleep(self._patience_s)
            except SetAsideError as error:
                LOG.error("%s", error, extra=at(*partition.tp, stage=partition.stage.name))  # noqa: TRY400
                partition.set_aside = error
            except FencedError as error:
                if partition.dropped:
                    return False
                self._end(EXIT_FENCED, f"fenced while restoring: {error}")
                raise
            finally:
                partition.busy = None
        partition.set_aside = None
        seconds, stage = time.monotonic() - started, partition.stage.name
        METRICS.restore_seconds.labels(stage).observe(seconds)
        METRICS.restored_records.labels(stage).inc(restored.records)
        METRICS.outcomes.labels(stage, Outcome.LOST_TO_RETENTION, "").inc(restored.lost)
        place = at(*partition.tp, restored.position, stage=stage)
        LOG.info("restored from %d state records in %.2f s, goes on here", restored.records, seconds, extra=place)
        return not partition.dropped

    async def _mended(self, partition: OwnedPartition, end: int) -> bool:
        """Waits until the state topic has grown beyond this offset; False when the partition was revoked meanwhile.

        Whoever has written there may have fenced this owner, so it fences anew.
        """
        while await self._in_pool(partition.state_end) <= end:
            await asyncio.sleep(self._patience_s)
            if partition.dropped:
                return False
        while not partition.dropped:
            partition.busy = fencing = self._in_pool(partition.fence_again)
            try:
                await fencing
                break
            except FencedError as error:  # no broker answers, or whoever has written there fences once more
                LOG.warning("can't be restored yet, trying again: %s", error, extra=at(*partition.tp))
                await asyncio.sleep(self._patience_s)
        return not partition.dropped

    async def _seek(self, consumer: Consumer, partition: OwnedPartition) -> None:
        """To where the state ends; what is in flight from before carries an older epoch."""
        partition.epoch = next(self._epochs)
        partition.queue.clear()
        partition.queued = 0
        partition.ready = True
        try:
            await consumer.seek_and_resume(partition.tp, partition.position, partition.epoch)
        except Exception:
            if not partition.dropped:  # revoked between our look and the consumer's
                raise

    async def _watch_for_ever(self, consumer: Consumer) -> None:
        while True:
            await asyncio.sleep(self._stall_s / 5)
            before = time.monotonic() - self._stall_s
            for partition in list(self.partitions.values()):
                if partition.stalled_since(before):
                    METRICS.batches_lost.inc()
                    LOG.warning("a batch was lost on the way", extra=at(*partition.tp, partition.position))
                    await self._seek(consumer, partition)

    async def _close(self, partition: OwnedPartition) -> None:
        if partition.task is not None:
            await asyncio.wait([partition.task])
        await self._in_pool(partition.close)

    # group offsets

    async def _commit_advisory_for_ever(self, consumer: Consumer) -> None:
        while True:
            await asyncio.sleep(ADVISORY_S)
            await self._commit_advisory(consumer, list(self.partitions.values()))

    async def _commit_advisory(self, consumer: Consumer, partitions: Iterable[OwnedPartition]) -> None:
        positions = {p.tp: p.advisory for p in partitions if p.advisory is not None}
        for partition in partitions:
            partition.advisory = None
        if not positions:
            return
        try:
            await consumer.commit_advisory(positions)
        except Exception as error:  # noqa: BLE001  a rebalance refuses the commit in many ways; nothing rests on it
            LOG.info("group offsets not committed: %s", said(error))

    # background

    def _in_pool(self, call: Callable[..., T], *args: Any) -> "asyncio.Future[T]":
        return asyncio.get_running_loop().run_in_executor(self._pool, call, *args)

    def _spawn(self, coroutine: Coroutine[Any, Any, None], what: str) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(coroutine)
        self._background.add(task)
        task.add_done_callback(lambda done: self._ended(done, what))
        return task

    def _ended(self, task: "asyncio.Task[None]", what: str) -> None:
        self._background.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, RefusalError):
            self._end(EXIT_REFUSED, str(error))
        else:
            LOG.critical("%s failed", what, exc_info=error)
            self._end(EXIT_FAILED, f"{what}: {said(error)}")

    def _end(self, code: int, why: str) -> None:
        """At once: nothing that this process still does may be taken for the owner's."""
        LOG.critical("the worker ends: %s", why)
        logging.shutdown()
        self._exit(code)


def _note(stage: str, batch: Batch, counts: Mapping[str, int], seconds: float) -> None:
    """What a committed batch adds to the metrics."""
    METRICS.transaction_seconds.labels(stage).observe(seconds)
    METRICS.freshness_seconds.labels(stage).observe(max(0.0, time.time() - batch.records[0].timestamp / 1000))
    METRICS.records.labels(stage).inc(len(batch.records))
    count_effects(stage, counts)
    if poison := sum(counts.get(f"{Outcome.REJECTED}.{reason}", 0) for reason in _ALARMING):
        place = at(*batch.tp, batch.first, stage=stage)
        LOG.error("%d records from here on can't be folded and are dead letters: see `hmx dlq`", poison, extra=place)
