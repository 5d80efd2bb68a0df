"""One source partition owned by this worker: its executor, transactions and batch queue.

Enters: `FetchedBatch`es in order. Leaves: committed transactions, and the counts of outcomes and effects. Raises what
`runtime/transaction` raises. `fence`, `restore`, `process` and `close` block and run in the runner's thread pool, one
at a time per partition. The rest belongs to the event loop.
"""

import asyncio
import gc
import logging
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from faust.types import TP

from hmx_pipeline.contracts.headers import traceparent
from hmx_pipeline.contracts.limits import BATCH_RECORDS
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.contracts.rejections import NewerRecordError, Reason
from hmx_pipeline.observe.logs import at
from hmx_pipeline.observe.metrics import METRICS, count_effects
from hmx_pipeline.observe.tracing import Spans
from hmx_pipeline.runtime.transaction import AbortedError, RestoredState, SetAsideError, Transactions, UnsendableError
from hmx_pipeline.stages.executor import Effects, Executor, FoldFactory, Part, Unsendable, unsendable
from hmx_pipeline.stages.fold import POSITION_KEY
from hmx_pipeline.topology import ARTIFACTS, EVIDENCE, KNOWLEDGE, Stage
from hmx_pipeline.worker.crash_loop_guard import TRIES, alone, begun, first_try, pieces

LOG: Final = logging.getLogger("hmx.worker")
_ALARMING: Final = (Reason.POISON, Reason.DEADLY, Reason.UNREADABLE_BATCH, Reason.OUTPUT_REFUSED)
FEWER: Final = 64
"""Records per transaction after Kafka refused the output of a larger one."""


class FetchedBatch(NamedTuple):
    """Records of one partition between two fetch positions. Offsets have gaps, so the positions are stored too."""

    tp: TP
    epoch: int
    """Number of the seek that the fetch followed."""
    first: int
    """Fetch position before the first record."""
    next: int
    """Fetch position after the last record."""
    records: list[Any]
    size: int

    def cut(self, count: int) -> "tuple[FetchedBatch, FetchedBatch | None]":
        """Return the first records, and the others if there are any."""
        if len(self.records) <= count:
            return self, None
        there = self.records[count].offset
        return (
            self._replace(next=there, records=self.records[:count]),
            self._replace(first=there, records=self.records[count:]),
        )


class StuckError(AbortedError):
    """Kafka refuses a state record, or an output that was already left out: the topic's size limit must be raised."""


class LogEnd(NamedTuple):
    position: int
    high: int


