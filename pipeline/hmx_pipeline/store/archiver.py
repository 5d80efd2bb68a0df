"""Archiver: writes what Kafka will delete into the archive, and takes erasures out of it (see store.archive).

Enters: the topics of archive.ARCHIVED, read_committed, from where their archive ends; the marks of erasures. Leaves:
each record once, in files whose content follows from the range of offsets and the erasures. Several processes may run
it. If Kafka or the archive fails, it retries.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

from confluent_kafka import KafkaException

from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.kafka.clients import Cluster, Watermarks, headers_of, read_partition
from hmx_pipeline.kafka.erasure_marks import erasure_marks
from hmx_pipeline.kafka.topic_files import TopicsError
from hmx_pipeline.observe import logs
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.archive import ARCHIVED, ArchivedPartition, ArchivedRange, ArchiveError, MemoryArchive
from hmx_pipeline.store.archive_format import ArchivedRecord, by_folder, honoured_by, remaining, tenant_folder, written
from hmx_pipeline.store.erased_memory import Erasures
from hmx_pipeline.store.projection import TopicRecord

LOG: Final = logging.getLogger("hmx.archive")
CHUNK_RECORDS: Final = 20_000
CHUNK_BYTES: Final = 32 * MB
CHECK_S: Final = 86_400.0
"""How often all files of tenants with erasures are looked at: one may be of a process that died, and of old marks."""
RETRY_S: Final = 10.0
STOP_S: Final = 10.0


@contextmanager
def archiving(settings: Settings, stop: threading.Event) -> Iterator[None]:
    """Archives in a thread of its own. Raises SettingsError."""
    thread = threading.Thread(target=Archiver(settings, MemoryArchive.of(settings)).run, args=(stop,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(STOP_S)


class Archiver:
    def __init__(self, settings: Settings, archive: MemoryArchive) -> None:
        self._every_s = float(settings.archive_s)
        self._prefix = settings.topic_prefix
        self._archive = archive
        self._kafka = settings.require_kafka()
        self._erasures = Erasures()
        self._honoured: dict[str, str] = {}
        """Folder of a tenant → digest of the erasures that its files have been through."""
        self._checked = time.monotonic()

    def run(self, stop: threading.Event) -> None:
        """Archives what is there, every HMX_ARCHIVE_S, until told to stop."""
        while not stop.is_set():
            pause = self._every_s
            try:
                self.archive_once(stop)
                METRICS.archived_at.set_to_current_time()
            except Exception as error:
                METRICS.materialiser_retries.labels("archive").inc()
                known = isinstance(error, ArchiveError | KafkaException | TopicsError | TimeoutError)
                LOG.warning("not archived: %s; retrying in %.0f s", error, RETRY_S, exc_info=not known)
                pause = min(pause, RETRY_S)
            stop.wait(pause)

    def archive_once(self, stop: threading.Event) -> None:
        """Archives up to where the topics end by now. Raises ArchiveError, and what reading Kafka raises."""
        self._erase()
        with closing(Cluster(self._kafka)) as cluster:
            for topic in ARCHIVED:
                info = cluster.topic(self._prefix + topic)
                for number in range(info.partitions):
                    source = ArchivedPartition(topic, info.topic_id, number)
                    end = cluster.stable_end(self._prefix + topic, number)
                    while not stop.is_set() and self._archive_chunk(cluster, source, end):
                        pass

    def _erase(self) -> None:
        """Writes files anew that hold something erased: looks at those of tenants with something new, and at times at
        those of all."""
        if time.monotonic() >= self._checked + CHECK_S:
            self._honoured, self._checked = {}, time.monotonic()
        self._erasures = Erasures(erasure_marks(self._kafka, self._prefix))
        honoured = {tenant_folder(tenant): marks for tenant, marks in self._erasures.digests().items()}
        for folder, marks in honoured.items():
            if self._honoured.get(folder) == marks:
                continue
            for path in [path for topic in ARCHIVED for path in self._archive.paths(f"{self._prefix}{topic}/{folder}")]:
                if honoured_by(self._archive.get(path)) == marks:
                    continue
                left = remaining(rows := self._archive.rows(path), self._erasures)
                if len(left) < len(rows):  # of a retention little goes in a day
                    self._archive.put(path, written(left, marks))
        self._honoured = honoured

    def _archive_chunk(self, cluster: Cluster, source: ArchivedPartition, end: int) -> bool:
        """Archives the next chunk of a partition before this end; returns False if there is none."""
        name = self._prefix + source.topic
        last = self._archive.last(source)
        low = cluster.watermarks(name, source.number).low
        chunk = last if last and last.folders is None else None
        begin = max(chunk.start, chunk.low) if chunk else last.end if last else low
        start, end = max(begin, low), chunk.end if chunk else end
        if chunk is None and start >= end:
            return False
        rows, end = self._read(name, source, Watermarks(start, end))
        if chunk is None:
            # Whoever begins it names it alike, however much retention has deleted of it meanwhile.
            chunk = ArchivedRange(last.end if last else 0, end, low=begin)
            if not self._archive.begin(source, chunk):
                return True  # another process was first
        folders = []
        for folder, found in by_folder(rows).items():  # an empty file replaces what a process that died has written
            left, tenant = remaining(found, self._erasures), folder.partition("/")[0]
            self._archive.put(self._archive.file(source, chunk, folder), written(left, self._honoured.get(tenant, "")))
            folders.append(folder)
        self._erase()  # others may have looked for what was erased meanwhile before these files were there
        self._archive.finish(source, ArchivedRange(chunk.start, end, sorted(folders), low))
        if lost := min(start, end) - begin:
            METRICS.archive_lost.inc(lost)
            LOG.error("%d offsets were deleted before they were archived", lost, extra=logs.at(name, begin))
        METRICS.archived.labels(source.topic).inc(len(rows))
        return True

    def _read(self, name: str, source: ArchivedPartition, marks: Watermarks) -> tuple[list[ArchivedRecord], int]:
        """Returns the records of a range of offsets, and where they end: earlier, where they are many or large."""
        rows: list[ArchivedRecord] = []
        size = 0
        for message in read_partition(self._kafka, name, source.number, marks):
            offset, value = message.offset() or 0, message.value()
            record = TopicRecord(source.topic, source.number, offset, message.key() or b"", value, headers_of(message))
            rows.append(ArchivedRecord(record, message.timestamp()[1]))
            size += len(value or b"")
            if len(rows) == CHUNK_RECORDS or size >= CHUNK_BYTES:
                return rows, offset + 1
        return rows, marks.high
