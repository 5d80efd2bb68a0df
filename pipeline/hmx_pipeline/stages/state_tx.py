"""`Tx`, the state of one partition in memory, no Kafka transaction: values, append logs and timers, with undo for each
record or timer.

Enters: a fold's changes and outputs; at a restore, records of the state topic. Leaves: a batch's outputs, counts and
changed state records, and the timers that are due. Values are immutable and are replaced; append logs grow at their
end. Changes take effect at once and are remembered until the record or timer is finished, so that they can be undone as
a whole. State that has not been used for a while is compressed: most sessions of a day are over, and take a fraction as
bytes.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from cramjam import lz4

from hmx_pipeline.stages.append_log import JOURNAL, AppendLog, Item, block_key, block_of
from hmx_pipeline.stages.output import Output

STALE_TIMERS: Final = 1_024


REST_MS: Final = 5 * 60 * 1000
"""Time on the partition's clock after which unused state is compressed (at most twice as long)."""


class Codec(Protocol):
    """How a fold stores its state."""

    at_rest: str
    """First letters of the keys whose values may be compressed while unused."""

    def decode(self, key: str, value: bytes) -> Any:
        """Decode a state record, or the items of an append log's block. Raises for bytes that `encode` did
        not write."""
        ...

    def encode(self, key: str, value: Any) -> bytes: ...

    def deadline(self, key: str, value: Any) -> int | None:
        """Return the clock, in milliseconds, at which `due` is called for this value; None for never."""
        ...

    def changed(self, key: str, old: Any, new: Any) -> None:
        """Update secondary indexes after a value was replaced. Called for restored records and undone changes too."""
        ...


