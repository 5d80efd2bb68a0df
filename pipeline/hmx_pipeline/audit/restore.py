"""Restore: a backup's records in empty topics, each at the offset that it had (`hmx restore`).

Enters: settings, and a folder that `audit/backup` wrote. Leaves: filled topics, the `Manifest`, and the topics whose
retention is off. Positions, origins and receipts name records by their offsets, so these must stay. Offsets without a
record, which transaction markers and compaction leave, are filled: one by the marker of a transaction, more by an
aborted transaction, which no reader sees. Raises BackupError, TopicsError, KafkaException.
"""

import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from hmx_pipeline.audit.backup import (
    BackupError,
    Manifest,
    Progress,
    StoredRecord,
    StoredTopic,
    file_of,
    manifest_of,
    stored_records,
)
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.kafka.clients import Answered, Cluster, plain_producer, produce, producer_config
from hmx_pipeline.kafka.consumer_lag import members
from hmx_pipeline.kafka.preflight import reaching
from hmx_pipeline.kafka.topic_files import apply, connect, load_topics, read_cluster
from hmx_pipeline.kafka.topic_plan import SettingChange, TopicPlan, TopicSpec, plan
from hmx_pipeline.settings import Settings
from hmx_pipeline.stages.fold import POSITION_KEY
from hmx_pipeline.store.archive import ARCHIVED, ArchivedPartition, MemoryArchive
from hmx_pipeline.topology import RESTORE_ID, STAGES

ANSWER_S: Final = 60.0
GONE_S: Final = 2.0
"""Longest time from a session's timeout to its partitions' being free."""
PIECE_BYTES: Final = 1 * MB
PIECE_RECORDS: Final = 2_000
FILLERS: Final = 100_000
"""Records of an aborted transaction."""
_AGAIN: Final = "Delete the topics that this began to fill, then repeat"
_NEVER: Final = 2**63 - 1
_FILLER: Final = StoredRecord(-1, 1, b"-", None, [])
"""Older than anything, so that retention waits for none."""


class Piece(NamedTuple):
    records: list[StoredRecord]
    """With consecutive offsets."""
    gap: int
    """Number of offsets without a record that follow."""


def restore(settings: Settings, folder: Path, on_progress: Progress) -> tuple[Manifest, list[str]]:
    """Returns what was restored, and the topics whose retention is off, because it would delete some of it at once."""
    manifest, prefix, archive = manifest_of(folder, settings), settings.topic_prefix, MemoryArchive.of(settings)
    wanted = [_counted(spec, manifest.topics.get(spec.topic[len(prefix) :])) for spec in load_topics(prefix=prefix)]
    admin, names = connect(settings.require_kafka()), [spec.topic for spec in wanted]
    with reaching(settings.require_kafka()):
        found = read_cluster(admin, names)
    if found.topics:  # without topics no worker runs
        _await_no_worker(settings)
    if filled := [name for name, topic in found.topics.items() if not topic.empty]:
        raise BackupError(f"topic {filled[0]} is not empty: restore into an empty Kafka, or use another topic prefix")
    apply(admin, plan(map(unbounded, wanted), found))
    with closing(Cluster(settings.require_kafka())) as cluster, closing(_Writer(cluster, admin, prefix)) as writer:
        ids = {topic: cluster.topic(prefix + topic).topic_id for topic in manifest.topics}
        renamed = {stage.state: (manifest.topics[stage.source].topic_id, ids[stage.source]) for stage in STAGES}
        pieces = {
            (topic, number): pieces_of(_positioned(stored_records(file_of(folder, topic, number)), *ids_of), stored.end)
            for topic, of_topic in manifest.topics.items()
            for ids_of in [renamed.get(topic, ("", ""))]
            for number, stored in enumerate(of_topic.partitions)
        }
        writer.write_all(pieces, manifest.records, on_progress)
    _delete_heads(admin, prefix, manifest)
    _adopt(archive, manifest, ids)
    kept = {prefix + topic for topic in outdated(manifest, wanted, prefix)}
    bound(admin, wanted, kept)
    return manifest, sorted(kept)


