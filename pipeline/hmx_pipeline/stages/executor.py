"""The partition executor: runs a fold record by record, fires timers, and cuts batches into transactions.

Enters: `Record`s of one source partition in offset order; at a restore, records of the state topic. Leaves: `Part`s,
each the content of one transaction: outputs, records for the log itself, changed state records and counts. Raises
UnreadableStateError, NewerRecordError. The output does not depend on how records are cut into batches. Before each
record: clock = max(clock, append time), due timers fire in (deadline, key) order, then the record is folded. Work in
turns is finished as soon as it has begun, before anything else. Between timers and between turns a batch can be cut
into parts, each a transaction; the next part goes on with the same record and clock.

What a record has begun is kept or undone as a whole. A record whose fold raises the same exception twice on the same
state is rejected as poison; memory and I/O errors are always raised, and so is an exception in a timer. A record that
the position record condemns is rejected without being folded. A record with an output that is too large is rejected
too: above our own bound at once, above that of a topic once Kafka has refused it, which the position record stores.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from hmx_pipeline.contracts.headers import ORIGIN_OFFSET, header
from hmx_pipeline.contracts.limits import PART_BYTES, PART_STEPS, RECORD_BYTES, REFUSED_BYTES
from hmx_pipeline.contracts.rejections import NewerRecordError, Reason, Rejection
from hmx_pipeline.stages.append_log import AppendLog
from hmx_pipeline.stages.fold import POSITION_KEY, Fold, Output, Record, Tx
from hmx_pipeline.stages.state_formats import FORMATS, STATE_FORMAT, Formats, UnreadableStateError

_ENTRY = 32
"""Bytes of a decision in the position record, besides its texts."""


class Unsendable(NamedTuple):
    """An output that Kafka refused for good. It is stored, because a replay needs the same decision."""

    offset: int
    """Offset of the record that caused it."""
    topic: str = ""
    """Empty: the record is rejected. Else its output in this topic under this key is left out."""
    key: str = ""


class StagePosition(msgspec.Struct, frozen=True, kw_only=True):
    """The position record of the state topic, written in the same transaction as the state."""

    position: int
    """Next offset of the source partition to read."""
    clock: int
    topic_id: str
    """Id of the source topic, which changes when a topic is recreated."""
    counts: dict[str, int]
    """Totals since the partition's first record, by name."""
    lost: tuple[tuple[int, int], ...] = ()
    """Offset ranges [from, to) that retention deleted before they were read."""
    condemned: tuple[int, ...] = ()
    """Offsets of records that killed every worker that folded them. They are stored, because a replay needs the same
    decision."""
    unsendable: tuple[Unsendable, ...] = ()
    tries: int = 0
    """How many owners have begun to fold from this position without finishing (worker.crash_loop_guard)."""
    format: int = STATE_FORMAT


read_position: Final = msgspec.json.Decoder(StagePosition).decode


class Effects(NamedTuple):
    outputs: list[Output]
    appends: list[Output]
    """Records to append to the log itself; a replay leaves them out."""
    changes: dict[str, bytes | None]
    counts: Counter[str]


class Part(NamedTuple):
    """The content of one transaction."""

    effects: Effects
    folded: int
    """Number of records of the batch that are finished. Timers of the next one may have fired already."""
    end: bool
    """True if the batch is finished, with all work that it has begun."""


class Executor:
    def __init__(self, fold: Fold, partition: int, formats: Formats = FORMATS) -> None:
        self.fold = fold
        self.partition = partition
        self.migrated: dict[str, bytes | None] = {}
        """State records that restoring migrated to the current format. They must be written before anything else."""
        self.part_steps = PART_STEPS
        """Most timers and turns in a part."""
        self._formats = formats
        self.counts: Counter[str] = Counter()
        self.condemned: set[int] = set()
        self.unsendable: set[Unsendable] = set()
        self._tx = Tx(partition, fold)
        self._steps = self._size = self._weighed = 0
        """Of the current part: timers and turns, bytes of outputs, and the number of outputs counted in these bytes."""

    @property
    def clock(self) -> int:
        return self._tx.clock

    @property
    def state(self) -> Mapping[str, Any]:
        return self._tx.values()

    @property
    def journals(self) -> Mapping[str, AppendLog]:
        return self._tx.journals()

    @property
    def records(self) -> int:
        """Number of values and append logs."""
        return self._tx.records

    @property
    def next_due(self) -> int | None:
        """The earliest clock at which something may be due. Unfinished work is due now."""
        return self._tx.next_due if self.fold.unfinished is None else self.clock

    def restore(self, records: Iterable[tuple[str, bytes | None]]) -> StagePosition | None:
        """Rebuild the state from the state topic's records, in order. Return the last position record, or None. Raises
        UnreadableStateError."""
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
        for key in sorted(latest):  # an append log's blocks come in their order
            try:
                self._tx.load(key, latest[key])
            except (MemoryError, OSError):
                raise
            except Exception as error:  # decoding bytes that no fold has written may raise anything
                raise UnreadableStateError(key, f"it can't be decoded: {type(error).__name__}") from error
        self._tx.clock = position.clock
        self.counts = Counter(position.counts)
        self.decided(position)
        return position

    def decided(self, position: StagePosition) -> None:
        """Restore the decisions on single records."""
        self.condemned, self.unsendable = set(position.condemned), set(position.unsendable)

    def leave_out(self, refused: Iterable[Unsendable]) -> None:
        """Decide that Kafka refuses these outputs; of all such decisions the newest REFUSED_BYTES are kept."""
        left, kept = REFUSED_BYTES, set[Unsendable]()
        for one in sorted(self.unsendable.union(refused), reverse=True):
            left -= _ENTRY + len(one.topic) + len(one.key)
            if left < 0:
                break
            kept.add(one)
        self.unsendable = kept

    def run(self, records: Sequence[Record]) -> Effects:
        """Fold the records in one part. After an exception the executor is unusable: restore a new one."""
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
        """Fold the records, and yield parts. Commit each part before requesting the next. Raises like `run`."""
        tx, whole_fold, condemned = self._tx, self.fold, self.condemned
        fold = whole_fold.fold
        tx.refused = refused = {one.offset for one in self.unsendable if not one.topic}
        tx.coming = (one for one in records if one.offset not in condemned and one.offset not in refused)
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
            except (MemoryError, OSError, NewerRecordError):
                raise
            except Exception as error:  # noqa: BLE001  any other exception may be the record's fault
                self._once_more(record, _named(error))
            if tx.trims:
                tx.trim_journals()
            if whole_fold.unfinished is not None:
                yield from self._finish(folded + 1)
        yield self._part(len(records), end=True)

    def position_record(self, position: int, topic_id: str, lost: tuple[tuple[int, int], ...], tries: int = 0) -> bytes:
        return msgspec.json.encode(
            StagePosition(
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
        """Fold the record again; the same failure on the same state is the record's fault."""
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
        """Count one more timer or turn; return True if the transaction is full."""
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
    """Return the key of a refused output. Raises ValueError for a record that no fold has emitted."""
    return Unsendable(
        int(header(output.headers, ORIGIN_OFFSET) or b""), output.topic, (output.key or b"").decode("latin-1")
    )


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _position(packed: bytes) -> StagePosition:
    try:
        return read_position(packed)
    except ValueError as error:
        raise UnreadableStateError(POSITION_KEY, "the position record is damaged") from error


FoldFactory = Callable[[], Fold]