class Tx:
    __slots__ = (
        "_appended", "_begun", "_changed", "_codec", "_deadline", "_dirty", "_journals", "_packed_at", "_removed",
        "_scheduled", "_state", "_undo", "_warm", "_warm_before", "_written", "appends", "clock", "coming", "counted",
        "largest", "offset", "outputs", "partition", "refused", "timers", "trims",
    )  # fmt: skip

    def __init__(self, partition: int, codec: Codec) -> None:
        self._codec = codec
        self._deadline = codec.deadline
        self._changed = codec.changed
        self.partition = partition
        self._state: dict[str, Any] = {}
        self._journals: dict[str, AppendLog] = {}
        self._warm: dict[str, None] = {}
        """Keys used since the last compression; append logs by the prefix of their blocks."""
        self._warm_before: dict[str, None] = {}
        self._packed_at = 0
        self.largest = 0
        """Bytes of the batch's largest output value so far, so that `largest_output` runs for few records."""
        self.clock = 0
        """The partition's time: its highest append time so far, in milliseconds."""
        self.offset = -1
        """Offset of the record being folded, or of the one whose arrival fired the timer: the origin of outputs."""
        self.timers: list[tuple[int, str]] = []
        """A heap of (deadline, key)."""
        self._scheduled: dict[str, int] = {}
        self.coming: Iterator[Any] = iter(())
        """The batch's records that will be folded; a fold may read ahead in them."""
        self.refused: set[int] = set()
        """Offsets of records whose own output Kafka has refused."""
        self._undo: list[tuple[str, Any]] = []
        self._appended: list[str] = []
        self.trims: dict[str, int | None] = {}
        self.start_batch()

    # what folds call

    def get(self, key: str) -> Any:
        value = self._state.get(key)
        return self._unpacked(key, value) if type(value) is bytes else value

    def put(self, key: str, value: Any) -> None:
        """Replace a value; None deletes the key."""
        old = self._state.get(key)
        if type(old) is bytes:
            old = self._unpacked(key, old)
        self._undo.append((key, old))
        self._dirty[key] = None
        self.keep(key, old, value)

    def journal(self, name: str) -> AppendLog | None:
        journal = self._journals.get(name)
        if journal is not None and journal.packed:
            journal.unpack(lambda packed: self._decoded(JOURNAL, packed))
            self._warm[JOURNAL + name] = None
        return journal

    def items(self, name: str, first: int) -> Sequence[Any]:
        """Return an append log's items from index `first` on."""
        journal = self.journal(name)
        return journal.items(first) if journal is not None else []

    def write(self, name: str, item: Item) -> None:
        """Append to an append log."""
        journal = self._journals.get(name)
        if journal is None:
            journal = self._journals[name] = AppendLog()
        elif journal.packed:
            self.journal(name)
        journal.append(item)
        self._appended.append(name)
        self._written[name] = None

    def trim(self, name: str, start: int | None) -> None:
        """Drop an append log's items below this index (None: the whole log) when the record or timer is finished."""
        self.trims[name] = start

    def emit(self, output: Output) -> None:
        self.outputs.append(output)
        if output.value is not None and len(output.value) > self.largest:
            self.largest = len(output.value)

    def append(self, record: Output) -> None:
        """Append to the log itself, before and outside the transaction, so perhaps twice after a crash."""
        self.appends.append(record)

    def count(self, name: str, n: int = 1) -> None:
        if n == 1:
            self.counted.append(name)
        else:
            self.counted.extend((name,) * n)

    # what the executor calls

    def start_batch(self) -> None:
        self.outputs: list[Output] = []
        self.largest = 0
        self.appends: list[Output] = []
        self.counted: list[str] = []
        self._dirty: dict[str, None] = {}
        self._written: dict[str, None] = {}
        self._removed: dict[str, None] = {}
        self.begin(self.offset)

    def begin(self, offset: int) -> None:
        """Begin a record or timer; the changes of the one before are final."""
        self.offset = offset
        self._begun = (len(self.outputs), len(self.appends), len(self.counted))
        self._undo.clear()
        self._appended.clear()
        if self.trims:
            self.trims.clear()

    def trim_journals(self) -> None:
        """Apply the requested trims at the end of a record or timer."""
        for name, start in self.trims.items():
            journal = self.journal(name)
            if journal is None:
                continue
            journal.trim(journal.end if start is None else start)
            self._written[name] = None
            if start is None:
                self._removed.update((block_key(name, first), None) for first in journal.outlived())
                del self._journals[name]

    def largest_output(self) -> int:
        """Return the bytes of key and value of the record's largest output."""
        return max([len(one.key or b"") + len(one.value or b"") for one in self.outputs[self._begun[0] :]], default=0)

    def undo(self) -> None:
        """Undo everything since the record began. Its keys stay marked as changed, so their old values are written
        again."""
        for key, old in self._undo[::-1]:
            self.keep(key, self.get(key), old)
        for name in self._appended[::-1]:
            self._journals[name].pop()
        outputs, appends, counted = self._begun
        del self.outputs[outputs:], self.appends[appends:], self.counted[counted:]
        self.begin(self.offset)

    def keep(self, key: str, old: Any, value: Any) -> None:
        """Set a value, with its timer and the fold's indexes."""
        if value is not None:
            self._state[key] = value
            deadline = self._deadline(key, value)
            if deadline is not None and ((known := self._scheduled.get(key)) is None or deadline < known):
                self._schedule(key, deadline)
        elif old is not None:
            del self._state[key]
            if self._scheduled.pop(key, None) is not None:
                self._sweep()
        else:
            return
        self._changed(key, old, value)

    @property
    def next_due(self) -> int | None:
        """The earliest clock at which something may be due."""
        return self.timers[0][0] if self.timers else None

    def pop_due(self) -> tuple[str, Any] | None:
        """Return the next due key and its value, in (deadline, key) order; None if nothing is due."""
        heap = self.timers
        while heap and heap[0][0] <= self.clock:
            at, key = heapq.heappop(heap)
            if self._scheduled.get(key) != at:
                continue
            del self._scheduled[key]
            value = self.get(key)
            deadline = self._deadline(key, value) if value is not None else None
            if deadline is None:
                continue
            if deadline <= at:
                return key, value
            self._schedule(key, deadline)
        return None

    def load(self, key: str, packed: bytes) -> None:
        """Load a record of the state topic; an append log's blocks must come in order. Raises what decoding raises."""
        value = self._codec.decode(key, packed)
        if key.startswith(JOURNAL):
            name, first = block_of(key)
            self._journals.setdefault(name, AppendLog()).load(first, _pack(packed))
            return
        self.keep(key, None, value)
        if key[0] in self._codec.at_rest:
            self._state[key] = _pack(packed)

    def changes(self) -> dict[str, bytes | None]:
        """Return what the batch has changed, as records of the state topic."""
        encode = self._codec.encode
        changes: dict[str, bytes | None] = dict.fromkeys(self._removed)
        for key in self._dirty:
            value = self.get(key)
            changes[key] = None if value is None else encode(key, value)
        for name in self._written:
            journal = self._journals.get(name)
            if journal is None:
                continue
            self._warm[JOURNAL + name] = None
            for first in journal.outlived():
                changes[block_key(name, first)] = None
            for first, block in journal.unwritten(partial(encode, JOURNAL)):
                changes[block_key(name, first)] = block
        self._warm.update(self._dirty)
        if self.clock - self._packed_at >= REST_MS:
            self._pack_what_rests()
        return changes

    def values(self) -> Mapping[str, Any]:
        """Return all values; compressed ones stay compressed."""
        return _DecodedState(self._state, self._decoded)

    def journals(self) -> Mapping[str, AppendLog]:
        for name in self._journals:
            self.journal(name)
        return self._journals

    @property
    def records(self) -> int:
        """Number of values and append logs."""
        return len(self._state) + len(self._journals)

    def _decoded(self, key: str, packed: bytes) -> Any:
        return self._codec.decode(key, bytes(lz4.decompress_block(packed)))

    def _unpacked(self, key: str, packed: bytes) -> Any:
        value = self._state[key] = self._decoded(key, packed)
        self._warm[key] = None
        return value

    def _pack_what_rests(self) -> None:
        for key in self._warm_before.keys() - self._warm.keys():
            if key.startswith(JOURNAL):
                journal = self._journals.get(key[len(JOURNAL) :])
                if journal is not None:
                    journal.pack(lambda items: _pack(self._codec.encode(JOURNAL, items)))
            elif key[0] in self._codec.at_rest:
                value = self._state.get(key)
                if value is not None and type(value) is not bytes:
                    self._state[key] = _pack(self._codec.encode(key, value))
        self._warm_before, self._warm, self._packed_at = self._warm, {}, self.clock

    def _schedule(self, key: str, deadline: int) -> None:
        """Add a heap entry. A key has one valid entry, never later than its deadline; it is moved if it
        comes up early."""
        self._scheduled[key] = deadline
        heapq.heappush(self.timers, (deadline, key))

    def _sweep(self) -> None:
        """Drop timers of deleted keys once they are the majority; otherwise each would stay until its time, a day for a
        session."""
        if len(self.timers) > 2 * len(self._scheduled) + STALE_TIMERS:
            self.timers = [(at, key) for key, at in self._scheduled.items()]
            heapq.heapify(self.timers)


class _DecodedState(Mapping[str, Any]):
    def __init__(self, state: Mapping[str, Any], decoded: Callable[[str, bytes], Any]) -> None:
        self._state = state
        self._decoded = decoded

    def __getitem__(self, key: str) -> Any:
        value = self._state[key]
        return self._decoded(key, value) if type(value) is bytes else value

    def __contains__(self, key: object) -> bool:
        return key in self._state

    def __iter__(self) -> Iterator[str]:
        return iter(self._state)

    def __len__(self) -> int:
        return len(self._state)


def _pack(value: bytes) -> bytes:
    return bytes(lz4.compress_block(value))
