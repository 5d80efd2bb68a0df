"""The worker's Kafka consumer: Faust's aiokafka transport, with eight changes.

1. Batches: the stream gets one message per batch of a partition; Faust would wait on several tasks per message.
2. The consumer reads committed records only; Faust has no setting for that.
3. Newly assigned partitions are paused before the fetcher can deliver from advisory offsets, because Faust's
   assignment signal is no barrier.
4. Faust neither seeks nor commits; the runner does both.
5. Header names that are not UTF-8 do not end the fetch.
6. Decompression of a batch is bounded.
7. A fetch that lacks no partition waits longer at the broker.
8. Nothing wakes an idle consumer's thread to see whether it is alive; what is handed over wakes it.

Enters: assigned and revoked partitions, and the broker's answers. Leaves: `FetchedBatch`es, through the agents of
`worker/app` to `worker/runner`, and the end of each partition's log. Methods named `thread_…` run in the consumer's own
thread and event loop.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar

from aiokafka.consumer.fetcher import Fetcher
from aiokafka.errors import NoOffsetForPartitionError, OffsetOutOfRangeError
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from faust.types.tuples import ConsumerMessage
from mode import Service

from hmx_pipeline.contracts.limits import BATCH_BYTES, BATCH_RECORDS
from hmx_pipeline.worker.fetched_records import replace_parser
from hmx_pipeline.worker.partition import FetchedBatch, LogEnd
from hmx_pipeline.worker.runner import Runner
from hmx_pipeline.worker.ticks import QUIET_S

T = TypeVar("T")
LOG_APPEND_TIME: Final = 1
FETCH_WAIT_MS: Final = 250
WHOLE_WAIT_MS: Final = 2_000
"""How long the broker holds a fetch that lacks partitions, and one of all of them: it answers at once when a record of
these comes, but one of a partition that is lacking has to wait for the next fetch."""
FETCH_BYTES: Final = 16 * 1024 * 1024
FETCH_RECORDS: Final = 20_000
"""Records decompressed at once; a few kilobytes may hold millions of them."""
QUEUED_BATCHES: Final = 4
"""Limit per partition; further batches stay in the fetcher, which then stops fetching."""


LOOK_S: Final = 1.0
"""Of a fetcher that nothing wakes; every event of its does."""


def _wait_ms(fetcher: Fetcher) -> int:
    assignment = fetcher._subscriptions.subscription.assignment
    lacks = fetcher._records or any(assignment.state_value(tp).paused for tp in assignment.tps)
    return FETCH_WAIT_MS if lacks else WHOLE_WAIT_MS


class Listener(driver.ConsumerRebalanceListener):
    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._thread._ensure_consumer().pause(*assigned)
        await super().on_partitions_assigned(assigned)


class Thread(driver.AIOKafkaConsumerThread):
    @Service.task
    async def _thread_keepalive(self) -> None:
        """Does nothing: what is handed over wakes the thread's loop, and so do heartbeats and fetches."""

    async def _keepalive2(self) -> None:
        """Does nothing, as above."""

    def _create_worker_consumer(self, transport: Any) -> Any:
        replace_parser()
        Fetcher._fetch_max_wait_ms = property(_wait_ms, lambda *_: None)
        Fetcher._fetcher_timeout = property(lambda _: LOOK_S, lambda *_: None)
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = "read_committed"
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
        """Runs a coroutine in the consumer's thread, not in Faust's queue, which a fetch would block."""
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._thread.thread_loop))

    # called by the runner

    async def seek_and_resume(self, tp: TP, position: int, epoch: int) -> None:
        await self.in_thread(self._thread_seek(tp, position, epoch))

    async def commit_advisory(self, positions: Mapping[TP, int]) -> None:
        """Commits group offsets for lag tools only."""
        await self.in_thread(self._thread_commit(positions))

    async def _thread_seek(self, tp: TP, position: int, epoch: int) -> None:
        consumer = self._thread._ensure_consumer()
        consumer.seek(TopicPartition(*tp), position)
        self._fetch_position[tp], self._fetch_epoch[tp] = position, epoch
        consumer.resume(TopicPartition(*tp))

    async def _thread_commit(self, positions: Mapping[TP, int]) -> None:
        offsets = {TopicPartition(*tp): OffsetAndMetadata(position, "") for tp, position in positions.items()}
        await self._thread._ensure_consumer().commit(offsets)

    async def _thread_fetch(self, tps: set[TP], wait_s: float) -> tuple[list[FetchedBatch], dict[TP, LogEnd]]:
        """Fetches batches, and the log end of each partition."""
        fetcher = self._thread._ensure_consumer()._fetcher
        with fetcher._subscriptions.fetch_context():
            wanted = {TopicPartition(*tp) for tp in tps}
            fetched = await fetcher.fetched_records(wanted, timeout=wait_s, max_records=FETCH_RECORDS)
        # No await below: the positions belong to these records.
        batches: list[FetchedBatch] = []
        for topic_partition, records in fetched.items():
            tp = TP(*topic_partition)
            end = self._partition_state(tp).position
            batches.extend(self._cut(tp, records, end))
            self._fetch_position[tp] = end
        ends = {tp: end for tp in tps if (end := self._log_end(tp)) is not None}
        return batches, ends

    def _cut(self, tp: TP, records: list[Any], end: int) -> Iterable[FetchedBatch]:
        """Cuts records into batches by count and bytes; the last one ends at the fetch position, behind markers."""
        first, start, count = self._fetch_position[tp], 0, len(records)
        while start < count:
            stop, size = start, 0
            while stop < count and stop - start < BATCH_RECORDS and (stop == start or size < BATCH_BYTES):
                size += len(records[stop].value or b"")
                stop += 1
            following = end if stop == count else records[stop - 1].offset + 1
            yield FetchedBatch(tp, self._fetch_epoch[tp], first, following, records[start:stop], size)
            first, start = following, stop

    def _partition_state(self, tp: TP) -> Any:
        subscription = self._thread._ensure_consumer()._subscription.subscription
        return subscription.assignment.state_value(TopicPartition(*tp))

    def _log_end(self, tp: TP) -> LogEnd | None:
        try:
            state = self._partition_state(tp)
        except (AttributeError, KeyError):  # revoked during the fetch
            return None
        if state is None or not state.has_valid_position or state.highwater is None:
            return None
        return LogEnd(state.position, state.highwater)

    # called by Faust

    async def perform_seek(self) -> None:
        """Does nothing: Faust would seek to its committed offsets, which are only advisory here."""

    async def _drain_messages(self, fetcher: Any) -> None:
        """Fetches and delivers batches. Full partitions are left out: a pause would discard their prefetched
        records."""
        self.runner.start(self)
        while not (self._stopped.is_set() or fetcher._stopped.is_set()):
            self.runner.progress()
            wanted = self.runner.hungry(QUEUED_BATCHES)
            if not wanted:  # an empty set would mean all partitions
                await asyncio.sleep(0.02)
                continue
            whole = 2.0 if self.runner.quiet_s() > QUIET_S else 0.2
            wait_s = whole if len(wanted) == self.runner.working else 0.03
            try:
                batches, ends = await self.in_thread(self._thread_fetch(wanted, wait_s))
            except self.consumer_stopped_errors:
                return
            except NoOffsetForPartitionError:  # no group offset yet; the runner will seek
                continue
            except OffsetOutOfRangeError as error:
                self.runner.out_of_range({TP(*tp) for tp in error.args[0]})
                continue
            self.runner.at_end(ends)
            for batch in batches:
                if self.runner.expect(batch):
                    await self.wait_first(self.callback(self._message(batch)), self.suspend_flow.wait())

    def _message(self, batch: FetchedBatch) -> ConsumerMessage:
        """Wraps a batch as the value of a Faust message."""
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
