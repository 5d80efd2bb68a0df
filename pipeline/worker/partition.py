"""One partition that this worker owns: its executor, its transactions, its queue.

`fence`, `restore`, `process` and `close` block and run in the runner's thread pool, one at a time per partition. The
rest belongs to the event loop.
"""

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from faust.types import TP

from pipeline.kafka.transaction import Restored, Transactions
from pipeline.stages.executor import Executor, FoldFactory
from pipeline.topology import Stage


class Batch(NamedTuple):
    """Records of one partition between two fetch positions. Offsets have holes, so positions are not offsets + 1."""

    tp: TP
    epoch: int
    """The seek that the fetch followed."""
    first: int
    """Fetch position before the first record."""
    next: int
    """Fetch position after the last."""
    records: list[Any]
    size: int


class LogEnd(NamedTuple):
    position: int
    high: int


class OwnedPartition:
    def __init__(self, tp: TP, stage: Stage, new_fold: FoldFactory, transactions: Transactions) -> None:
        self.tp = tp
        self.stage = stage
        self._new_fold = new_fold
        self._transactions = transactions
        self.executor = Executor(new_fold(), tp.partition)
        self.position = 0
        """Where the state ends: the only place at which a batch may start."""
        # Event loop side
        self.epoch = 0
        self.queue: deque[Batch] = deque()
        self.queued = 0
        """Batches fetched and not yet done."""
        self.wake = asyncio.Event()
        self.ready = False
        self.dropped = False
        self.out_of_range = False
        """The log no longer holds the fetch position: retention or another topic."""
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

    def restore(self) -> Restored:
        """State afresh from its topic; the same producer goes on."""
        self.executor = Executor(self._new_fold(), self.tp.partition)
        restored = self._transactions.restore(self.executor)
        self.position = restored.position
        self.last_record, self.restored_at = None, time.monotonic()
        return restored

    def process(self, batch: Batch) -> Mapping[str, int]:
        """One transaction; what the fold counted. After AbortedError the executor is spent: restore."""
        effects = self.executor.run(batch.records)
        self._transactions.append(effects.appends)
        self._transactions.commit(self.executor, effects, batch.next)
        self.position = batch.next
        return effects.counts

    def close(self) -> None:
        self._transactions.close()

    def enqueue(self, batch: Batch) -> None:
        self.queue.append(batch)
        self.wake.set()

    def stalled_since(self, moment: float) -> bool:
        """Nothing queued or under way, yet more was fetched than folded, and that before this monotonic time."""
        idle = self.ready and not self.queue and self.busy is None
        behind = self.end is not None and self.end.position > self.position
        return idle and behind and self.last_record is not None and self.last_record < moment

    def drop(self) -> None:
        """No longer ours: nothing queued is processed any more."""
        self.dropped, self.ready = True, False
        self.queue.clear()
        self.wake.set()
