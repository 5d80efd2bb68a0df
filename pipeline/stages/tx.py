"""What a fold reads and changes: the state of one partition, and what a record or a timer does to it.

State is values, which are immutable and are replaced, and journals, which grow at their end. Changes take effect at
once and are remembered until the record or timer is through, so that what one has begun can be undone as a whole.
"""

import heapq
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from pipeline.contracts.headers import Headers
from pipeline.stages.journal import Item, Journal, block_key

STALE_TIMERS: Final = 1_024


class Output(NamedTuple):
    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Tx:
    """`deadline` and `changed` are the fold's."""

    __slots__ = (
        "_appended", "_begun", "_changed", "_deadline", "_dirty", "_heap", "_removed", "_scheduled", "_trims", "_undo",
        "_written", "appends", "clock", "counted", "journals", "offset", "outputs", "partition", "state",
    )  # fmt: skip

    def __init__(
        self, partition: int, deadline: Callable[[str, Any], int | None], changed: Callable[[str, Any, Any], None]
    ) -> None:
        self._deadline = deadline
        self._changed = changed
        self.partition = partition
        self.state: dict[str, Any] = {}
        self.journals: dict[str, Journal] = {}
        self.clock = 0
        """The partition's time: its highest append time so far, milliseconds."""
        self.offset = -1
        """The record being folded, or the one whose arrival fires the timer: the origin of what comes out."""
        self._heap: list[tuple[int, str]] = []
        self._scheduled: dict[str, int] = {}
        self.start_batch()

    # what folds call

    def get(self, key: str) -> Any:
        return self.state.get(key)

    def put(self, key: str, value: Any) -> None:
        """Replaces the value; None deletes the key."""
        old = self.state.get(key)
        self._undo.append((key, old))
        self._dirty[key] = None
        self.keep(key, old, value)

    def items(self, name: str, first: int) -> Sequence[Any]:
        """A journal from index `first` on."""
        journal = self.journals.get(name)
        return journal.items(first) if journal is not None else []

    def write(self, name: str, item: Item) -> None:
        """Appends to a journal."""
        journal = self.journals.get(name)
        if journal is None:
            journal = self.journals[name] = Journal()
        journal.append(item)
        self._appended.append(name)
        self._written[name] = None

    def trim(self, name: str, start: int | None) -> None:
        """Once the record or timer is through: a journal's items below this index go; None: the whole journal."""
        self._trims[name] = start

    def emit(self, output: Output) -> None:
        self.outputs.append(output)

    def append(self, record: Output) -> None:
        """Appends to the log itself: before the transaction and outside of it, so perhaps twice after a crash."""
        self.appends.append(record)

    def count(self, name: str, n: int = 1) -> None:
        if n == 1:
            self.counted.append(name)
        else:
            self.counted.extend((name,) * n)

    # what the executor calls

    def start_batch(self) -> None:
        self.outputs: list[Output] = []
        self.appends: list[Output] = []
        self.counted: list[str] = []
        self._dirty: dict[str, None] = {}
        self._written: dict[str, None] = {}
        self._removed: dict[str, None] = {}
        self.begin(self.offset)

    def begin(self, offset: int) -> None:
        """A record or a timer begins; what the one before did stays."""
        self.offset = offset
        self._begun = (len(self.outputs), len(self.appends), len(self.counted))
        self._undo: list[tuple[str, Any]] = []
        self._appended: list[str] = []
        self._trims: dict[str, int | None] = {}

    def end(self) -> None:
        """The record or timer is through."""
        if self._trims:
            self._trim()

    def undo(self) -> None:
        """As if the record had not begun. Keys count as dirty all the same: what they hold is written once more."""
        for key, old in reversed(self._undo):
            self.keep(key, self.state.get(key), old)
        for name in reversed(self._appended):
            self.journals[name].pop()
        outputs, appends, counted = self._begun
        del self.outputs[outputs:], self.appends[appends:], self.counted[counted:]
        self.begin(self.offset)

    def keep(self, key: str, old: Any, value: Any) -> None:
        """The value, its timer and the fold's indexes."""
        if value is not None:
            self.state[key] = value
            deadline = self._deadline(key, value)
            if deadline is not None:
                self._schedule(key, deadline)
        elif old is not None:
            del self.state[key]
            if self._scheduled.pop(key, None) is not None:
                self._sweep()
        else:
            return
        self._changed(key, old, value)

    @property
    def next_due(self) -> int | None:
        """The earliest clock at which something may be due."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self) -> tuple[str, Any] | None:
        """The next key whose deadline the clock has reached, in (deadline, key) order, and its value."""
        heap = self._heap
        while heap and heap[0][0] <= self.clock:
            at, key = heapq.heappop(heap)
            if self._scheduled.get(key) != at:
                continue
            del self._scheduled[key]
            value = self.state.get(key)
            deadline = self._deadline(key, value) if value is not None else None
            if deadline is None:
                continue
            if deadline <= at:
                return key, value
            self._schedule(key, deadline)
        return None

    def changes(self, encode: Callable[[str, Any], bytes]) -> dict[str, bytes | None]:
        """What the batch has changed of the state, as records of its topic."""
        changes: dict[str, bytes | None] = dict.fromkeys(self._removed)
        for key in self._dirty:
            value = self.state.get(key)
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

    def _schedule(self, key: str, deadline: int) -> None:
        """One heap entry per key that is never later than the true deadline; moved on when it comes up too early."""
        known = self._scheduled.get(key)
        if known is None or deadline < known:
            self._scheduled[key] = deadline
            heapq.heappush(self._heap, (deadline, key))

    def _sweep(self) -> None:
        """Timers of what is gone would stay until their time, a day for a session: they go once they are the most."""
        if len(self._heap) > 2 * len(self._scheduled) + STALE_TIMERS:
            self._heap = [(at, key) for key, at in self._scheduled.items()]
            heapq.heapify(self._heap)

    def _trim(self) -> None:
        for name, start in self._trims.items():
            journal = self.journals.get(name)
            if journal is None:
                continue
            journal.trim(journal.end if start is None else start)
            self._written[name] = None
            if start is None:
                self._removed.update((block_key(name, first), None) for first in journal.outlived())
                del self.journals[name]