class OwnedPartition:
    def __init__(
        self, tp: TP, stage: Stage, new_fold: FoldFactory, transactions: Transactions, tracing: Spans | None = None
    ) -> None:
        self.tp = tp
        self.stage = stage
        self._new_fold = new_fold
        self._transactions = transactions
        self._tracing = tracing
        self.executor = Executor(new_fold(), tp.partition)
        self.position = 0
        """The position of the state; a batch must start here."""
        self.committed = 0
        """Number of committed transactions of batches."""
        self._new = True
        self._unsendable: set[Unsendable] = set()
        self._at_once = BATCH_RECORDS
        """Records per transaction; reduced after a refusal, to find the record that caused it."""
        self._tries: int | None = None
        """Before the first batch: how often earlier owners have begun it without finishing."""
        # event loop only
        self.epoch = 0
        self.queue: deque[FetchedBatch] = deque()
        self.queued = 0
        """Number of batches fetched but not finished."""
        self.wake = asyncio.Event()
        self.ready = False
        self.dropped = False
        self.set_aside: SetAsideError | None = None
        """Why the partition is not processed: its state can't be read, or a newer release has written a record."""
        self.out_of_range = False
        """The fetch position is out of range: by retention, or in a recreated topic."""
        self.busy: asyncio.Future[Any] | None = None
        self.task: asyncio.Task[None] | None = None
        self.end: LogEnd | None = None
        self.advisory: int | None = None
        self.last_record: float | None = None
        """Monotonic time of the last record; None since the last restore."""
        self.last_tick = 0.0
        self.restored_at = 0.0

    def fence(self) -> None:
        self._transactions.fence()

    def state_end(self) -> int:
        return self._transactions.state_end()

    def fence_again(self) -> None:
        self._transactions.fence_again()

    def restore(self) -> RestoredState:
        """Restores the state from its topic with the same producer."""
        self.executor = Executor(self._new_fold(), self.tp.partition)
        restored = self._transactions.restore(self.executor)
        gc.freeze()  # never collected, so later collections need not scan it
        self.executor.leave_out(self._unsendable)
        self.position = restored.position
        if self._new:  # later restores follow no crash of this owner
            self._new, self._tries = False, restored.tries
        self.last_record, self.restored_at = None, time.monotonic()
        return restored

    def process(self, batch: FetchedBatch) -> Mapping[str, int]:
        """Folds and commits a batch, and returns its counters; with tracing, one span per trace among its records.
        An owner's first batch is announced before (worker.crash_loop_guard).

        After AbortedError the executor must be restored. Raises StuckError if a refused output cannot be left out,
        SetAsideError.
        """
        began = time.time_ns()
        counts = self._process(batch)
        if self._tracing is not None:
            traces = (traceparent(record.headers) for record in batch.records)
            self._tracing.took(
                f"hmx {self.stage.name}",
                traces,
                began,
                messaging_system="kafka",
                messaging_destination_name=self.tp.topic,
                messaging_destination_partition_id=str(self.tp.partition),
            )
        return counts

    def _process(self, batch: FetchedBatch) -> Mapping[str, int]:
        counts: Counter[str] = Counter()
        if self.dropped:  # revoked while it waited
            return counts
        tries, self._tries = self._tries, None
        if tries is None:
            rest, singly = batch.records, FEWER
            while rest and not self.dropped:
                taken, rest = rest[: self._at_once], rest[self._at_once :]
                singly -= self._at_once == 1
                counts.update(self._fold(taken, rest[0].offset if rest else batch.next))
                if self._unsendable:
                    self._at_once, self._unsendable = FEWER, set()
                elif not singly:  # the refused record was among these and is now left out
                    self._at_once = BATCH_RECORDS
            self._at_once = BATCH_RECORDS
            return counts
        if tries == TRIES:
            self.executor.condemned.add(batch.records[0].offset)
        self._announce(begun(tries))
        sizes, rest = pieces(tries), batch.records
        size = next(sizes)
        while rest and not self.dropped:
            taken, rest, size = rest[:size], rest[size:], next(sizes)
            counts.update(self._fold(taken, rest[0].offset if rest else batch.next, first_try(size) if rest else 0))
        if self.position != batch.next:
            self._announce(0)
        return counts

    def _announce(self, tries: int) -> None:
        self._transactions.commit(self.executor, Effects([], [], {}, Counter()), self.position, tries)

    def _fold(self, records: list[Any], following: int, tries: int = 0) -> Mapping[str, int]:
        """Commits one transaction per part; stops after a part if the partition was revoked."""
        counts: Counter[str] = Counter()
        for effects, folded, _ in self._parts(records):
            position = records[folded].offset if folded < len(records) else following
            try:
                self._transactions.append(effects.appends)
                self._transactions.commit(self.executor, effects, position, tries, singly=self._at_once == 1)
            except UnsendableError as error:
                self._narrow(error, records, folded)
                raise
            self.position = position
            self.committed += 1
            counts.update(effects.counts)
            if self.dropped:
                break
        return counts

    def _parts(self, records: list[Any]) -> Iterator[Part]:
        """Raises SetAsideError at what a newer release has written: an owner of that release goes on here."""
        try:
            yield from self.executor.parts(records)
        except NewerRecordError as error:
            why = f"{self.tp.topic}/{self.tp.partition} holds a record of a newer release after offset {self.position}"
            aside = f"{why}: {error}. It is set aside and not processed: upgrade this worker to that release"
            raise SetAsideError(aside, self._transactions.state_end()) from error

    def _narrow(self, error: UnsendableError, records: list[Any], folded: int) -> None:
        """Reduces the batch size; once a single record's output is refused, it is left out next time."""
        if self._at_once > 1:
            self._at_once = FEWER if len(records) > FEWER else 1
            return
        output = error.output
        if output is None:
            return
        state = output.topic == self.stage.state
        whose = Unsendable(records[0].offset) if state else unsendable(output)
        if output.topic not in (EVIDENCE, ARTIFACTS, KNOWLEDGE):
            whose = whose._replace(topic="", key="")
        if whose in self.executor.unsendable or (state and (not folded or output.key == POSITION_KEY.encode())):
            raise StuckError(str(error)) from error
        self._unsendable.add(whose)

    @property
    def suspects(self) -> int:
        """How many records of the next batch must be folded with nothing else running, since owners have died there."""
        return alone(self._tries) if self._tries is not None else 0

    def close(self) -> None:
        self._transactions.close()

    def count_in(self, batch: FetchedBatch, counts: Mapping[str, int], seconds: float) -> None:
        """Adds a committed batch to the metrics."""
        stage = self.stage.name
        METRICS.transaction_seconds.labels(stage).observe(seconds)
        METRICS.freshness_seconds.labels(stage).observe(max(0.0, time.time() - batch.records[0].timestamp / 1000))
        METRICS.records.labels(stage).inc(len(batch.records))
        count_effects(stage, counts)
        if poison := sum(counts.get(f"{Outcome.REJECTED}.{reason}", 0) for reason in _ALARMING):
            place = at(*batch.tp, batch.first, stage=stage)
            LOG.error("%d records of the batch at this offset became dead letters: run `hmx dlq`", poison, extra=place)

    def enqueue(self, batch: FetchedBatch) -> None:
        self.queue.append(batch)
        self.wake.set()

    @property
    def fetched_more(self) -> bool:
        """Whether more was fetched than folded."""
        return self.end is not None and self.end.position > self.position

    def stalled_since(self, moment: float) -> bool:
        """Returns whether fetched records got lost: nothing is queued or running, but more was fetched than folded."""
        idle = self.ready and not self.queue and self.busy is None
        return idle and self.fetched_more and self.last_record is not None and self.last_record < moment

    def drop(self) -> None:
        """Marks the partition as revoked; queued batches are discarded."""
        self.dropped, self.ready = True, False
        self.queue.clear()
        self.wake.set()
