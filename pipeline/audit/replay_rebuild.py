"""The log folded once more, into shadow topics: by the worker's folds, without its transactions, and without appending.

Enters: a cut. Leaves: shadow topics, written to their ends. Fails as reading and writing Kafka does; an exception of a
fold's timer is raised as it is in the worker.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import orjson

from pipeline.audit.replay_artifacts import PatternName, pattern_of
from pipeline.audit.replay_topics import Cut, Shadow
from pipeline.audit.rows import Row, Sources, row_of
from pipeline.contracts.evidence import EvidenceControl
from pipeline.contracts.headers import KIND
from pipeline.contracts.keys import split_key
from pipeline.contracts.limits import BATCH_BYTES, BATCH_RECORDS
from pipeline.kafka.clients import Cluster, Watermarks, read_partition
from pipeline.kafka.positions import stored_positions
from pipeline.stages.executor import Executor, FoldFactory
from pipeline.topology import (
    ARTIFACTS,
    EVENTS,
    EVENTS_DLQ,
    EVIDENCE,
    EVIDENCE_DLQ,
    PATTERNS,
    SESSIONS,
    STAGES,
    Stage,
)

LOOK_EVERY: Final = 500

Progress = Callable[[str, int, int], None]
"""What is being done, how far it is, and how much there is, in offsets."""


class Rebuild:
    """Folds the log once more, into shadow topics."""

    def __init__(
        self, cluster: Cluster, folds: Mapping[str, FoldFactory], prefix: str, cut: Cut, on_progress: Progress
    ) -> None:
        self._cluster = cluster
        self._folds = folds
        self._stored = {stage.name: stored_positions(cluster, stage, prefix) for stage in STAGES}
        self._on_progress = on_progress
        self._sources = Sources(cluster, prefix)
        self.prefix = prefix
        self.cut = cut
        self.events = 0
        self.evidence = 0

    def rows(self, name: str, partition: int, marks: Watermarks, **settings: Any) -> Iterator[Row]:
        return map(row_of, read_partition(self._cluster.kafka, name, partition, marks, **settings))

    def marks(self, name: str, partition: int) -> Watermarks:
        return self._cluster.watermarks(name, partition)

    def watched(self, what: str, total: int) -> Callable[[Iterable[Row]], Iterator[Row]]:
        return watched(self._on_progress, what, total)

    def sessions(self, shadow: Shadow) -> list[list[Watermarks]]:
        """Source partition → of each evidence partition where in the shadow topic stands what came of it."""
        sources = self.cut.sources[EVENTS]
        watch = self.watched("folding events", sum(marks.high - marks.low for marks in sources))
        made, before = [], self._evidence_ends(shadow)
        for partition, marks in enumerate(sources):
            executor = Executor(self._folds[SESSIONS.name](), partition)
            self._decide(executor, SESSIONS)
            for batch in batches(watch(self._sources.rows(EVENTS, EVENTS_DLQ, partition, marks))):
                for part in executor.parts(batch):
                    shadow.write(part.effects.outputs)
                self.events += len(batch)
            shadow.flush()
            after = self._evidence_ends(shadow)
            made.append([Watermarks(*ends) for ends in zip(before, after, strict=True)])
            before = after
        return made

    def patterns(self, shadow: Shadow) -> None:
        """From the rebuilt evidence, and until everything is said that there is to say."""
        ends = self._evidence_ends(shadow)
        watch = self.watched("folding rebuilt evidence", sum(ends))
        for partition, end in enumerate(ends):
            rows = watch(self.rows(shadow.prefix + EVIDENCE, partition, Watermarks(0, end)))
            executor = self._fold_evidence(rows, partition, shadow)
            shadow.write(executor.run([_barrier(partition)]).outputs)
        shadow.flush()

    def patterns_again(self, again: Shadow) -> set[PatternName]:
        """From the evidence as it is; the patterns that had more to say than the pipeline had said."""
        sources = self.cut.sources[EVIDENCE]
        watch = self.watched("folding evidence", sum(marks.high - marks.low for marks in sources))
        moving: set[PatternName] = set()
        for partition, marks in enumerate(sources):
            name = self.prefix + EVIDENCE
            rows = self._sources.rows(EVIDENCE, EVIDENCE_DLQ, partition, marks)
            executor = self._fold_evidence(watch(rows), partition, again, self._decide)
            said = executor.run([_barrier(partition)]).outputs
            artifacts = (output.value for output in said if output.topic == ARTIFACTS)
            moving |= {pattern_of(orjson.loads(value)) for value in artifacts if value is not None}
            rest = Watermarks(marks.high, self.cut.outputs[EVIDENCE][partition].high)
            moving |= {_pattern(row) for row in self.rows(name, partition, rest)}
        again.flush()
        return moving

    def _fold_evidence(
        self, rows: Iterable[Row], partition: int, into: Shadow, decide: Callable[[Executor, Stage], None] | None = None
    ) -> Executor:
        executor = Executor(self._folds[PATTERNS.name](), partition)
        if decide is not None:
            decide(executor, PATTERNS)
        for batch in batches(rows):
            for part in executor.parts(batch):
                into.write(part.effects.outputs)
            self.evidence += len(batch)
        return executor

    def _decide(self, executor: Executor, stage: Stage) -> None:
        """What killed workers would end the replay; and what Kafka has refused the pipeline, it may take now."""
        stored = self._stored[stage.name][executor.partition]
        if stored is not None:
            executor.decided(stored)

    def _evidence_ends(self, shadow: Shadow) -> list[int]:
        count = len(self.cut.sources[EVIDENCE])
        return [self.marks(shadow.prefix + EVIDENCE, partition).high for partition in range(count)]


def watched(on_progress: Progress, what: str, total: int) -> Callable[[Iterable[Row]], Iterator[Row]]:
    """Lets rows through and says how far this is."""
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


def batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """As many as the worker folds at once; how they are cut does not matter."""
    pulled = iter(rows)
    while batch := list(islice(_small(pulled), BATCH_RECORDS)):
        yield batch


def _small(rows: Iterator[Row]) -> Iterator[Row]:
    """Until there are as many bytes as fit into a batch."""
    size = 0
    for row in rows:
        yield row
        size += len(row.value or b"")
        if size >= BATCH_BYTES:
            return


def _pattern(evidence: Row) -> PatternName:
    """What a contribution is about; a name that no pattern has where it is none."""
    tenant_id, _, rest = (evidence.key or b"").decode(errors="replace").partition("/")
    return PatternName(*split_key(f"{tenant_id}/{rest.partition('/')[0]}"))


def _barrier(partition: int) -> Row:
    """Makes every pattern speak that has something to say. It stands in no log."""
    value = EvidenceControl(kind="barrier", barrier_id="replay", partition=0, partitions=1).to_json()
    return Row(partition, 0, 0, b"barrier", value, [(KIND, b"barrier")])
