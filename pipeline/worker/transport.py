"""Faust's aiokafka driver, changed in six places and no more.

1. Batches: Faust waits on several tasks per message; here the stream gets one message per batch of a partition.
2. read_committed, which Faust cannot be configured to.
3. Newly assigned partitions are paused before the fetcher can deliver from advisory offsets: the signal that Faust
   sends on assignment is no barrier.
4. Faust neither seeks nor commits; the runner does both.
5. Header names that are no UTF-8 do not end the fetch.
6. Nor does a batch that becomes gigabytes when it is unpacked.

Methods named `thread_…` run in the consumer's own thread and event loop.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar

from aiokafka.errors import NoOffsetForPartitionError, OffsetOutOfRangeError
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from faust.types.tuples import ConsumerMessage

from pipeline.contracts.limits import BATCH_BYTES, BATCH_RECORDS
from pipeline.worker.partition import Batch, LogEnd
from pipeline.worker.records import replace_parser
from pipeline.worker.runner import Runner

LOG: Final = logging.getLogger("hmx.worker")
T = TypeVar("T")
LOG_APPEND_TIME: Final = 1
FETCH_WAIT_MS: Final = 250
FETCH_BYTES: Final = 16 * 1024 * 1024
FETCH_RECORDS: Final = 20_000
"""Unpacked at once; a few kilobytes may hold millions of records."""
QUEUED_BATCHES: Final = 4
"""Per partition; more stay in the fetcher, which stops fetching by itself."""


class Listener(driver.ConsumerRebalanceListener):
    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._thread._ensure_consumer().pause(*assigned)
        await super().on_partitions_assigned(assigned)


class Thread(driver.AIOKafkaConsumerThread):
    def _create_worker_consumer(self, transport: Any) -> Any:
        replace_parser()
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = "read_committed"
        consumer._fetch_max_wait_ms = FETCH_WAIT_MS
        consumer._fetch_max_bytes = FETCH_BYTES
        return consumer


class BatchConsumer(driver.Consumer):
    RebalanceListener = Listener

    def __init__(self, transport: "Transport", *args: Any, **kwargs: Any) -> None:
        super().__init__(transport, *args, **kwargs)
        self.runner = transport.runner
        self._fetch_position: dict[TP, int] = {}
        self._fetch_epoch: dict[TP, int] = {}

    def _new_consumer_thread(self) -> Thread:
        return Thread(self, loop=self.loop, beacon=self.beacon)

    def in_thread(self, coroutine: Coroutine[Any, Any, T]) -> "asyncio.Future[T]":
        """Runs in the consumer's thread; Faust's own way has a queue with two workers, which a fetch would occupy."""
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._thread.thread_loop))

    # what the runner asks for

    async def seek_and_resume(self, tp: TP, position: int, epoch: int) -> None:
        await self.in_thread(self._thread_seek(tp, position, epoch))

    async def commit_advisory(self, positions: Mapping[TP, int]) -> None:
        """Group offsets for lag tools; nothing rests on them."""
        await self.in_thread(self._thread_commit(positions))

    async def _thread_seek(self, tp: TP, position: int, epoch: int) -> None:
        consumer = self._thread._ensure_consumer()
        consumer.seek(TopicPartition(*tp), position)
        self._fetch_position[tp], self._fetch_epoch[tp] = position, epoch
        consumer.resume(TopicPartition(*tp))

    async def _thread_commit(self, positions: Mapping[TP, int]) -> None:
        offsets = {TopicPartition(*tp): OffsetAndMetadata(position, "") for tp, position in positions.items()}
        await self._thread._ensure_consumer().commit(offsets)

    async def _thread_fetch(self, tps: set[TP], wait_s: float) -> tuple[list[Batch], dict[TP, LogEnd]]:
        """Batches of the partitions that have records, and where each partition stands towards its end."""
        fetcher = self._thread._ensure_consumer()._fetcher
        with fetcher._subscriptions.fetch_context():
            wanted = {TopicPartition(*tp) for tp in tps}
            fetched = await fetcher.fetched_records(wanted, timeout=wait_s, max_records=FETCH_RECORDS)
        # No await from here on: the positions read below belong to these records.
        batches: list[Batch] = []
        for topic_partition, records in fetched.items():
            tp = TP(*topic_partition)
            end = self._partition_state(tp).position
            batches.extend(self._cut(tp, records, end))
            self._fetch_position[tp] = end
        ends = {tp: end for tp in tps if (end := self._log_end(tp)) is not None}
        return batches, ends

    def _cut(self, tp: TP, records: list[Any], end: int) -> Iterable[Batch]:
        """Batches of bounded count and bytes; the last one ends at the fetch position, which covers markers."""
        first, start, count = self._fetch_position[tp], 0, len(records)
        while start < count:
            stop, size = start, 0
            while stop < count and stop - start < BATCH_RECORDS and (stop == start or size < BATCH_BYTES):
                size += len(records[stop].value or b"")
                stop += 1
            following = end if stop == count else records[stop - 1].offset + 1
            yield Batch(tp, self._fetch_epoch[tp], first, following, records[start:stop], size)
            first, start = following, stop

    def _partition_state(self, tp: TP) -> Any:
        subscription = self._thread._ensure_consumer()._subscription.subscription
        return subscription.assignment.state_value(TopicPartition(*tp))

    def _log_end(self, tp: TP) -> LogEnd | None:
        try:
            state = self._partition_state(tp)
        except (AttributeError, KeyError):  # revoked while we fetched
            return None
        if state is None or not state.has_valid_position or state.highwater is None:
            return None
        return LogEnd(state.position, state.highwater)

    # Faust's hooks

    async def perform_seek(self) -> None:
        """Nothing: Faust would seek to its committed offsets, which are only advisory here."""

    async def _drain_messages(self, fetcher: Any) -> None:
        """Back pressure leaves a partition out of the fetch: pausing it would throw its prefetched records away."""
        self.runner.start(self)
        while not (self._stopped.is_set() or fetcher._stopped.is_set()):
            self.runner.progress()
            wanted = self.runner.hungry(QUEUED_BATCHES)
            if not wanted:  # an empty set would mean all partitions
                await asyncio.sleep(0.02)
                continue
            wait_s = 0.2 if len(wanted) == self.runner.working else 0.03
            try:
                batches, ends = await self.in_thread(self._thread_fetch(wanted, wait_s))
            except self.consumer_stopped_errors:
                return
            except NoOffsetForPartitionError:  # no group offset yet; the runner's seek is on its way
                continue
            except OffsetOutOfRangeError as error:
                self.runner.out_of_range({TP(*tp) for tp in error.args[0]})
                continue
            self.runner.at_end(ends)
            for batch in batches:
                if self.runner.expect(batch):
                    await self.wait_first(self.callback(self._message(batch)), self.suspend_flow.wait())

    def _message(self, batch: Batch) -> ConsumerMessage:
        """Faust's message of raw bytes, with the batch in the value's place."""
        record = batch.records[0]
        value: Any = batch
        return ConsumerMessage(
            batch.tp.topic,
            batch.tp.partition,
            batch.first,
            record.timestamp / 1000,
            LOG_APPEND_TIME,
            [],
            b"",
            value,
            None,
            0,
            0,
            batch.tp,
            generation_id=self.app.consumer_generation_id,
        )

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        await super().on_partitions_assigned(assigned, generation_id)
        self.runner.assigned(self, {TP(*tp) for tp in assigned})

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        await self.runner.revoked(self)
        await super().on_partitions_revoked(revoked)

    async def on_stop(self) -> None:
        await self.runner.revoked(self)
        await self.runner.stop()
        await super().on_stop()


class Transport(driver.Transport):
    Consumer = BatchConsumer

    def __init__(self, runner: Runner, url: list[Any], app: Any) -> None:
        self.runner = runner
        super().__init__(url, app)
