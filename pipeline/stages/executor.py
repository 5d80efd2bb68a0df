"""The executor: drives a fold over one partition, record by record, however the records were cut into batches.

Before each record: clock = max(clock, append time); what is due fires, in (deadline, key) order; then the record is
folded. Work in turns is done as soon as it has begun, before anything else. Between timers and between turns a batch
can be cut into parts, transactions of their own: on the state of one part, the next goes on at the same record and
clock. What a record has begun is kept whole or undone whole. A record whose fold raises the same exception twice on
the same state is rejected as poison; errors of memory and I/O are never taken for poison. An exception in a timer is
raised. A record that the position record condemns is rejected unseen. So is a record with an output that is larger than
Kafka takes: beyond our own bound at once, beyond that of a topic when Kafka has refused it, which the position record
keeps.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from pipeline.contracts.headers import ORIGIN_OFFSET, header
from pipeline.contracts.limits import PART_BYTES, PART_STEPS, RECORD_BYTES
from pipeline.contracts.rejections import Reason, Rejection
from pipeline.stages.fold import POSITION_KEY, Fold, Output, Record, Tx
from pipeline.stages.formats import FORMATS, STATE_FORMAT, Formats, UnreadableStateError
from pipeline.stages.journal import Journal


class Unsendable(NamedTuple):
    """What Kafka has refused for good. A decision, not to be found out again: a replay needs it."""

    offset: int
    """Of the record that it comes of."""
    topic: str = ""
    """Empty: the record is rejected. Otherwise what it brings about in this topic under this key is left out."""
    key: str = ""


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
    unsendable: tuple[Unsendable, ...] = ()
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


class Part(NamedTuple):
    """What a transaction holds."""

    effects: Effects
    folded: int
    """So many of the batch's records are through. The next one may have fired timers already."""
    end: bool
    """All of them are, with all that they have begun."""


