"""A partition's state written anew from the log, where it can't be read any more.

Enters: settings, a stage, a partition. Leaves: the state topic as the stage would have written it, in one transaction
under the partition's own transactional id, so that no owner writes meanwhile; no output is written, and whoever owns
the partition goes on by itself. Fails: RebuildError, with nothing changed; TopicsError, KafkaException.

How far the outputs go is read from them: each names the offset that it comes from, and the last of each topic is looked
for among what the log, folded anew, makes. So it is known too where the position record is what can't be read. Most of
the log is folded before anything is fenced.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import NamedTuple

import msgspec

from pipeline.audit.digests import origin_of
from pipeline.audit.replay_rebuild import Progress, batches, watched
from pipeline.audit.rows import Row, Sources, row_of
from pipeline.contracts.headers import REASON, header
from pipeline.contracts.rejections import Reason
from pipeline.kafka.clients import Cluster, Watermarks, plain_producer, read_partition
from pipeline.kafka.folds import fold_factories
from pipeline.kafka.reach import existing_topics
from pipeline.kafka.transaction import AbortedError, FencedError, Transactions
from pipeline.settings import Settings
from pipeline.stages.executor import Executor, Position, Unsendable
from pipeline.stages.fold import POSITION_KEY
from pipeline.stages.formats import NewerStateError, UnreadableStateError
from pipeline.stages.refold import Placed, Published, Refold, difference
from pipeline.topology import Stage


class RebuildError(Exception):
    pass


class Rebuilt(NamedTuple):
    stage: str
    partition: int
    position: int
    """Next offset that the stage reads."""
    folded: int
    """Records of the log."""
    records: int
    """Of the state."""
    written: int
    removed: int
    notes: list[str]
    """What the state lacks."""


def rebuild_state(
    settings: Settings, stage: Stage, partition: int, *, force: bool = False, on_progress: Progress = lambda *_: None
) -> Rebuilt:
    """`force`: also where the state can be read, or where it can't become what it was; the notes say why."""
    partitions = existing_topics(settings, stage.source, stage.state, *stage.outputs, stage.dead_letters)
    if not 0 <= partition < partitions[stage.source]:
        raise RebuildError(
            f"{stage.source} has no partition {partition}: there are 0 to {partitions[stage.source] - 1}"
        )
    with closing(Cluster(settings.require_kafka())) as cluster:
        rebuild = _Rebuild(settings, stage, partition, cluster, on_progress, force=force)
        try:
            return rebuild.run(PublishedOutputs(cluster, settings.topic_prefix, stage, partition, partitions))
        except (FencedError, AbortedError) as error:
            raise RebuildError(
                f"the state could not be written ({error}), perhaps because a worker has just taken the partition over."
                " Nothing was changed: type the command again"
            ) from error
        finally:
            rebuild.close()