def _await_no_worker(settings: Settings) -> None:
    """One that runs would process what is restored once more. One that was stopped is a member of the group for a
    while."""
    deadline = time.monotonic() + settings.session_timeout_ms / 1000 + GONE_S
    while found := sorted(worker for worker, _ in members(settings)):
        if time.monotonic() > deadline:
            raise BackupError(f"workers run ({', '.join(found)}): stop them, and start them once all is restored")
        time.sleep(GONE_S / 10)


def _counted(spec: TopicSpec, stored: StoredTopic | None) -> TopicSpec:
    """With the backup's number of partitions."""
    return spec if stored is None else spec.model_copy(update={"partitions": len(stored.partitions)})


def unbounded(spec: TopicSpec) -> TopicSpec:
    """Takes records with their own times, however old. A worker refuses such a topic, so none begins too early."""
    changes = {"message_timestamp_type": "CreateTime", "message_timestamp_after_max_ms": _NEVER, "retention_ms": -1}
    return spec.model_copy(update={"config": spec.config.model_copy(update=changes)})


def bound(admin: AdminClient, wanted: Sequence[TopicSpec], kept: Container[str]) -> None:
    """Gives topics that were `unbounded` the settings of their files; those that are `kept` stay without retention."""
    back = [
        SettingChange(spec.topic, setting, old, spec.config.entries().get(setting))
        for spec in wanted
        for setting, old in unbounded(spec).config.entries().items()
        if spec.config.entries().get(setting) != old and not (setting == "retention.ms" and spec.topic in kept)
    ]
    apply(admin, TopicPlan(changes=tuple(back), specs=tuple(spec for spec in wanted if spec.topic not in kept)))


def _positioned(records: Iterable[StoredRecord], old: str, new: str) -> Iterator[StoredRecord]:
    """A position names its topic by an id, which a new topic does not have."""
    for record in records:
        if old and record.key == POSITION_KEY.encode() and record.value:
            yield record._replace(value=record.value.replace(old.encode(), new.encode()))
        else:
            yield record


def pieces_of(records: Iterable[StoredRecord], end: int) -> Iterator[Piece]:
    """Splits a partition that ends at an offset where offsets are missing."""
    following, size = 0, 0
    piece: list[StoredRecord] = []
    for record in records:
        gap = record.offset - following
        if gap or size > PIECE_BYTES or len(piece) == PIECE_RECORDS:
            yield _piece(piece, gap, record)
            piece, size = [], 0
        piece.append(record)
        size += len(record.value or b"")
        following = record.offset + 1
    yield _piece(piece, end - following, _FILLER)


def _piece(records: list[StoredRecord], gap: int, after: StoredRecord) -> Piece:
    """A single offset before the first record gets a tombstone of that record's key, which changes nothing."""
    if records or gap != 1:
        return Piece(records, gap)
    return Piece([StoredRecord(0, after.at_ms, after.key, None, [])], 0)


def aborted(gap: int) -> Iterator[int]:
    """Splits two or more offsets into aborted transactions: yields their records, each has a marker besides."""
    while gap > FILLERS + 2:  # so what is left is never a single offset
        yield FILLERS
        gap -= FILLERS + 1
    yield gap - 1