class Executor:
    def __init__(self, fold: Fold, partition: int, formats: Formats = FORMATS) -> None:
        self.fold = fold
        self.partition = partition
        self.migrated: dict[str, bytes | None] = {}
        """What restoring has brought to the current format: to be written before anything else is."""
        self.part_steps = PART_STEPS
        """Timers and turns that a part may hold."""
        self._formats = formats
        self.counts: Counter[str] = Counter()
        self.condemned: set[int] = set()
        self.unsendable: set[Unsendable] = set()
        self._tx = Tx(partition, fold)
        self._steps = self._size = self._weighed = 0
        """Of the part under way: timers and turns, bytes put out, and of how many outputs these are."""

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
        """The earliest clock at which something may be due. What is unfinished is."""
        return self._tx.next_due if self.fold.unfinished is None else self.clock

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
        if not latest:
            return None
        self.migrated = self._formats.migrate(latest)
        position = _position(latest.pop(POSITION_KEY))
        for key in sorted(latest):  # a journal's blocks in their order
            try:
                self._tx.load(key, latest[key])
            except (MemoryError, OSError):
                raise
            except Exception as error:  # whatever decoding raises for bytes that no fold has written
                raise UnreadableStateError(key, f"it can't be decoded: {type(error).__name__}") from error
        self._tx.clock = position.clock
        self.counts = Counter(position.counts)
        self.decided(position)
        return position

    def decided(self, position: Position) -> None:
        """Takes over what was decided of single records."""
        self.condemned, self.unsendable = set(position.condemned), set(position.unsendable)

    def run(self, records: Sequence[Record]) -> Effects:
        """Folds the records, as if in one part. When it raises, the executor is spent: restore a new one."""
        parts = [part.effects for part in self.parts(records)]
        if len(parts) == 1:
            return parts[0]
        whole = Effects([], [], {}, Counter())
        for part in parts:
            whole.outputs.extend(part.outputs)
            whole.appends.extend(part.appends)
            whole.changes.update(part.changes)
            whole.counts.update(part.counts)
        return whole

    def parts(self, records: Sequence[Record]) -> Iterator[Part]:
        """Folds the records; a part is to be committed before the next is asked for. Raises as `run`."""
        tx, whole_fold, condemned = self._tx, self.fold, self.condemned
        fold = whole_fold.fold
        tx.refused = refused = {one.offset for one in self.unsendable if not one.topic}
        self._start()
        if whole_fold.unfinished is not None:
            yield from self._finish(0)
        for folded, record in enumerate(records):
            if record.timestamp > tx.clock:
                tx.clock = record.timestamp
            if tx.timers and tx.timers[0][0] <= tx.clock:
                yield from self._fire(record.offset, folded)
            tx.begin(record.offset)
            try:
                if record.offset in condemned:
                    whole_fold.reject(tx, record, Rejection(Reason.DEADLY))
                elif record.offset in refused:
                    whole_fold.reject(tx, record, Rejection(Reason.OUTPUT_REFUSED))
                else:
                    fold(tx, record)
                    if tx.largest > RECORD_BYTES // 2 and tx.largest_output() > RECORD_BYTES:
                        tx.undo()
                        whole_fold.reject(tx, record, Rejection(Reason.OUTPUT_REFUSED))
            except (MemoryError, OSError):
                raise
            except Exception as error:  # noqa: BLE001  whatever it is, it may be the record's fault
                self._once_more(record, _named(error))
            if tx.trims:
                tx.trim_journals()
            if whole_fold.unfinished is not None:
                yield from self._finish(folded + 1)
        yield self._part(len(records), end=True)

    def position_record(self, position: int, topic_id: str, lost: tuple[tuple[int, int], ...], tries: int = 0) -> bytes:
        return msgspec.json.encode(
            Position(
                position=position,
                clock=self.clock,
                topic_id=topic_id,
                counts=dict(self.counts),
                lost=lost,
                condemned=tuple(sorted(self.condemned)),
                unsendable=tuple(sorted(self.unsendable)),
                tries=tries,
                format=self._formats.current,
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

    def _fire(self, offset: int, folded: int) -> Iterator[Part]:
        tx = self._tx
        while (due := tx.pop_due()) is not None:
            tx.begin(offset)
            self.fold.due(tx, *due)
            tx.trim_journals()
            if self.fold.unfinished is not None:
                yield from self._finish(folded)
            elif self._is_full():
                yield self._part(folded)

    def _finish(self, folded: int) -> Iterator[Part]:
        tx = self._tx
        while (offset := self.fold.unfinished) is not None:
            tx.begin(offset)
            self.fold.go_on(tx)
            tx.trim_journals()
            if self._is_full():
                yield self._part(folded)

    def _is_full(self) -> bool:
        """One more timer or turn: is it enough for a transaction?"""
        self._steps += 1
        self._size += sum(len(output.value or b"") for output in self._tx.outputs[self._weighed :])
        self._weighed = len(self._tx.outputs)
        return self._steps >= self.part_steps or self._size >= PART_BYTES

    def _part(self, folded: int, *, end: bool = False) -> Part:
        tx = self._tx
        outputs = tx.outputs
        if self.unsendable:
            outputs = [output for output in outputs if unsendable(output) not in self.unsendable]
            tx.count("output_left_out", len(tx.outputs) - len(outputs))
        counts = Counter(tx.counted)
        self.counts.update(counts)
        effects = Effects(outputs, tx.appends, tx.changes(), counts)
        self._start()
        return Part(effects, folded, end)

    def _start(self) -> None:
        self._tx.start_batch()
        self._steps = self._size = self._weighed = 0


def unsendable(output: Output) -> Unsendable:
    """How it is named that Kafka has refused this one. Raises ValueError for what no fold has put out."""
    return Unsendable(
        int(header(output.headers, ORIGIN_OFFSET) or b""), output.topic, (output.key or b"").decode("latin-1")
    )


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _position(packed: bytes) -> Position:
    try:
        return msgspec.json.decode(packed, type=Position)
    except ValueError as error:
        raise UnreadableStateError(POSITION_KEY, "the position record is damaged") from error


FoldFactory = Callable[[], Fold]
