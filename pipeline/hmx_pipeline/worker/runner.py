"""Partition runner: fence, restore, seek, process and release of each partition, from assignment to revocation.

Enters: assigned and revoked partitions, and `FetchedBatch`es. Leaves: their transactions, and seeks for the consumer. A
batch that does not start at the state's position is dropped and fetched again. After an abort: restore with the same
producer, seek. On revocation: wait for the running transaction. If the worker is fenced while it owns the partition, or
a background task fails, the process ends, and its supervisor restarts it. A partition whose state is unreadable, or
whose log a newer release has written, is set aside until its state topic changes.
"""

import asyncio
import itertools
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

from faust.types import TP

from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.kafka.topic_files import KafkaUnreachableError
from hmx_pipeline.observe.logs import at, said
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.runtime.transaction import AbortedError, FencedError, RefusalError, SetAsideError
from hmx_pipeline.worker.partition import FetchedBatch, LogEnd, OwnedPartition, StuckError

LOG: Final = logging.getLogger("hmx.worker")
T = TypeVar("T")
THREADS: Final = 64
RELEASE_S: Final = 8.0
ADVISORY_S: Final = 1.0
STALL_S: Final = 5.0
"""A partition that is idle this long, though more was fetched than folded, has lost a batch."""
PATIENCE_S: Final = 1.0
"""Pause between attempts to restore while no broker answers."""
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
        self._came, self._ahead, self._folded = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.partitions: dict[TP, OwnedPartition] = {}
        self.was_assigned = False
        self.last_progress = time.monotonic()

    # read by health checks and ticks

    @property
    def working(self) -> int:
        """Number of owned partitions that are not set aside."""
        return sum(partition.set_aside is None for partition in self.partitions.values())

    def quiet_s(self) -> float:
        """Returns how long no record has come, nor a partition been restored."""
        latest = (max(each.last_record or 0.0, each.restored_at) for each in self.partitions.values())
        return time.monotonic() - max(latest, default=self.last_progress)

    async def stirred(self, at_most_s: float) -> bool:
        """Waits for the next record. Returns whether one came."""
        self._came.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._came.wait(), at_most_s)
        return self._came.is_set()

    def progress(self) -> None:
        self.last_progress = time.monotonic()

    # called by the consumer

    def start(self, consumer: Consumer) -> None:
        if not self._started:
            self._started = True
            self._spawn(self._ticker(self), "ticks")
            self._spawn(self._commit_advisory_for_ever(consumer), "advisory commits")
            self._spawn(self._watch_for_ever(consumer), "watching for stalls")

    async def stop(self) -> None:
        """Stops the background tasks; call it after `revoked`."""
        self._stopping = True
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def hungry(self, limit: int) -> set[TP]:
        """Returns the partitions that can take more batches."""
        return {tp for tp, partition in self.partitions.items() if partition.ready and partition.queued < limit}

    def at_end(self, ends: Mapping[TP, LogEnd]) -> None:
        for tp, end in ends.items():
            if (partition := self.partitions.get(tp)) is not None:
                partition.end = end
                if partition.fetched_more:
                    self._ahead.set()

    def out_of_range(self, tps: Iterable[TP]) -> None:
        """Notes partitions whose fetch position is out of range; a restore then counts the loss or refuses."""
        for tp in tps:
            if tp in self.partitions:
                self.partitions[tp].out_of_range = True
                self.partitions[tp].wake.set()

    def expect(self, batch: FetchedBatch) -> bool:
        """Returns whether a batch follows the latest seek of an owned partition; if so, it will be fed."""
        partition = self.partitions.get(batch.tp)
        if partition is None or batch.epoch != partition.epoch:
            return False
        partition.last_record = time.monotonic()
        self._came.set()
        partition.queued += 1
        return True

    def feed(self, batch: FetchedBatch) -> None:
        """Queues a batch that the agent received."""
        partition = self.partitions.get(batch.tp)
        if partition is not None and not partition.dropped:
            partition.enqueue(batch)

    def assigned(self, consumer: Consumer, tps: Iterable[TP]) -> None:
        """Starts a task per partition, also for idle ones, since a dead owner's open transaction blocks consumers."""
        if self._stopping:  # an assignment may arrive during shutdown
            return
        for tp in sorted(tps):
            partition = self._new_partition(tp)
            self.partitions[tp] = partition
            partition.task = self._spawn(self._own(consumer, partition), f"{tp.topic}/{tp.partition}")
        self.was_assigned = True
        METRICS.partitions_owned.set(len(self.partitions))

    async def revoked(self, consumer: Consumer) -> None:
        """Drops all partitions, after the running transactions have ended, so that the next owner does not fence
        them."""
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

    # the life of a partition

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

    async def _take(self, consumer: Consumer, partition: OwnedPartition, batch: FetchedBatch) -> None:
        if batch.epoch != partition.epoch:
            return None
        partition.queued -= 1
        if batch.first != partition.position:
            LOG.warning("batch dropped: the state is at %d", partition.position, extra=at(*batch.tp, batch.first))
            METRICS.batches_dropped.inc()
            return await self._seek(consumer, partition)
        started, before = time.monotonic(), partition.committed
        try:
            counts = await self._process(partition, batch)
        except AbortedError as error:
            LOG.warning("transaction aborted, restoring the state: %s", error, extra=at(*batch.tp, batch.first))
            METRICS.transactions.labels(partition.stage.name, "aborted").inc()
            if isinstance(error, StuckError):
                await asyncio.sleep(self._patience_s)
            await self._again(consumer, partition)
        except SetAsideError as error:
            _set_aside(partition, error)
            await self._again(consumer, partition)
        except FencedError as error:
            METRICS.transactions.labels(partition.stage.name, "fenced").inc()
            if not partition.dropped:
                self._end(EXIT_FENCED, f"fenced: {error}")
        else:
            partition.advisory = partition.position
            self._folded.set()
            partition.count_in(batch, counts, time.monotonic() - started)
        finally:
            partition.busy = None
            METRICS.transactions.labels(partition.stage.name, "committed").inc(partition.committed - before)

    async def _process(self, partition: OwnedPartition, batch: FetchedBatch) -> Mapping[str, int]:
        if first := partition.suspects:
            suspicious, rest = batch.cut(first)
            counts = Counter(await self._process_alone(partition, suspicious))
            if rest is not None and not partition.dropped:
                counts.update(await self._process(partition, rest))
            return counts
        while not self._calm.is_set():
            await self._calm.wait()
        partition.busy = processing = self._in_pool(partition.process, batch)
        return await processing

    async def _process_alone(self, partition: OwnedPartition, batch: FetchedBatch) -> Mapping[str, int]:
        """Processes a batch while nothing else is folded, so that a crash identifies its record
        (worker.crash_loop_guard)."""
        async with self._suspecting:
            self._calm.clear()
            LOG.warning("owners have died here: folding records one by one", extra=at(*batch.tp, batch.first))
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
        """Restores the state; retries while brokers do not answer. Returns False if the partition was revoked."""
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
                LOG.warning("the state can't be restored yet, retrying: %s", error, extra=at(*partition.tp))
                await asyncio.sleep(self._patience_s)
            except SetAsideError as error:
                _set_aside(partition, error)
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
        LOG.info("restored from %d state records in %.2f s, continuing here", restored.records, seconds, extra=place)
        return not partition.dropped

    async def _mended(self, partition: OwnedPartition, end: int) -> bool:
        """Waits until the state topic grows beyond `end`; returns False if the partition was revoked.

        Whoever wrote there may have fenced this owner, so it fences again.
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
            except FencedError as error:  # no broker answers, or the writer fences again
                LOG.warning("the state can't be restored yet, retrying: %s", error, extra=at(*partition.tp))
                await asyncio.sleep(self._patience_s)
        return not partition.dropped

    async def _seek(self, consumer: Consumer, partition: OwnedPartition) -> None:
        """Seeks to the state's position; batches in flight carry an older epoch."""
        partition.epoch = next(self._epochs)
        partition.queue.clear()
        partition.queued = 0
        partition.ready = True
        try:
            await consumer.seek_and_resume(partition.tp, partition.position, partition.epoch)
        except Exception:
            if not partition.dropped:  # it may have been revoked meanwhile
                raise

    async def _watch_for_ever(self, consumer: Consumer) -> None:
        while True:
            await _pause_after(self._ahead, self._stall_s / 5)
            before = time.monotonic() - self._stall_s
            for partition in [each for each in self.partitions.values() if each.fetched_more]:
                self._ahead.set()
                if partition.stalled_since(before):
                    METRICS.batches_lost.inc()
                    LOG.warning("a batch was lost: fetching it again", extra=at(*partition.tp, partition.position))
                    await self._seek(consumer, partition)

    async def _close(self, partition: OwnedPartition) -> None:
        if partition.task is not None:
            await asyncio.wait([partition.task])
        await self._in_pool(partition.close)

    # group offsets

    async def _commit_advisory_for_ever(self, consumer: Consumer) -> None:
        while True:
            await _pause_after(self._folded, ADVISORY_S)
            await self._commit_advisory(consumer, list(self.partitions.values()))

    async def _commit_advisory(self, consumer: Consumer, partitions: Iterable[OwnedPartition]) -> None:
        positions = {p.tp: p.advisory for p in partitions if p.advisory is not None}
        for partition in partitions:
            partition.advisory = None
        if not positions:
            return
        try:
            await consumer.commit_advisory(positions)
        except Exception as error:  # noqa: BLE001  rebalances cause many errors; nothing depends on it
            LOG.info("group offsets not committed: %s", said(error))

    # background tasks

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
        """Ends the process at once, so that it cannot act as an owner any more."""
        LOG.critical("the worker is ending: %s", why)
        logging.shutdown()
        self._exit(code)


async def _pause_after(event: asyncio.Event, pause_s: float) -> None:
    """Waits until the event is set, then for the pause, and clears it: an idle worker does not wake."""
    await event.wait()
    await asyncio.sleep(pause_s)
    event.clear()


def _set_aside(partition: OwnedPartition, error: SetAsideError) -> None:
    LOG.error("%s", error, extra=at(*partition.tp, stage=partition.stage.name))
    partition.set_aside = error
