"""A journal: an append-only list, read by index and by id, and trimmed at its beginning.

What a session has released lately is one. It is written in blocks, one per batch that appended to it, so that a batch
of many events costs one record; a block goes when all that is in it has been trimmed. A journal that nobody looks at
is packed: its items are bytes until it is unpacked, which must come before anything else is asked of it.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final, Protocol

from pipeline.contracts.limits import BLOCK_BYTES

JOURNAL: Final = "e/"
"""State keys of blocks begin so: `e/{journal}/{index of the first item}`."""


class Item(Protocol):
    @property
    def event_id(self) -> str: ...


def block_key(name: str, first: int) -> str:
    return f"{JOURNAL}{name}/{first:012d}"


def block_of(key: str) -> tuple[str, int]:
    """Journal and first index of a block's key."""
    name, _, first = key[len(JOURNAL) :].rpartition("/")
    return name, int(first)


class Journal:
    __slots__ = ("_blocks", "_indexes", "_items", "_start", "_written", "packed")

    def __init__(self, start: int = 0) -> None:
        self._start = start
        """Index of the first item that is still there."""
        self._items: list[Any] = []
        self._indexes: dict[str, int] = {}
        self._blocks: list[int] = []
        self._written = start
        """Items below this index stand in a block."""
        self.packed: list[bytes] = []
        """Its blocks, where nobody has looked at it for a while."""

    @property
    def end(self) -> int:
        return self._start + len(self._items)

    def append(self, item: Item) -> None:
        self._indexes[item.event_id] = self._start + len(self._items)
        self._items.append(item)

    def pop(self) -> None:
        """Takes the last item away again, which stands in no block yet."""
        gone = self._items.pop()
        before = (index for index, item in enumerate(self._items, self._start) if item.event_id == gone.event_id)
        self._indexes[gone.event_id] = last = max(before, default=-1)
        if last < 0:
            del self._indexes[gone.event_id]

    def index(self, event_id: str) -> int:
        """Of the last item with this id; -1 where there is none."""
        return self._indexes.get(event_id, -1)

    def item(self, index: int) -> Any:
        return self._items[index - self._start]

    def items(self, first: int) -> Sequence[Any]:
        """From `first`, or the first that is still there, to the end."""
        return self._items[max(first - self._start, 0) :]

    def trim(self, start: int) -> None:
        """Items below `start` are no longer needed."""
        gone = self._items[: max(start - self._start, 0)]
        for index, item in enumerate(gone, self._start):
            if self._indexes[item.event_id] == index:
                del self._indexes[item.event_id]
        del self._items[: len(gone)]
        self._start += len(gone)

    # blocks

    def load(self, first: int, block: bytes) -> None:
        """A packed block as it was written; blocks come in the order of their items."""
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
        """All that it holds has been written."""
        if self._items:
            self.packed = [packed(self._items)]
            self._items, self._indexes = [], {}

    def unwritten(self, packed: Callable[[Sequence[Any]], bytes]) -> list[tuple[int, bytes]]:
        """The blocks that are to be written now, each behind the index of its first item; they count as written. One
        that is too large is halved, so far as it has several items."""
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
        """Blocks that hold nothing any more; they count as deleted."""
        blocks = self._blocks
        if not blocks or self._start < (blocks[1] if len(blocks) > 1 else self._written):
            return []
        ends = [*self._blocks[1:], self._written]
        kept = next((n for n, end in enumerate(ends) if end > self._start), len(ends))
        gone, self._blocks = self._blocks[:kept], self._blocks[kept:]
        return gone