class _Rebuild:
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
                f"retention has taken {self._source}/{self._partition} up to offset {marks.low}: what the state knew"
                " from there is lost. Sessions that began there begin anew, patterns lack those contributions, and"
                " what comes twice from there is no duplicate any more"
            )
        published = outputs.newest(self._on_progress)
        self._refold.expect(published)
        self._decide(_stored(present), outputs)
        self._refold.position = marks.low
        self._refold.fold(batches(self._rows(published.origin)))
        self._transactions.fence()
        # From here on nobody else writes, so what is read now stays so.
        present = self._present()
        stored = _stored(present)
        topic_id = self._cluster.topic(self._source).topic_id
        if stored is not None and stored.topic_id != topic_id:
            raise RebuildError(f"{self._source} is another topic than the one that the state belongs to")
        published = outputs.newest(self._on_progress)
        self._refold.expect(published)
        self._decide(stored, outputs)
        self._refold.fold(batches(self._rows(published.origin)))
        # A position before what has been published is none: the broker has lost the state that came after it.
        position = stored.position if stored is not None and stored.position >= published.origin else None
        log_end = self._cluster.watermarks(self._source, self._partition).high
        self._refold.finish(self._rows(log_end), published.origin, position)
        if self._refold.unmade:
            topics = ", ".join(sorted({record.topic for record in self._refold.unmade}))
            self._insist(
                f"the log, folded anew, does not make what stands last in {topics}: HMX_ORDERING and HMX_WINDOW_MS have"
                " to be the worker's, and the release the one that wrote it. Where the position can't be read either,"
                f" outputs after offset {published.origin} may come twice"
            )
        return self._write(present, stored, topic_id)

    def _write(self, present: dict[str, bytes], stored: Position | None, topic_id: str) -> Rebuilt:
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

    def _decide(self, stored: Position | None, outputs: "PublishedOutputs") -> None:
        """What was decided of single records is known from the position record, or else from the dead letters."""
        if stored is not None:
            self._refold.executor.decided(stored)
        else:
            self._refold.executor.condemned |= outputs.rejected[Reason.DEADLY]
            self._refold.executor.unsendable |= set(map(Unsendable, outputs.rejected[Reason.OUTPUT_REFUSED]))

    def _check_state(self, present: dict[str, bytes]) -> None:
        try:
            Executor(self._new_fold(), self._partition).restore(present.items())
        except NewerStateError as error:
            self._insist(f"{self._state}/{self._partition}: {error}: that release goes on by itself")
        except UnreadableStateError:
            return
        else:
            self._insist(f"{self._state}/{self._partition} can be read: there is nothing to rebuild")

    def _insist(self, why: str) -> None:
        if not self._force:
            raise RebuildError(f"{why}. Nothing was changed; --force rebuilds it all the same")
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
        """The log from where it has been folded to."""
        marks = Watermarks(self._refold.position, max(end, self._refold.position))
        watch = watched(self._on_progress, "folding the log", marks.high - marks.low)
        sources = Sources(self._cluster, self._settings.topic_prefix)
        for row in watch(sources.rows(self._stage.source, self._stage.dead_letters, self._partition, marks)):
            self._folded += 1
            yield row

    def close(self) -> None:
        self._transactions.close()
        self._log.close()


def _stored(present: dict[str, bytes]) -> Position | None:
    """None where it can't be read."""
    try:
        return msgspec.json.decode(present.get(POSITION_KEY, b""), type=Position)
    except ValueError:
        return None


class PublishedOutputs:
    """What the output topics hold of a source partition, read on from where it was read up to before."""

    def __init__(
        self, cluster: Cluster, prefix: str, stage: Stage, partition: int, partitions: Mapping[str, int]
    ) -> None:
        self._cluster = cluster
        self._prefix = prefix
        self._stage = stage
        self._partition = partition
        places = [(topic, n) for topic in stage.outputs for n in range(partitions[topic])]
        self._read = dict.fromkeys([*places, (stage.dead_letters, partition)], 0)
        self._newest = -1
        self._last: dict[tuple[str, int], Placed] = {}
        self.rejected: dict[Reason, set[int]] = {Reason.DEADLY: set(), Reason.OUTPUT_REFUSED: set()}
        """By a decision that no fold makes anew."""

    def newest(self, on_progress: Progress) -> Published:
        marks = {place: self._cluster.watermarks(self._prefix + place[0], place[1]) for place in self._read}
        ahead = {place: Watermarks(max(low, self._read[place]), high) for place, (low, high) in marks.items()}
        watch = watched(on_progress, "reading outputs", sum(high - low for low, high in ahead.values() if high > low))
        for place, (low, high) in ahead.items():
            name = self._prefix + place[0]
            messages = read_partition(self._cluster.kafka, name, place[1], Watermarks(low, high))
            for row in watch(map(row_of, messages)):
                self._see(place, row)
            self._read[place] = high
        return Published(self._newest, frozenset(self._last.values()))

    def _see(self, place: tuple[str, int], row: Row) -> None:
        origin = origin_of(row)
        if origin is None or origin[0] != self._partition:
            return
        self._newest = max(self._newest, origin[1])
        self._last[place] = Placed(*place, row.key, row.value, tuple(row.headers))
        if place[0] == self._stage.dead_letters:
            reason = header(row.headers, REASON)
            for decided, offsets in self.rejected.items():
                if reason == decided.encode():
                    offsets.add(origin[1])
