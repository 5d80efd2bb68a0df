"""What a fold reads and changes: the state of one partition, and what a record or a timer does to it.

State is values, which are immutable and are replaced, and journals, which grow at their end. Changes take effect at
once and are remembered until the record or timer is through, so that what one has begun can be undone as a whole.

What nobody has looked at for a while is packed: most sessions of a day are over, and as bytes they take a fraction.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from cramjam import lz4

from pipeline.stages.journal import JOURNAL, Item, Journal, block_key, block_of
from pipeline.stages.output import Output

STALE_TIMERS: Final = 1_024


REST_MS: Final = 5 * 60 * 1000
"""Of the partition's clock: what has not been looked at for that long, and at most twice as long, is packed."""


class Codec(Protocol):
    """What a fold says of its state."""

    at_rest: str
    """First letters of the keys whose values may be packed while nobody looks at them."""

    def decode(self, key: str, value: bytes) -> Any:
        """A state record's value, of a journal's block its items; raises for bytes that `encode` did not write."""
        ...

    def encode(self, key: str, value: Any) -> bytes: ...

    def deadline(self, key: str, value: Any) -> int | None:
        """The clock, in milliseconds, at which `due` is to be called for this value; None: never."""
        ...

    def changed(self, key: str, old: Any, new: Any) -> None:
        """A value was replaced: secondary indexes follow. Called for restored records and undone changes too."""
        ...


class Tx:
    __slots__ = (
        "_appended", "_begun", "_changed", "_codec", "_deadline", "_dirty", "_journals", "_packed_at", "_removed",
        "_scheduled", "_state", "_undo", "_warm", "_warm_before", "_written", "appends", "clock", "counted", "largest",
        "offset", "outputs", "partition", "refused", "timers", "trims",
    )  # fmt: skip

    def __init__(self, partition: int, codec: Codec) -> None:
        self._codec = codec
        self._deadline = codec.deadline
        self._changed = codec.changed
        self.partition = partition
        self._state: dict[str, Any] = {}
        self._journals: dict[str, Journal] = {}
        self._warm: dict[str, None] = {}
        """Keys that were looked at since the last packing; journals by the name of their blocks."""
        self._warm_before: dict[str, None] = {}
        self._packed_at = 0
        self.largest = 0
        """Bytes of the batch's largest value so far, so that few records are asked for theirs."""
        self.clock = 0
        """The partition's time: its highest append time so far, milliseconds."""
        self.offset = -1
        """The record being folded, or the one whose arrival fires the timer: the origin of what comes out."""
        self.timers: list[tuple[int, str]] = []
        """A heap of (deadline, key)."""
        self._scheduled: dict[str, int] = {}
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
        """Replaces the value; None deletes the key."""
        old = self._state.get(key)
        if type(old) is bytes:
            old = self._unpacked(key, old)
        self._undo.append((key, old))
        self._dirty[key] = None
        self.keep(key, old, value)

    def journal(self, name: str) -> Journal | None:
        journal = self._journals.get(name)
        if journal is not None and journal.packed:
            journal.unpack(lambda packed: self._decoded(JOURNAL, packed))
            self._warm[JOURNAL + name] = None
        return journal

    def items(self, name: str, first: int) -> Sequence[Any]:
        """A journal from index `first` on."""
        journal = self.journal(name)
        return journal.items(first) if journal is not None else []

    def write(self, name: str, item: Item) -> None:
        """Appends to a journal."""
        journal = self._journals.get(name)
        if journal is None:
            journal = self._journals[name] = Journal()
        elif journal.packed:
            self.journal(name)
        journal.append(item)
        self._appended.append(name)
        self._written[name] = None

    def trim(self, name: str, start: int | None) -> None:
        """Once the record or timer is through: a journal's items below this index go; None: the whole journal."""
        self.trims[name] = start

    def emit(self, output: Output) -> None:
        self.outputs.append(output)
        if output.value is not None and len(output.value) > self.largest:
            self.largest = len(output.value)

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
        self.largest = 0
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
        self._undo.clear()
        self._appended.clear()
        if self.trims:
            self.trims.clear()

    def trim_journals(self) -> None:
        """The record or timer is through."""
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
        """Bytes of key and value, of what the record has put out."""
        return max([len(one.key or b"") + len(one.value or b"") for one in self.outputs[self._begun[0] :]], default=0)

    def undo(self) -> None:
        """As if the record had not begun. Keys count as dirty all the same: what they hold is written once more."""
        for key, old in self._undo[::-1]:
            self.keep(key, self.get(key), old)
        for name in self._appended[::-1]:
            self._journals[name].pop()
        outputs, appends, counted = self._begun
        del self.outputs[outputs:], self.appends[appends:], self.counted[counted:]
        self.begin(self.offset)

    def keep(self, key: str, old: Any, value: Any) -> None:
        """The value, its timer and the fold's indexes."""
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
        """The next key whose deadline the clock has reached, in (deadline, key) order, and its value."""
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
        """A record of the state topic; a journal's blocks come in their order. Raises what decoding raises."""
        value = self._codec.decode(key, packed)
        if key.startswith(JOURNAL):
            name, first = block_of(key)
            self._journals.setdefault(name, Journal()).load(first, _pack(packed))
            return
        self.keep(key, None, value)
        if key[0] in self._codec.at_rest:
            self._state[key] = _pack(packed)

    def changes(self) -> dict[str, bytes | None]:
        """What the batch has changed of the state, as records of its topic."""
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
        """All values, packed or not; what is packed stays so."""
        return _Values(self._state, self._decoded)

    def journals(self) -> Mapping[str, Journal]:
        for name in self._journals:
            self.journal(name)
        return self._journals

    @property
    def records(self) -> int:
        """Values and journals."""
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
        """One heap entry per key that is never later than the true deadline; moved on when it comes up too early."""
        self._scheduled[key] = deadline
        heapq.heappush(self.timers, (deadline, key))

    def _sweep(self) -> None:
        """Timers of what is gone would stay until their time, a day for a session: they go once they are the most."""
        if len(self.timers) > 2 * len(self._scheduled) + STALE_TIMERS:
            self.timers = [(at, key) for key, at in self._scheduled.items()]
            heapq.heapify(self.timers)


class _Values(Mapping[str, Any]):
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
