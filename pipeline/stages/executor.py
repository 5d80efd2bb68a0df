"""The executor: drives a fold over one partition, record by record, however the records were cut into batches.

Before each record: clock = max(clock, append time); what is due fires, in (deadline, key) order; then the record is
folded. What a record has begun is kept whole or undone whole. A record whose fold raises the same exception twice on
the same state is rejected as poison; errors of memory and I/O are never taken for poison. An exception in a timer is
raised. A record that the position record condemns is rejected unseen.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from pipeline.contracts.rejections import Reason, Rejection
from pipeline.stages.fold import POSITION_KEY, Fold, Output, Record, Tx
from pipeline.stages.journal import Journal

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
    condemned: tuple[int, ...] = ()
    """Offsets of records that killed whoever folded them. A decision, not to be found out again: a replay needs it."""
    tries: int = 0
    """How often owners have begun to fold what stands here, and none has come to its end (worker.trials)."""
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
        self.counts: Counter[str] = Counter()
        self.condemned: set[int] = set()
        self._tx = Tx(partition, fold)

    @property
    def clock(self) -> int:
        return self._tx.clock

    @property
    def state(self) -> Mapping[str, Any]:
        """Every value by its key."""
        return self._tx.values()

    @property
    def journals(self) -> Mapping[str, Journal]:
        return self._tx.journals()

    @property
    def records(self) -> int:
        """Values and journals."""
        return self._tx.records

    @property
    def next_due(self) -> int | None:
        """The earliest clock at which something may be due."""
        return self._tx.next_due

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
                self._tx.load(key, latest[key])
            except (ValueError, LookupError) as error:
                raise UnreadableStateError(f"state record {key!r}: {type(error).__name__}") from error
        if position is None:
            return None
        self._tx.clock = position.clock
        self.counts = Counter(position.counts)
        self.condemned = set(position.condemned)
        return position

    def run(self, records: Iterable[Record]) -> Effects:
        """Folds the records. When it raises, the executor is spent: restore a new one."""
        tx, fold, condemned = self._tx, self.fold.fold, self.condemned
        tx.start_batch()
        for record in records:
            if record.timestamp > tx.clock:
                tx.clock = record.timestamp
            if tx.timers and tx.timers[0][0] <= tx.clock:
                self._fire(record.offset)
            tx.begin(record.offset)
            try:
                if record.offset in condemned:
                    self.fold.reject(tx, record, Rejection(Reason.DEADLY))
                else:
                    fold(tx, record)
            except (MemoryError, OSError):
                raise
            except Exception as error:  # noqa: BLE001  whatever it is, it may be the record's fault
                self._once_more(record, _named(error))
            if tx.trims:
                tx.trim_journals()
        counts = Counter(tx.counted)
        self.counts.update(counts)
        return Effects(tx.outputs, tx.appends, tx.changes(), counts)

    def position_record(self, position: int, topic_id: str, lost: tuple[tuple[int, int], ...], tries: int = 0) -> bytes:
        return msgspec.json.encode(
            Position(
                position=position,
                clock=self.clock,
                topic_id=topic_id,
                counts=dict(self.counts),
                lost=lost,
                condemned=tuple(sorted(self.condemned)),
                tries=tries,
            )
        )

    def _once_more(self, record: Record, failure: str) -> None:
        """The same failure again, on the same state: it is the record's."""
        self._tx.undo()
        try:
            self.fold.fold(self._tx, record)
        except (MemoryError, OSError):
            raise
        except Exception as error:
            if _named(error) != failure:
                raise
            self._tx.undo()
            self.fold.reject(self._tx, record, Rejection(Reason.POISON, "$", failure.split(":", maxsplit=1)[0]))

    def _fire(self, offset: int) -> None:
        while (due := self._tx.pop_due()) is not None:
            self._tx.begin(offset)
            self.fold.due(self._tx, *due)
            self._tx.trim_journals()


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _position(packed: bytes) -> Position:
    try:
        position = msgspec.json.decode(packed, type=Position)
    except msgspec.MsgspecError as error:
        raise UnreadableStateError(f"position record: {error}") from error
    if position.format != STATE_FORMAT:
        raise UnreadableStateError(f"its format is {position.format}, this version reads {STATE_FORMAT}")
    return position


FoldFactory = Callable[[], Fold]
