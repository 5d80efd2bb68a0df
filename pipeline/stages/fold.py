"""What a stage is: a fold over one partition's records, on keyed state, with timers on the partition's clock.

A fold does to the state what a `Tx` offers; what it has begun with a record is kept whole or undone whole.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

from pipeline.contracts.headers import Headers
from pipeline.contracts.rejections import Rejection
from pipeline.stages.output import Output
from pipeline.stages.tx import Codec, Tx

P = ParamSpec("P")
T = TypeVar("T")
__all__ = ["POSITION_KEY", "Backlog", "Fold", "Output", "Record", "Tx", "attempt", "spared"]
POSITION_KEY = "!"
"""State key of the position record; it sorts before every key of a fold."""


class Record(NamedTuple):
    """One record of the source topic; the client libraries' own take several times as long to make."""

    partition: int
    offset: int
    timestamp: int
    """Append time, milliseconds."""
    key: bytes | None
    value: bytes | None
    headers: Headers


def attempt(tx: Tx, count: str, otherwise: T, compute: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What is made of events must not stop the events: where a pure computation fails, `otherwise`, and a counter.

    A record that cannot be folded is rejected as poison, but a timer has no record to reject: without this, content
    that makes a timer raise would end the worker again at every start. What the machine raises is raised on.
    """
    try:
        return compute(*args, **kwargs)
    except Exception as error:  # noqa: BLE001  whatever mining raises, it raises it again for the same content
        return spared(tx, count, error, otherwise)


def spared(tx: Tx, count: str, error: Exception, otherwise: T) -> T:
    """What `attempt` does where a computation has failed; for the two that every event comes by."""
    if isinstance(error, MemoryError | OSError):
        raise error
    tx.count(count)
    return otherwise


class Backlog(NamedTuple):
    """What a fold has accepted and not yet published."""

    waiting: int
    """Events behind gaps, or patterns that are to be compiled."""
    sessions: int
    """Sessions with such events."""


class Fold(Codec, Protocol):
    """A stage's rule for one partition. Pure: the same state, clock and record give the same effects."""

    def fold(self, tx: Tx, record: Record) -> None: ...

    def due(self, tx: Tx, key: str, value: Any) -> None:
        """The deadline of this value has come. Must move or remove it."""
        ...

    @property
    def unfinished(self) -> int | None:
        """Offset at which work was begun that is done in turns, while some is left: nothing else happens meanwhile."""
        ...

    @property
    def backlog(self) -> Backlog:
        """Read by another thread, so it may be a moment old."""
        ...

    def go_on(self, tx: Tx) -> None:
        """One turn of it."""
        ...

    def reject(self, tx: Tx, record: Record, rejection: Rejection) -> None:
        """The record goes to the dead letters."""
        ...
