"""Append log: an append-only list in the state, read by index and id, and trimmed at its start.

Enters: a session's released events in order, or their stored blocks. Leaves: events by index or event id, and the
blocks to write and to delete, which `stages/state_tx` puts among the state's changes. A log is written in blocks, one
per batch that appended to it, so a batch of many events costs one record. A block is deleted when all its items are
trimmed. An unused log is packed: its items are bytes, and it must be unpacked before any other call.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final, Protocol

from hmx_pipeline.contracts.limits import BLOCK_BYTES

JOURNAL: Final = "e/"
"""Prefix of the state keys of blocks: `e/{log}/{index of the first item}`."""


class Item(Protocol):
    @property
    def event_id(self) -> str: ...


def block_key(name: str, first: int) -> str:
    return f"{JOURNAL}{name}/{first:012d}"


def block_of(key: str) -> tuple[str, int]:
    """Return the log and first index of a block's key."""
    name, _, first = key[len(JOURNAL) :].rpartition("/")
    return name, int(first)


class AppendLog:
    __slots__ = ("_blocks", "_indexes", "_items", "_start", "_written", "packed")

    def __init__(self, start: int = 0) -> None:
        self._start = start
        """Index of the first item that is still there."""
        self._items: list[Any] = []
        self._indexes: dict[str, int] = {}
        self._blocks: list[int] = []
        self._written = start
        """Items below this index are in a block."""
        self.packed: list[bytes] = []
        """Its blocks, while it is packed."""

    @property
    def end(self) -> int:
        return self._start + len(self._items)

    def append(self, item: Item) -> None:
        self._indexes[item.event_id] = self._start + len(self._items)
        self._items.append(item)

    def pop(self) -> None:
        """Remove the last item, which must not be in a block yet."""
        gone = self._items.pop()
        before = (index for index, item in enumerate(self._items, self._start) if item.event_id == gone.event_id)
        self._indexes[gone.event_id] = last = max(before, default=-1)
        if last < 0:
            del self._indexes[gone.event_id]

    def index(self, event_id: str) -> int:
        """Return the index of the last item with this id; -1 if there is none."""
        return self._indexes.get(event_id, -1)

    def item(self, index: int) -> Any:
        return self._items[index - self._start]

    def items(self, first: int) -> Sequence[Any]:
        """Return the items from `first`, or from the first that is still there."""
        return self._items[max(first - self._start, 0) :]

    def trim(self, start: int) -> None:
        """Drop the items below `start`."""
        gone = self._items[: max(start - self._start, 0)]
        for index, item in enumerate(gone, self._start):
            if self._indexes[item.event_id] == index:
                del self._indexes[item.event_id]
        del self._items[: len(gone)]
        self._start += len(gone)

    # blocks

    def load(self, first: int, block: bytes) -> None:
        """Load a packed block; blocks must come in order."""
        if not self._blocks:
            self._start = first
        self._blocks.append(first)
        self.packed.append(block)

    def unpack(self, items: Callable[[bytes], Sequence[Any]]) -> None:
        blocks, self.packed = self.packed, []
        for item in chain.from_iterable(map(items, blocks)):
            self.append(item)
        self._written = self.end

    def pack(self, packed: Callable[[Sequence[Any]], bytes]) -> None:
        """Pack all items; they must have been written."""
        if self._items:
            self.packed = [packed(self._items)]
            self._items, self._indexes = [], {}

    def unwritten(self, packed: Callable[[Sequence[Any]], bytes]) -> list[tuple[int, bytes]]:
        """Return the blocks to write, each with the index of its first item, and mark them as written. A block that is
        too large is halved until it has one item."""
        first = max(self._written, self._start)
        blocks, rest = [], [self.items(first)]
        while rest:
            items = rest.pop()
            block = packed(items) if items else b""
            if len(block) > BLOCK_BYTES and len(items) > 1:
                half = len(items) // 2
                rest += [items[half:], items[:half]]
            elif items:
                blocks.append((first, block))
                first += len(items)
        self._blocks += [first for first, _ in blocks]
        self._written = self.end
        return blocks

    def outlived(self) -> list[int]:
        """Return the blocks without items, and mark them as deleted."""
        blocks = self._blocks
        if not blocks or self._start < (blocks[1] if len(blocks) > 1 else self._written):
            return []
        ends = [*self._blocks[1:], self._written]
        kept = next((n for n, end in enumerate(ends) if end > self._start), len(ends))
        gone, self._blocks = self._blocks[:kept], self._blocks[kept:]
        return gone
