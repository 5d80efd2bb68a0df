"""The fold protocol: a stage folds one partition's records on keyed state, with timers on the partition's clock.

Enters: a `Record`, a value whose deadline has come, or a turn of unfinished work. Leaves: changes, outputs and counts
in the `Tx`. `stages/sessions` and `stages/patterns` implement it. What a fold has begun with a record is kept or undone
as a whole.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

from pydantic import ValidationError

from hmx_pipeline.contracts.headers import Headers
from hmx_pipeline.contracts.rejections import NewerRecordError, Rejection
from hmx_pipeline.stages.output import Output
from hmx_pipeline.stages.state_tx import Codec, Tx

P = ParamSpec("P")
T = TypeVar("T")
__all__ = ["POSITION_KEY", "Backlog", "Fold", "Output", "Record", "Tx", "attempt", "check_release", "spared"]
POSITION_KEY = "!"
"""State key of the position record; it sorts before every key of a fold."""


class Record(NamedTuple):
    """One record of the source topic; the client libraries' own take several times as long to make."""

    partition: int
    offset: int
    timestamp: int
    """Append time in milliseconds."""
    key: bytes | None
    value: bytes | None
    headers: Headers


def attempt(tx: Tx, count: str, otherwise: T, compute: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a pure computation; if it raises, count that and return `otherwise`. Memory and I/O errors are raised.

    A record that cannot be folded is rejected as poison, but a timer has no record to reject. Without this, content
    that makes a timer raise would end the worker at every start.
    """
    try:
        return compute(*args, **kwargs)
    except Exception as error:  # noqa: BLE001  whatever mining raises, it raises it again for the same content
        return spared(tx, count, error, otherwise)


def spared(tx: Tx, count: str, error: Exception, otherwise: T) -> T:
    """Do what `attempt` does for an exception; for the two computations that run for every event."""
    if isinstance(error, MemoryError | OSError):
        raise error
    tx.count(count)
    return otherwise


def check_release(error: ValidationError) -> None:
    """Raise NewerRecordError if a record of ours is invalid only by fields that this release does not know."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    if all(one["type"] == "extra_forbidden" for one in found):
        raise NewerRecordError(f"this release knows no {'.'.join(map(str, found[0]['loc']))} there") from error


class Backlog(NamedTuple):
    """What a fold has accepted and not yet published."""

    waiting: int
    """Events behind gaps, or patterns to compile."""
    sessions: int
    """Sessions with events behind gaps."""


class Fold(Codec, Protocol):
    """A stage's rule for one partition. Pure: the same state, clock and record give the same effects."""

    def fold(self, tx: Tx, record: Record) -> None: ...

    def due(self, tx: Tx, key: str, value: Any) -> None:
        """Handle a value whose deadline has come. Must move or remove it."""
        ...

    @property
    def unfinished(self) -> int | None:
        """Offset at which unfinished work in turns began; nothing else happens until it is finished. None if there is
        none."""
        ...

    @property
    def backlog(self) -> Backlog:
        """What waits in the state. Another thread reads it, so it may be slightly out of date."""
        ...

    def go_on(self, tx: Tx) -> None:
        """Do one turn of it."""
        ...

    def reject(self, tx: Tx, record: Record, rejection: Rejection) -> None:
        """Emit the record to the dead letters."""
        ...
