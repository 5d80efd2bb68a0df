"""Backup: all topics of a deployment as files (`hmx backup`).

    manifest.json                    what there is, with checksums; written last
    <topic>/<partition>.ndjson.gz    a line for each record: offset, time, key, value, headers

Enters: topics that no worker writes to meanwhile. Leaves: a folder. Raises BackupError, and what reading Kafka raises.
"""

import gzip
import hashlib
import hmac
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from hmx_pipeline.contracts.headers import Headers
from hmx_pipeline.kafka.clients import Cluster, Watermarks, headers_of, read_partition
from hmx_pipeline.kafka.preflight import existing_topics
from hmx_pipeline.kafka.topic_files import load_topics
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS

Progress = Callable[[str, int, int], None]
FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
_BYTES: Final = "latin-1"
"""Any byte is a character of it, so texts stay readable and nothing is lost."""


class BackupError(Exception):
    """The message says what to do."""


class StoredRecord(NamedTuple):
    offset: int
    at_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class StoredPartition(msgspec.Struct, frozen=True):
    low: int
    end: int
    """The next record gets this offset."""
    records: int
    sha256: str
    first_ms: int
    """Time of the first record."""


class StoredTopic(msgspec.Struct, frozen=True):
    topic_id: str
    """Positions name the topic by it."""
    partitions: list[StoredPartition]


class Manifest(msgspec.Struct, frozen=True):
    format: int
    control_key: str
    """See `fingerprint`."""
    seal: str
    """See `sealed`."""
    topics: dict[str, StoredTopic]

    @property
    def records(self) -> int:
        return sum(partition.records for topic in self.topics.values() for partition in topic.partitions)


_manifest: Final = msgspec.json.Decoder(Manifest).decode


def fingerprint(settings: Settings) -> str:
    """Tells control keys apart: with another one the log's own control records would be rejected."""
    return _keyed(settings, b"hmx backup")


def sealed(settings: Settings, topics: dict[str, StoredTopic]) -> str:
    """Tells that nobody without the control key has changed what a backup holds, its checksums included."""
    return _keyed(settings, b"hmx backup of " + msgspec.json.encode(topics, order="deterministic"))


def _keyed(settings: Settings, told: bytes) -> str:
    return hmac.new(settings.require_control_key().encode(), told, hashlib.sha256).hexdigest()


def back_up(settings: Settings, folder: Path, on_progress: Progress) -> Manifest:
    """Writes every topic into a new or empty folder. Services may append events meanwhile; those are left out."""
    if folder.exists() and any(folder.iterdir()):
        raise BackupError(f"{folder} is not empty: name a new folder")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # it will hold what producers sent, secrets included
    counts = existing_topics(settings, *(spec.topic for spec in load_topics()))
    topics = {}
    with closing(Cluster(settings.require_kafka())) as cluster:
        ends = _ends(cluster, settings.topic_prefix, counts)
        for topic, count in counts.items():
            name, found = settings.topic_prefix + topic, []
            (folder / topic).mkdir(parents=True, exist_ok=True)
            for number in range(count):
                marks = Watermarks(cluster.watermarks(name, number).low, ends[topic][number])
                records = _watched(_records(cluster, name, number, marks), topic, marks, on_progress)
                found.append(_written(file_of(folder, topic, number), records, marks))
            topics[topic] = StoredTopic(cluster.topic(name).topic_id, found)
            now = _ends(cluster, settings.topic_prefix, counts)
            if moved := [each for each in counts if each != EVENTS and now[each] != ends[each]]:
                raise BackupError(f"a worker wrote to {moved[0]} meanwhile: stop all workers, then repeat")
    manifest = Manifest(FORMAT, fingerprint(settings), sealed(settings, topics), topics)
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
    return manifest


def manifest_of(folder: Path, settings: Settings) -> Manifest:
    """Raises BackupError if a backup is of another control key, or not whole and as it was written: every file is
    compared with its checksum, and these with the seal."""
    try:
        manifest = _manifest((folder / MANIFEST).read_bytes())
    except (OSError, msgspec.MsgspecError) as error:
        raise BackupError(f"{folder} holds no whole backup: {error}") from error
    if manifest.format != FORMAT:
        raise BackupError(f"{folder} has format {manifest.format}, and this version reads {FORMAT}: upgrade it")
    if manifest.control_key != fingerprint(settings):
        raise BackupError("HMX_CONTROL_KEY is not the one of the backup: set that one")
    if not hmac.compare_digest(manifest.seal, sealed(settings, manifest.topics)):
        raise BackupError(f"{folder / MANIFEST} was altered: take another backup")
    for topic, stored in manifest.topics.items():
        for number, partition in enumerate(stored.partitions):
            file = file_of(folder, topic, number)
            if not file.is_file() or _digest(file) != partition.sha256:
                raise BackupError(f"{file} is damaged or missing: take another backup")
    return manifest


def file_of(folder: Path, topic: str, number: int) -> Path:
    return folder / topic / f"{number}.ndjson.gz"


def stored_records(file: Path) -> Iterator[StoredRecord]:
    with gzip.open(file) as lines:
        for line in lines:
            offset, at_ms, key, value, headers = msgspec.json.decode(line)
            named: list[Any] = [(name, _as_bytes(said)) for name, said in headers]
            yield StoredRecord(offset, at_ms, _as_bytes(key), _as_bytes(value), named)


def _ends(cluster: Cluster, prefix: str, counts: dict[str, int]) -> dict[str, list[int]]:
    """The log is read last: the stages' positions are below its end."""
    asked = {topic: cluster.stable_end if topic == EVENTS else _high(cluster) for topic in counts}
    order = sorted(counts, key=lambda topic: topic == EVENTS)
    return {topic: [asked[topic](prefix + topic, number) for number in range(counts[topic])] for topic in order}


def _high(cluster: Cluster) -> Callable[[str, int], int]:
    """Of an open transaction too, so that its end is seen."""
    return lambda topic, number: cluster.watermarks(topic, number).high


def _records(cluster: Cluster, name: str, number: int, marks: Watermarks) -> Iterator[StoredRecord]:
    for message in read_partition(cluster.kafka, name, number, marks):
        offset, key, value = message.offset(), message.key(), message.value()
        assert offset is not None
        assert not isinstance(key, str)
        assert not isinstance(value, str)
        yield StoredRecord(offset, message.timestamp()[1], key, value, headers_of(message))


def _watched(
    records: Iterable[StoredRecord], topic: str, marks: Watermarks, on_progress: Progress
) -> Iterator[StoredRecord]:
    for record in records:
        on_progress(topic, record.offset - marks.low, marks.high - marks.low)
        yield record


def _written(file: Path, records: Iterable[StoredRecord], marks: Watermarks) -> StoredPartition:
    count, first_ms = 0, 0
    with gzip.GzipFile(file, "wb", mtime=0) as lines:
        for record in records:
            count += 1
            first_ms = first_ms or record.at_ms
            headers = [(name, _as_text(value)) for name, value in record.headers]
            line = (record.offset, record.at_ms, _as_text(record.key), _as_text(record.value), headers)
            lines.write(msgspec.json.encode(line) + b"\n")
    return StoredPartition(marks.low, marks.high, count, _digest(file), first_ms)


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _as_text(value: bytes | str | None) -> str | None:
    return value.decode(_BYTES) if isinstance(value, bytes) else value


def _as_bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode(_BYTES)
