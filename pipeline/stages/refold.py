"""A partition's state folded anew from its log, up to where its outputs have been published, and not a step further.

Enters: the log's records in order, what the output topics hold last of this partition, and the stored position where
it can be read. Leaves: the state records and the position. Pure; raises what a fold's timer raises.

A transaction may end between two timers, or between two turns of what a record has begun. So a position alone does not
say how far the outputs go: near it the log is folded step by step, and the first step that puts out something that
is not published yet is left to the worker.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pipeline.stages.executor import Executor, Part, Position
from pipeline.stages.fold import Output, Record


class Placed(NamedTuple):
    """A record of an output topic."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None


class Published(NamedTuple):
    """What came last of a source partition."""

    origin: int = -1
    """The newest offset that an output names as its origin; -1: there is no output."""
    records: frozenset[Placed] = frozenset()
    """The last record of that origin in each output partition."""


class Refold:
    def __init__(self, executor: Executor) -> None:
        """The executor is fresh, and knows what was decided of single records."""
        self.executor = executor
        self.state: dict[str, bytes] = {}
        self.position = 0
        """Next offset to fold."""
        self.unmade: frozenset[Placed] = frozenset()
        """What stands in the outputs and did not come out again: the log was folded otherwise then."""
        self._stands = (0, dict[str, int]())
        """Clock and counts at the position."""

    def fold(self, batches: Iterable[Sequence[Record]]) -> None:
        """Records whose outputs have all been published: those before `Published.origin`."""
        for batch in batches:
            for part in self.executor.parts(batch):
                self._keep(part, batch[-1].offset + 1)

    def finish(self, records: Iterable[Record], published: Published, position: int | None) -> None:
        """From `Published.origin` on, up to the stored position, or as far as outputs have been published. The executor
        is spent then."""
        self.executor.part_steps = 1
        waited = set(published.records)
        end = published.origin + 1 if position is None else position
        for record, following in _followed(records, end):
            if not self._step_through(record, following, waited, position):
                break
        self.unmade = frozenset(waited)
        if position is not None:
            self.position = position

    def _step_through(self, record: Record, following: int, waited: set[Placed], position: int | None) -> bool:
        """False once the outputs go no further."""
        for part in self.executor.parts([record]):
            if position is not None and record.offset >= position and part.folded:
                return False
            # All of a record that another one has followed was committed, and of the last one all before its turns.
            certain = position is not None and (following < position or self.position < following <= position)
            if (part.effects.outputs or part.effects.appends) and not waited and not certain:
                return False
            waited.difference_update(map(placed, part.effects.outputs))
            self._keep(part, following if part.folded else record.offset)
        return True

    def position_record(self, topic_id: str, lost: tuple[tuple[int, int], ...]) -> Position:
        clock, counts = self._stands
        return Position(
            position=self.position,
            clock=clock,
            topic_id=topic_id,
            counts=counts,
            lost=lost,
            condemned=tuple(sorted(self.executor.condemned)),
            unsendable=tuple(sorted(self.executor.unsendable)),
        )

    def _keep(self, part: Part, position: int) -> None:
        for key, value in part.effects.changes.items():
            if value is None:
                self.state.pop(key, None)
            else:
                self.state[key] = value
        self.position = position
        self._stands = self.executor.clock, dict(self.executor.counts)


def placed(output: Output) -> Placed:
    return Placed(output.topic, output.partition, output.key, output.value)


def difference(stored: dict[str, bytes], state: dict[str, bytes]) -> dict[str, bytes | None]:
    """What makes one state of the other: tombstones for what is not there any more."""
    gone: dict[str, bytes | None] = {key: None for key in stored if key not in state}
    return gone | {key: value for key, value in state.items() if stored.get(key) != value}


def _followed(records: Iterable[Record], end: int) -> Iterator[tuple[Record, int]]:
    """Each record with where the next one stands; offsets have holes."""
    before: Record | None = None
    for record in records:
        if before is not None:
            yield before, record.offset
        before = record
    if before is not None:
        yield before, max(end, before.offset + 1)
