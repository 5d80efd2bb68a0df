"""Replay fold: folds the log again with the worker's folds into shadow topics, without transactions.

Enters: a cut. Leaves: complete shadow topics. Raises what reading and writing Kafka raises, and what a fold's timer
raises, as in the worker.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, TypeVar

import orjson

from hmx_pipeline.audit.replay_artifacts import PatternName, pattern_of
from hmx_pipeline.audit.replay_topics import Cut, Shadow
from hmx_pipeline.audit.source_rows import Row, TopicRows
from hmx_pipeline.contracts.evidence import EvidenceControl
from hmx_pipeline.contracts.headers import KIND
from hmx_pipeline.contracts.keys import split_key
from hmx_pipeline.contracts.limits import BATCH_BYTES, BATCH_RECORDS
from hmx_pipeline.kafka.clients import Cluster, Watermarks
from hmx_pipeline.runtime.stored_positions import stored_positions
from hmx_pipeline.stages.executor import Executor, FoldFactory
from hmx_pipeline.stages.fold import Output
from hmx_pipeline.topology import ARTIFACTS, EVENTS, EVIDENCE, PATTERNS, SESSIONS, STAGES, Stage

R = TypeVar("R", Row, Output)
LOOK_EVERY: Final = 500

Progress = Callable[[str, int, int], None]
"""Called with the current step, offsets done and offsets in total."""


class ReplayFold(TopicRows):
    """The topics of a pipeline, and its folds."""

    def __init__(
        self, cluster: Cluster, folds: Mapping[str, FoldFactory], prefix: str, cut: Cut, on_progress: Progress
    ) -> None:
        super().__init__(cluster, prefix)
        self._folds = folds
        self._stored = {stage: stored_positions(cluster, stage, prefix) for stage in STAGES}
        self.watched = partial(watched, on_progress)
        self.cut = cut
        self.events = 0
        self.evidence = 0

    def sessions(self, shadow: Shadow) -> list[list[Watermarks]]:
        """Folds the events. Returns, per source partition, the range of its output in each shadow evidence
        partition."""
        sources = self.cut.sources[EVENTS]
        watch = self.watched("folding events", sum(marks.high - marks.low for marks in sources))
        made, before = [], self._evidence_ends(shadow)
        for partition, marks in enumerate(sources):
            rows = watch(self.source(SESSIONS, partition, marks))
            self.events += _fold(self._executor(SESSIONS, partition), rows, shadow)
            shadow.flush()
            after = self._evidence_ends(shadow)
            made.append([Watermarks(*ends) for ends in zip(before, after, strict=True)])
            before = after
        return made

    def patterns(self, shadow: Shadow) -> None:
        """Folds the rebuilt evidence, and flushes all pending patterns at the end."""
        ends = self._evidence_ends(shadow)
        watch = self.watched("folding rebuilt evidence", sum(ends))
        for partition, end in enumerate(ends):
            rows = watch(shadow.rows(EVIDENCE, partition, Watermarks(0, end)))
            executor = Executor(self._folds[PATTERNS.name](), partition)
            self.evidence += _fold(executor, rows, shadow)
            shadow.write(executor.run([_barrier(partition)]).outputs)
        shadow.flush()

    def patterns_again(self, again: Shadow) -> set[PatternName]:
        """Folds the pipeline's own evidence. Returns the patterns that the pipeline had not finished."""
        sources = self.cut.sources[EVIDENCE]
        watch = self.watched("folding evidence", sum(marks.high - marks.low for marks in sources))
        moving: set[PatternName] = set()
        for partition, marks in enumerate(sources):
            rows = watch(self.source(PATTERNS, partition, marks))
            executor = self._executor(PATTERNS, partition)
            self.evidence += _fold(executor, rows, again)
            pending = executor.run([_barrier(partition)]).outputs
            artifacts = (output.value for output in pending if output.topic == ARTIFACTS)
            moving |= {pattern_of(orjson.loads(value)) for value in artifacts if value is not None}
            rest = Watermarks(marks.high, self.cut.outputs[EVIDENCE][partition].high)
            moving |= {_pattern(row) for row in self.rows(EVIDENCE, partition, rest)}
        again.flush()
        return moving

    def _executor(self, stage: Stage, partition: int) -> Executor:
        """Applies stored decisions: records that killed workers stay rejected, and so do outputs that Kafka once
        refused."""
        executor = Executor(self._folds[stage.name](), partition)
        stored = self._stored[stage][partition]
        if stored is not None:
            executor.decided(stored)
        return executor

    def _evidence_ends(self, shadow: Shadow) -> list[int]:
        return [shadow.marks(EVIDENCE, partition).high for partition in range(len(self.cut.sources[EVIDENCE]))]


def _fold(executor: Executor, rows: Iterable[Row], into: Shadow) -> int:
    """Returns the number of records folded."""
    folded = 0
    for batch in batches(rows):
        for part in executor.parts(batch):
            into.write(part.effects.outputs)
        folded += len(batch)
    return folded


def watched(on_progress: Progress, what: str, total: int) -> Callable[[Iterable[Row]], Iterator[Row]]:
    """Passes rows through and reports progress."""
    done = 0

    def through(rows: Iterable[Row]) -> Iterator[Row]:
        nonlocal done
        for row in rows:
            done += 1
            if done % LOOK_EVERY == 1:
                on_progress(what, done, total)
            yield row

    on_progress(what, 0, total)
    return through


def batches(rows: Iterable[R], most: int = BATCH_RECORDS, most_bytes: int = BATCH_BYTES) -> Iterator[list[R]]:
    """Cuts rows into batches, by default of the worker's size; the cuts do not change the result of a fold."""
    batch: list[R] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += len(row.value or b"")
        if len(batch) == most or size >= most_bytes:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _pattern(evidence: Row) -> PatternName:
    """Returns the pattern of a contribution; for other records a name that no pattern has."""
    tenant_id, _, rest = (evidence.key or b"").decode(errors="replace").partition("/")
    return PatternName(*split_key(f"{tenant_id}/{rest.partition('/')[0]}"))


def _barrier(partition: int) -> Row:
    """A barrier that flushes every pending pattern. It is in no log."""
    value = EvidenceControl(kind="barrier", barrier_id="replay", partition=0, partitions=1).to_json()
    return Row(partition, 0, 0, b"barrier", value, [(KIND, b"barrier")])
