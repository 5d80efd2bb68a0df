"""State recovery from the log: folds it anew, up to exactly where the outputs have been published.

Input: the log's records in order, the last records of this partition in the output topics, and the stored position if
it is readable. Output: state records and position. Raises what a fold's timer raises.

A transaction may end between two timers, or between two turns. So the position alone does not say how far the outputs
go: near it the log is folded step by step, until everything that was published has come out again. The newest origin
does not say it either, because an event that waited is released by a later record than its own.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hmx_pipeline.stages.executor import Executor, Part, StagePosition
from hmx_pipeline.stages.fold import Output, Record


class Placed(NamedTuple):
    """A record of an output topic."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class LastOutputs(NamedTuple):
    """The last published outputs of a source partition."""

    origin: int = -1
    """The newest offset that an output names as its origin, which therefore has been read; -1 without outputs."""
    records: frozenset[Placed] = frozenset()
    """The last record of each output partition."""


class Refold:
    def __init__(self, executor: Executor) -> None:
        """The executor must be new, and must know the decisions on single records."""
        self.executor = executor
        self.state: dict[str, bytes] = {}
        self.position = 0
        """The next offset to fold."""
        self.unmade: set[Placed] = set()
        """Published records that have not come out again. If any remain at the end, the log was folded differently
        then."""
        self._made: set[Placed] = set()
        self._tentative: dict[str, bytes | None] = {}
        self._stands = (0, dict[str, int]())
        """Clock and counts at the position."""

    def expect(self, published: LastOutputs) -> None:
        self.unmade = set(published.records) - self._made

    def fold(self, batches: Iterable[Sequence[Record]]) -> None:
        """Fold records whose outputs are certainly published: those before `LastOutputs.origin`."""
        for batch in batches:
            for part in self.executor.parts(batch):
                self._keep(part, batch[-1].offset + 1)

    def finish(self, records: Iterable[Record], origin: int, position: int | None) -> None:
        """Fold from `LastOutputs.origin` on, up to the stored position and what was published beyond it; without a
        position, as far as outputs were published. The executor is unusable afterwards."""
        self.executor.part_steps = 1
        for record, following in _followed(records):
            if not self._step_through(record, following, origin, position):
                break
        if position is not None:
            self.position = position

    def _step_through(self, record: Record, following: int, origin: int, position: int | None) -> bool:
        """Fold one record in steps; return False once the outputs go no further."""
        beyond = record.offset >= position if position is not None else record.offset > origin
        begun = False
        for part in self.executor.parts([record]):
            # A record before another one was committed as a whole; of the last one, perhaps not all turns.
            certain = position is not None and not beyond and (following < position or not begun)
            silent = position is not None and not (beyond or part.effects.outputs or part.effects.appends)
            if (not self.unmade and not certain and not silent) or (position is not None and beyond and part.folded):
                return False
            begun = begun or part.folded > 0
            self._keep(part, following if part.folded else record.offset, tentative=beyond)
        return True

    def position_record(self, topic_id: str, lost: tuple[tuple[int, int], ...]) -> StagePosition:
        clock, counts = self._stands
        return StagePosition(
            position=self.position,
            clock=clock,
            topic_id=topic_id,
            counts=counts,
            lost=lost,
            condemned=tuple(sorted(self.executor.condemned)),
            unsendable=tuple(sorted(self.executor.unsendable)),
        )

    def _keep(self, part: Part, position: int, *, tentative: bool = False) -> None:
        """Keep a part. A tentative part counts only once everything published has come out."""
        if self.unmade:
            came = self.unmade.intersection(map(placed, part.effects.outputs))
            self._made |= came
            self.unmade -= came
        self._tentative |= part.effects.changes
        if tentative and self.unmade:
            return
        for key, value in self._tentative.items():
            if value is None:
                self.state.pop(key, None)
            else:
                self.state[key] = value
        self._tentative.clear()
        self.position = position
        self._stands = self.executor.clock, dict(self.executor.counts)


def placed(output: Output) -> Placed:
    headers = tuple((name, value) for name, value in output.headers)
    return Placed(output.topic, output.partition, output.key, output.value, headers)


def difference(stored: dict[str, bytes], state: dict[str, bytes]) -> dict[str, bytes | None]:
    """Return the changes from the stored state to the new one; None deletes a record."""
    gone: dict[str, bytes | None] = {key: None for key in stored if key not in state}
    return gone | {key: value for key, value in state.items() if stored.get(key) != value}


def _followed(records: Iterable[Record]) -> Iterator[tuple[Record, int]]:
    """Yield each record with the offset of the next one, because offsets have gaps."""
    before: Record | None = None
    for record in records:
        if before is not None:
            yield before, record.offset
        before = record
    if before is not None:
        yield before, before.offset + 1
