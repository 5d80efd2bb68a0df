"""What a stage is: a fold over one partition's records, on keyed state, with timers on the partition's clock.

State is values, which are immutable, so that a fold replaces them, and journals, which only grow at their end: what a
record does is an overlay, kept whole or dropped whole.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

from pipeline.contracts.headers import Headers
from pipeline.contracts.rejections import Rejection
from pipeline.stages.journal import Item, Journal

P = ParamSpec("P")
T = TypeVar("T")
POSITION_KEY = "!"
"""State key of the position record; it sorts before every key of a fold."""


class Record(Protocol):
    """One record of the source topic, as the client library gives it."""

    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int:
        """Append time, milliseconds."""
        ...

    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Headers: ...


class Output(NamedTuple):
    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Tx:
    """What one record or one timer does: reads through to the state, collects changes, outputs and counts."""

    __slots__ = (
        "_journals", "_state", "appended", "appends", "changes", "clock", "counts", "offset", "outputs", "partition",
        "trims",
    )  # fmt: skip

    def __init__(
        self, state: Mapping[str, Any], journals: Mapping[str, Journal], clock: int, partition: int, offset: int
    ) -> None:
        self._state = state
        self._journals = journals
        self.clock = clock
        """The partition's time: its highest append time so far, milliseconds."""
        self.partition = partition
        self.offset = offset
        """The record being folded, or the one whose arrival fires the timer: the origin of what comes out."""
        self.changes: dict[str, Any] = {}
        self.appended: list[tuple[str, Item]] = []
        self.trims: dict[str, int | None] = {}
        self.outputs: list[Output] = []
        self.appends: list[Output] = []
        self.counts: dict[str, int] = {}

    def get(self, key: str) -> Any:
        return self.changes[key] if key in self.changes else self._state.get(key)

    def put(self, key: str, value: Any) -> None:
        """Replaces the value; None deletes the key."""
        self.changes[key] = value

    def journal(self, name: str) -> Journal | None:
        """As it was before this record or timer; None where nothing has been written to it."""
        return self._journals.get(name)

    def items(self, name: str, first: int) -> Sequence[Any]:
        """A journal from index `first` on, with what has been appended just now."""
        journal = self._journals.get(name)
        before = journal.items(first) if journal is not None else []
        return [*before, *(item for at, item in self.appended if at == name)]

    def write(self, name: str, item: Item) -> None:
        """Appends to a journal."""
        self.appended.append((name, item))

    def trim(self, name: str, start: int | None) -> None:
        """Items of a journal below this index are no longer needed; None: the whole journal isn't."""
        self.trims[name] = start

    def emit(self, output: Output) -> None:
        self.outputs.append(output)

    def append(self, record: Output) -> None:
        """Appends to the log itself: before the transaction and outside of it, so perhaps twice after a crash."""
        self.appends.append(record)

    def count(self, name: str, n: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + n


def attempt(tx: Tx, count: str, otherwise: T, compute: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What is made of events must not stop the events: where a pure computation fails, `otherwise`, and a counter.

    A record that cannot be folded is rejected as poison, but a timer has no record to reject: without this, content
    that makes a timer raise would end the worker again at every start.
    """
    try:
        return compute(*args, **kwargs)
    except (MemoryError, OSError):
        raise
    except Exception:  # noqa: BLE001  whatever mining raises, it raises it again for the same content
        tx.count(count)
        return otherwise


class Fold(Protocol):
    """A stage's rule for one partition. Pure: the same state, clock and record give the same effects."""

    def decode(self, key: str, value: bytes) -> Any:
        """A state record's value, of a journal's block its items; raises for bytes that `encode` did not write."""
        ...

    def encode(self, key: str, value: Any) -> bytes: ...

    def deadline(self, key: str, value: Any) -> int | None:
        """The clock, in milliseconds, at which `due` is to be called for this value; None: never."""
        ...

    def changed(self, key: str, old: Any, new: Any) -> None:
        """A change has been kept: secondary indexes follow. Called for restored records too."""
        ...

    def fold(self, tx: Tx, record: Record) -> None: ...

    def due(self, tx: Tx, key: str, value: Any) -> None:
        """The deadline of this value has come. Must move or remove it."""
        ...

    def reject(self, tx: Tx, record: Record, rejection: Rejection) -> None:
        """The record goes to the dead letters."""
        ...
