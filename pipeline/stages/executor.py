"""The executor: drives a fold over one partition, record by record, however the records were cut into batches.

Before each record: clock = max(clock, append time); what is due fires, in (deadline, key) order; then the record is
folded. Every record and every timer is one overlay. A record whose fold raises the same exception twice on the same
state is rejected as poison; errors of memory and I/O are never taken for poison. An exception in a timer is raised.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import msgspec

from pipeline.contracts.rejections import Reason, Rejection
from pipeline.stages.fold import POSITION_KEY, Fold, Output, Record, Tx
from pipeline.stages.journal import JOURNAL, Journal, block_key, block_of

STATE_FORMAT: Final = 3
"""Changes whenever a state record is written otherwise than before."""


class UnreadableStateError(Exception):
    """The state was written by another version of the pipeline, or not by the pipeline at all."""


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """The state topic's position record, written in the same transaction as what it stands for."""

    position: int
    """Next offset of the source partition to read."""
    clock: int
    topic_id: str
    """A recreated source topic is another topic."""
    counts: dict[str, int]
    """Totals since the partition's beginning, by name."""
    lost: tuple[tuple[int, int], ...] = ()
    """Offset ranges [from, to) that retention deleted before they were read."""
    format: int = STATE_FORMAT


class Effects(NamedTuple):
    """What a batch does."""

    outputs: list[Output]
    appends: list[Output]
    """For the log itself; a replay leaves them out."""
    changes: dict[str, bytes | None]
    counts: Counter[str]


