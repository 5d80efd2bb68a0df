"""State rebuild: writes a partition's unreadable stage state anew from the log (`hmx state rebuild`).

Enters: settings, a stage, a partition. Leaves: the state topic as the stage would have written it, in one transaction
under the partition's transactional id, so no worker writes meanwhile. No output is written. Raises RebuildError (then
nothing has changed), TopicsError, KafkaException.

The published outputs show how far the stage had come: the fold ends when it has made the last output of each topic. So
the position is known even if its record is unreadable. Most of the log is folded before fencing.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import NamedTuple

import msgspec

from hmx_pipeline.audit.replay_fold import Progress, batches, watched
from hmx_pipeline.audit.source_rows import Row, TopicRows
from hmx_pipeline.contracts.headers import REASON, header, origin_of
from hmx_pipeline.contracts.rejections import Reason
from hmx_pipeline.kafka.clients import Cluster, Watermarks, plain_producer
from hmx_pipeline.kafka.preflight import existing_topics
from hmx_pipeline.runtime.stage_folds import fold_factories
from hmx_pipeline.runtime.transaction import AbortedError, FencedError, Transactions
from hmx_pipeline.settings import Settings
from hmx_pipeline.stages.executor import Executor, StagePosition, Unsendable, read_position
from hmx_pipeline.stages.fold import POSITION_KEY
from hmx_pipeline.stages.refold import LastOutputs, Placed, Refold, difference
from hmx_pipeline.stages.state_formats import NewerStateError, UnreadableStateError
from hmx_pipeline.topology import Stage


class RebuildError(Exception):
    pass


class Rebuilt(NamedTuple):
    stage: str
    partition: int
    position: int
    """Next offset that the stage reads."""
    folded: int
    """Number of log records folded."""
    records: int
    """Number of state records."""
    written: int
    removed: int
    notes: list[str]
    """What the state lacks."""


def rebuild_state(
    settings: Settings, stage: Stage, partition: int, *, force: bool = False, on_progress: Progress = lambda *_: None
) -> Rebuilt:
    """Rebuilds one partition. `force` also rebuilds readable or incomplete state; the notes say what is lost."""
    partitions = existing_topics(settings, stage.source, stage.state, *stage.outputs, stage.dead_letters)
    if not 0 <= partition < partitions[stage.source]:
        raise RebuildError(
            f"{stage.source} has no partition {partition}: there are 0 to {partitions[stage.source] - 1}"
        )
    with closing(Cluster(settings.require_kafka())) as cluster:
        rebuild = _StateRebuild(settings, stage, partition, cluster, on_progress, force=force)
        log = TopicRows(cluster, settings.topic_prefix)
        try:
            return rebuild.run(PublishedOutputs(log, stage, partition, partitions))
        except (FencedError, AbortedError) as error:
            raise RebuildError(
                f"the state was not written ({error}): a worker may just have taken over the partition. Nothing was"
                " changed: run the command again"
            ) from error
        finally:
            rebuild.close()


class _StateRebuild:
    def __init__(
        self, settings: Settings, stage: Stage, partition: int, cluster: Cluster, on_progress: Progress, *, force: bool
    ) -> None:
        self._settings = settings
        self._stage = stage
        self._partition = partition
        self._cluster = cluster
        self._on_progress = on_progress
        self._force = force
        self._notes: list[str] = []
        self._folded = 0
        self._source = settings.topic_prefix + stage.source
        self._state = settings.topic_prefix + stage.state
        self._log = plain_producer(settings.require_kafka())
        self._transactions = Transactions(
            cluster, stage, partition, settings.topic_prefix, settings.transaction_timeout_ms, self._log
        )
        self._new_fold = fold_factories(settings, cluster)[stage.name]
        self._refold = Refold(Executor(self._new_fold(), partition))

    def run(self, outputs: "PublishedOutputs") -> Rebuilt:
        present = self._present()
        self._check_state(present)
        marks = self._cluster.watermarks(self._source, self._partition)
        if marks.low > 0:
            self._insist(
                f"retention deleted {self._source}/{self._partition} below offset {marks.low}, so the rebuilt state is"
                " incomplete: sessions that began there start anew, patterns lose those contributions, and a repeat of"
                " a deleted event is no longer recognised as a duplicate"
            )
        published = outputs.newest(self._on_progress)
        self._refold.expect(published)
        self._decide(_stored(present), outputs)
        self._refold.position = marks.low
        self._refold.fold(batches(self._rows(published.origin)))
        self._transactions.fence()
        # Nobody else writes from here on, so what is read now stays valid.
        present = self._present()
        stored = _stored(present)
        topic_id = self._cluster.topic(self._source).topic_id
        if stored is not None and stored.topic_id != topic_id:
            raise RebuildError(f"{self._source} was deleted and created again: the state belongs to the former topic")
        published = outputs.newest(self._on_progress)
        self._refold.expect(published)
        self._decide(stored, outputs)
        self._refold.fold(batches(self._rows(published.origin)))
        # A stored position below the published outputs is stale: the broker has lost the state after it.
        position = stored.position if stored is not None and stored.position >= published.origin else None
        log_end = self._cluster.watermarks(self._source, self._partition).high
        self._refold.finish(self._rows(log_end), published.origin, position)
        if self._refold.unmade:
            topics = ", ".join(sorted({record.topic for record in self._refold.unmade}))
            self._insist(
                f"the log, folded again, does not produce the last records of {topics}: set HMX_ORDERING and"
                " HMX_WINDOW_MS to the worker's values, and use the release that wrote them. If the position is"
                f" unreadable too, outputs after offset {published.origin} may be published twice"
            )
        return self._write(present, stored, topic_id)

    def _write(self, present: dict[str, bytes], stored: StagePosition | None, topic_id: str) -> Rebuilt:
        record = self._refold.position_record(topic_id, stored.lost if stored is not None else ())
        if self._notes and stored is not None:
            record = msgspec.structs.replace(record, counts=stored.counts)
        changes = difference({key: value for key, value in present.items() if key != POSITION_KEY}, self._refold.state)
        self._on_progress("writing the state", 0, len(changes))
        self._transactions.write((), changes, msgspec.json.encode(record))
        removed = sum(value is None for value in changes.values())
        return Rebuilt(
            self._stage.name, self._partition, record.position, self._folded, len(self._refold.state),
            len(changes) - removed, removed, self._notes,
        )  # fmt: skip

    def _decide(self, stored: StagePosition | None, outputs: "PublishedOutputs") -> None:
        """Takes decisions on single records from the position record, or else from the dead letters."""
        if stored is not None:
            self._refold.executor.decided(stored)
        else:
            self._refold.executor.condemned |= outputs.rejected[Reason.DEADLY]
            self._refold.executor.unsendable |= set(map(Unsendable, outputs.rejected[Reason.OUTPUT_REFUSED]))

    def _check_state(self, present: dict[str, bytes]) -> None:
        try:
            Executor(self._new_fold(), self._partition).restore(present.items())
        except NewerStateError as error:
            self._insist(f"{self._state}/{self._partition}: {error}. Start that release: it needs no rebuild")
        except UnreadableStateError:
            return
        else:
            self._insist(f"{self._state}/{self._partition} can be read: no rebuild is needed")

    def _insist(self, why: str) -> None:
        if not self._force:
            raise RebuildError(f"{why}. Nothing was changed; add --force to rebuild it anyway")
        self._notes.append(why)

    def _present(self) -> dict[str, bytes]:
        latest: dict[str, bytes] = {}
        marks = self._cluster.watermarks(self._state, self._partition)
        for _, key, value in self._transactions.state_records(marks):
            if value is None:
                latest.pop(key, None)
            else:
                latest[key] = value
        return latest

    def _rows(self, end: int) -> Iterator[Row]:
        """Yields the log from the offset that has been folded so far."""
        marks = Watermarks(self._refold.position, max(end, self._refold.position))
        watch = watched(self._on_progress, "folding the log", marks.high - marks.low)
        topics = TopicRows(self._cluster, self._settings.topic_prefix)
        for row in watch(topics.source(self._stage, self._partition, marks)):
            self._folded += 1
            yield row

    def close(self) -> None:
        self._transactions.close()
        self._log.close()


def _stored(present: dict[str, bytes]) -> StagePosition | None:
    """Returns the stored position; None if it is unreadable."""
    try:
        return read_position(present.get(POSITION_KEY, b""))
    except ValueError:
        return None


class PublishedOutputs:
    """What the output topics hold of a source partition, read incrementally."""

    def __init__(self, log: TopicRows, stage: Stage, partition: int, partitions: Mapping[str, int]) -> None:
        self._log = log
        self._stage = stage
        self._partition = partition
        places = [(topic, n) for topic in stage.outputs for n in range(partitions[topic])]
        self._read = dict.fromkeys([*places, (stage.dead_letters, partition)], 0)
        self._newest = -1
        self._last: dict[tuple[str, int], Placed] = {}
        self.rejected: dict[Reason, set[int]] = {Reason.DEADLY: set(), Reason.OUTPUT_REFUSED: set()}
        """Offsets rejected by decisions that a fold does not repeat."""

    def newest(self, on_progress: Progress) -> LastOutputs:
        marks = {place: self._log.marks(*place) for place in self._read}
        ahead = {place: Watermarks(max(low, self._read[place]), high) for place, (low, high) in marks.items()}
        watch = watched(on_progress, "reading outputs", sum(high - low for low, high in ahead.values() if high > low))
        for place, unread in ahead.items():
            for row in watch(self._log.rows(*place, unread)):
                self._see(place, row)
            self._read[place] = unread.high
        return LastOutputs(self._newest, frozenset(self._last.values()))

    def _see(self, place: tuple[str, int], row: Row) -> None:
        origin = origin_of(row.headers)
        if origin is None or origin[0] != self._partition:
            return
        self._newest = max(self._newest, origin[1])
        self._last[place] = Placed(*place, row.key, row.value, tuple(row.headers))
        if place[0] == self._stage.dead_letters:
            reason = header(row.headers, REASON)
            for decided, offsets in self.rejected.items():
                if reason == decided.encode():
                    offsets.add(origin[1])