class _Writer:
    def __init__(self, cluster: Cluster, admin: AdminClient, prefix: str) -> None:
        self._admin = admin
        self._prefix = prefix
        self._wrong = ""
        self._plain = plain_producer(cluster.kafka)
        changes = {"transactional.id": prefix + RESTORE_ID}
        self._transactional = Producer(producer_config(cluster.kafka, **changes))
        self._transactional.init_transactions(ANSWER_S)

    def write_all(
        self, partitions: Mapping[tuple[str, int], Iterator[Piece]], total: int, on_progress: Progress
    ) -> None:
        """In rounds: a piece of each partition."""
        left, ends, done = dict(partitions), dict.fromkeys(partitions, 0), 0
        while left:
            pieces = {place: piece for place, each in left.items() if (piece := next(each, None)) is not None}
            left = {place: left[place] for place in pieces}
            single = {place: piece for place, piece in pieces.items() if piece.gap == 1}
            others = {place: piece for place, piece in pieces.items() if piece.gap != 1}
            if single:
                self._transactional.begin_transaction()
                self._send(self._transactional, {place: piece.records for place, piece in single.items()}, ends)
                self._flush(self._transactional)
                self._transactional.commit_transaction(ANSWER_S)
                self._marked(single, ends)
            self._send(self._plain, {place: piece.records for place, piece in others.items()}, ends)
            self._flush(self._plain)
            self._fill({place: piece for place, piece in others.items() if piece.gap}, ends)
            done += sum(len(piece.records) for piece in pieces.values())
            on_progress("restoring", done, total)

    def close(self) -> None:
        self._plain.close()
        self._transactional.close()

    def _fill(self, pieces: Mapping[tuple[str, int], Piece], ends: dict[tuple[str, int], int]) -> None:
        """Takes up gaps of two and more offsets."""
        left = {place: aborted(piece.gap) for place, piece in pieces.items()}
        while fillers := {place: [_FILLER] * count for place, each in left.items() if (count := next(each, 0))}:
            self._transactional.begin_transaction()
            self._send(self._transactional, fillers, ends)
            self._flush(self._transactional)
            self._transactional.abort_transaction(ANSWER_S)
            self._marked(fillers, ends)

    def _send(
        self,
        producer: Producer,
        records: Mapping[tuple[str, int], list[StoredRecord]],
        ends: dict[tuple[str, int], int],
    ) -> None:
        for (topic, number), each in records.items():
            for record in each:
                placed: Answered = partial(self._placed, ends[topic, number])
                name, at_ms = self._prefix + topic, max(1, record.at_ms)  # 0 would be now
                produce(producer, name, record.value, record.key, record.headers, number, placed, at_ms)
                ends[topic, number] += 1

    def _placed(self, expected: int, error: KafkaError | None, message: Message) -> None:
        place = f"{message.topic()}/{message.partition()}"
        if error is not None:
            self._wrong = self._wrong or f"{place}: {error.str()}"
        elif message.offset() != expected:
            self._wrong = self._wrong or f"{place}: somebody else writes to it"

    def _flush(self, producer: Producer) -> None:
        while producer.flush(0.2) and not self._wrong:
            pass
        if self._wrong:
            raise BackupError(f"{self._wrong}. {_AGAIN}")

    def _marked(self, places: Iterable[tuple[str, int]], ends: dict[tuple[str, int], int]) -> None:
        """Waits for the transaction's markers, which come later than Kafka's answer."""
        for place in (places := list(places)):
            ends[place] += 1
        asked = {TopicPartition(self._prefix + topic, number): OffsetSpec.latest() for topic, number in places}
        wanted = {(self._prefix + topic, number): ends[topic, number] for topic, number in places}
        deadline = time.monotonic() + ANSWER_S
        while True:
            answers = self._admin.list_offsets(asked, request_timeout=ANSWER_S)
            found = {(place.topic, place.partition): answer.result().offset for place, answer in answers.items()}
            if found == wanted:
                return
            if time.monotonic() > deadline or any(found[place] > end for place, end in wanted.items()):
                raise BackupError(
                    "somebody else writes to the topics. Delete those that this began to fill, then repeat"
                )


def _delete_heads(admin: AdminClient, prefix: str, manifest: Manifest) -> None:
    """Offsets that retention had deleted are deleted here too."""
    heads = [
        TopicPartition(prefix + topic, number, stored.low)
        for topic, of_topic in manifest.topics.items()
        for number, stored in enumerate(of_topic.partitions)
        if stored.low
    ]
    for future in admin.delete_records(heads).values() if heads else ():
        future.result(ANSWER_S)


def _adopt(archive: MemoryArchive, manifest: Manifest, ids: Mapping[str, str]) -> None:
    for topic in ARCHIVED:
        for number, stored in enumerate(manifest.topics[topic].partitions):
            old = ArchivedPartition(topic, manifest.topics[topic].topic_id, number)
            archive.adopt(old, ArchivedPartition(topic, ids[topic], number), stored.end)


def outdated(manifest: Manifest, specs: Iterable[TopicSpec], prefix: str) -> Iterator[str]:
    """Yields topics with records that are older than their retention."""
    retained = {spec.topic: spec.config.retention_ms for spec in specs}
    now_ms = time.time() * 1000
    for topic, stored in manifest.topics.items():
        first = min((each.first_ms for each in stored.partitions if each.records), default=now_ms)
        if 0 <= retained.get(prefix + topic, -1) < now_ms - first:
            yield topic