class Executor:
    def __init__(self, fold: Fold, partition: int) -> None:
        self.fold = fold
        self.partition = partition
        self.state: dict[str, Any] = {}
        self.journals: dict[str, Journal] = {}
        self.clock = 0
        self.counts: Counter[str] = Counter()
        self._heap: list[tuple[int, str]] = []
        self._scheduled: dict[str, int] = {}
        self._outputs: list[Output] = []
        self._appends: list[Output] = []
        self._dirty: dict[str, None] = {}
        self._written: dict[str, None] = {}
        self._removed: dict[str, None] = {}

    def restore(self, records: Iterable[tuple[str, bytes | None]]) -> Position | None:
        """Rebuilds the state from the state topic's records, in their order; the last position record, if any.

        Raises UnreadableStateError.
        """
        latest: dict[str, bytes] = {}
        for key, value in records:
            if value is None:
                latest.pop(key, None)
            else:
                latest[key] = value
        packed = latest.pop(POSITION_KEY, None)
        position = _position(packed) if packed is not None else None
        for key in sorted(latest):  # a journal's blocks in their order
            try:
                found = self.fold.decode(key, latest[key])
                if key.startswith(JOURNAL):
                    self._load(key, found)
                else:
                    self._keep(key, found)
            except (ValueError, LookupError) as error:
                raise UnreadableStateError(f"state record {key!r}: {type(error).__name__}") from error
        if position is None:
            return None
        self.clock = position.clock
        self.counts = Counter(position.counts)
        return position

    @property
    def next_due(self) -> int | None:
        """The earliest clock at which something may be due."""
        return self._heap[0][0] if self._heap else None

    def run(self, records: Iterable[Record]) -> Effects:
        """Folds the records. When it raises, the executor is spent: restore a new one."""
        self._outputs, self._appends, self._dirty, self._written, self._removed = [], [], {}, {}, {}
        counts: Counter[str] = Counter()
        heap = self._heap
        for record in records:
            if record.timestamp > self.clock:
                self.clock = record.timestamp
            if heap and heap[0][0] <= self.clock:
                self._fire(record.offset, counts)
            self._apply(self._fold_or_reject(record), counts)
        self.counts.update(counts)
        return Effects(self._outputs, self._appends, self._changes(), counts)

    def _changes(self) -> dict[str, bytes | None]:
        """What the batch has changed of the state, as records of its topic."""
        state, encode = self.state, self.fold.encode
        changes: dict[str, bytes | None] = dict.fromkeys(self._removed)
        for key in self._dirty:
            value = state.get(key)
            changes[key] = None if value is None else encode(key, value)
        for name in self._written:
            journal = self.journals.get(name)
            if journal is None:
                continue
            changes.update((block_key(name, first), None) for first in journal.outlived())
            first, items = journal.unwritten()
            if items:
                key = block_key(name, first)
                changes[key] = encode(key, items)
        return changes

    def position_record(self, position: int, topic_id: str, lost: tuple[tuple[int, int], ...]) -> bytes:
        return msgspec.json.encode(
            Position(position=position, clock=self.clock, topic_id=topic_id, counts=dict(self.counts), lost=lost)
        )

    def _fold_or_reject(self, record: Record) -> Tx:
        failure: str | None = None
        for _ in range(2):
            tx = self._tx(record.offset)
            try:
                self.fold.fold(tx, record)
            except (MemoryError, OSError):
                raise
            except Exception as error:
                again = f"{type(error).__name__}: {error}"
                if failure is not None and again != failure:
                    raise
                failure = again
            else:
                return tx
        tx = self._tx(record.offset)
        self.fold.reject(tx, record, Rejection(Reason.POISON, "$", (failure or "").split(":")[0]))
        return tx

    def _tx(self, offset: int) -> Tx:
        return Tx(self.state, self.journals, self.clock, self.partition, offset)

    def _apply(self, tx: Tx, counts: Counter[str]) -> None:
        for key, value in tx.changes.items():
            self._keep(key, value)
            self._dirty[key] = None
        for name, item in tx.appended:
            journal = self.journals.get(name)
            if journal is None:
                journal = self.journals[name] = Journal()
            journal.append(item)
            self._written[name] = None
        if tx.trims:
            self._trim(tx.trims)
        self._outputs.extend(tx.outputs)
        self._appends.extend(tx.appends)
        for name, n in tx.counts.items():
            counts[name] += n

    def _keep(self, key: str, value: Any) -> None:
        old = self.state.get(key)
        if value is None:
            if old is None:
                return
            del self.state[key]
        else:
            self.state[key] = value
            self._schedule(key, value)
        self.fold.changed(key, old, value)

    def _trim(self, trims: dict[str, int | None]) -> None:
        for name, start in trims.items():
            journal = self.journals.get(name)
            if journal is None:
                continue
            journal.trim(journal.end if start is None else start)
            self._written[name] = None
            if start is None:
                self._removed.update((block_key(name, first), None) for first in journal.outlived())
                del self.journals[name]

    def _load(self, key: str, items: list[Any]) -> None:
        name, first = block_of(key)
        self.journals.setdefault(name, Journal()).load(first, items)

    def _schedule(self, key: str, value: Any) -> None:
        """One heap entry per key that is never later than the true deadline; moved on when it comes up too early."""
        deadline = self.fold.deadline(key, value)
        if deadline is not None and deadline < self._scheduled.get(key, deadline + 1):
            self._scheduled[key] = deadline
            heapq.heappush(self._heap, (deadline, key))

    def _fire(self, offset: int, counts: Counter[str]) -> None:
        heap = self._heap
        while heap and heap[0][0] <= self.clock:
            at, key = heapq.heappop(heap)
            if self._scheduled.get(key) != at:
                continue
            del self._scheduled[key]
            value = self.state.get(key)
            if value is None:
                continue
            deadline = self.fold.deadline(key, value)
            if deadline is None:
                continue
            if deadline > at:
                self._scheduled[key] = deadline
                heapq.heappush(heap, (deadline, key))
                continue
            tx = self._tx(offset)
            self.fold.due(tx, key, value)
            self._apply(tx, counts)


def _position(packed: bytes) -> Position:
    try:
        position = msgspec.json.decode(packed, type=Position)
    except msgspec.MsgspecError as error:
        raise UnreadableStateError(f"position record: {error}") from error
    if position.format != STATE_FORMAT:
        raise UnreadableStateError(f"its format is {position.format}, this version reads {STATE_FORMAT}")
    return position


FoldFactory = Callable[[], Fold]
