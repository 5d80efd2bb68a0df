"""One partition that this worker owns: its executor, its transactions, its queue.

`fence`, `restore`, `process` and `close` block and run in the runner's thread pool, one at a time per partition. The
rest belongs to the event loop.
"""

import asyncio
import gc
import time
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from faust.types import TP

from pipeline.contracts.limits import BATCH_RECORDS
from pipeline.kafka.transaction import AbortedError, Restored, SetAsideError, Transactions, UnsendableError
from pipeline.stages.executor import Effects, Executor, FoldFactory, Unsendable, unsendable
from pipeline.stages.fold import POSITION_KEY
from pipeline.topology import ARTIFACTS, EVIDENCE, KNOWLEDGE, Stage
from pipeline.worker.trials import TRIES, alone, begun, first_try, pieces

FEWER: Final = 64
"""Records of a transaction, after Kafka has refused what came of more."""


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


class StuckError(AbortedError):
    """Kafka refuses a state record, or what has been left out already. Somebody must look at the topic's bound."""


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
        self.committed = 0
        """Transactions of batches."""
        self._new = True
        self._unsendable: set[Unsendable] = set()
        self._at_once = BATCH_RECORDS
        """Records of a transaction; fewer where Kafka has refused what came of them, to find whose it was."""
        self._tries: int | None = None
        """Before the first batch: how often others have begun it."""
        # Event loop side
        self.epoch = 0
        self.queue: deque[Batch] = deque()
        self.queued = 0
        """Batches fetched and not yet done."""
        self.wake = asyncio.Event()
        self.ready = False
        self.dropped = False
        self.set_aside: SetAsideError | None = None
        """Why nothing in it is processed: its state can't be read."""
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

    def state_end(self) -> int:
        return self._transactions.state_end()

    def fence_again(self) -> None:
        self._transactions.fence_again()

    def restore(self) -> Restored:
        """State afresh from its topic; the same producer goes on."""
        self.executor = Executor(self._new_fold(), self.tp.partition)
        restored = self._transactions.restore(self.executor)
        gc.freeze()  # what is here stays: later collections need not look through it
        self.executor.unsendable |= self._unsendable
        self.position = restored.position
        if self._new:  # later on this owner knows that it has not died
            self._new, self._tries = False, restored.tries
        self.last_record, self.restored_at = None, time.monotonic()
        return restored

    def process(self, batch: Batch) -> Mapping[str, int]:
        """What the fold counted: one transaction, but for an owner's first batch, which is announced (worker.trials).

        After AbortedError the executor is spent: restore. Raises StuckError where nothing can be left out.
        """
        counts: Counter[str] = Counter()
        if self.dropped:  # while it waited for its turn
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
                elif not singly:  # what Kafka has refused was among these: by now it takes it
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
        """A transaction for each part. Who no longer owns the partition stops after one: the next owner goes on."""
        counts: Counter[str] = Counter()
        for effects, folded, _ in self.executor.parts(records):
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

    def _narrow(self, error: UnsendableError, records: list[Any], folded: int) -> None:
        """Next time fewer records at once. Of one alone it is known what Kafka refuses: that is left out next time."""
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
    def suspicious(self) -> bool:
        """The next batch begins with a record that is to be folded while this process does nothing else."""
        return self._tries is not None and alone(self._tries)

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
