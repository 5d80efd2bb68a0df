"""Where the archive keeps what, and how much of a range it lacks."""

from pathlib import Path
from typing import Any

import pytest

from hmx_pipeline.kafka.clients import Watermarks
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.archive import ArchivedPartition, ArchivedRange, MemoryArchive
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.topology import EPISODES

SOURCE = ArchivedPartition(EPISODES, "a/bb+dIbTDWdVFO6YCdqOA", 0)


@pytest.fixture
def archive(tmp_path: Path) -> MemoryArchive:
    pytest.importorskip("pyarrow", reason="the extra `archive` is not installed")
    return MemoryArchive.of(Settings(archive=str(tmp_path)))


def finish(archive: MemoryArchive, *chunks: ArchivedRange) -> None:
    for chunk in chunks:
        assert archive.begin(SOURCE, chunk)
        archive.finish(SOURCE, ArchivedRange(chunk.start, chunk.end, [], chunk.low))


def test_only_one_process_begins_a_chunk(archive: MemoryArchive) -> None:
    assert archive.begin(SOURCE, ArchivedRange(0, 5))
    assert not archive.begin(SOURCE, ArchivedRange(0, 7))
    assert [chunk.end for chunk in archive.chunks(SOURCE)] == [5]


def test_what_is_lacking_are_the_offsets_of_no_finished_chunk(archive: MemoryArchive) -> None:
    finish(archive, ArchivedRange(2, 5), ArchivedRange(5, 8), ArchivedRange(10, 20, low=12))
    assert archive.begin(SOURCE, ArchivedRange(20, 30))
    assert archive.lacking(SOURCE, 0, 30) == 2 + 4 + 10
    assert archive.lacking(SOURCE, 2, 8) == 0
    assert archive.lacking(SOURCE, 4, 11) == 3
    assert archive.lacking(SOURCE, 8, 8) == archive.lacking(SOURCE, 9, 3) == 0
    finish(archive, ArchivedRange(30, 31))
    assert archive.lacking(SOURCE, 29, 31) == 1, "what was finished later is seen too"


def test_a_partition_of_any_topic_id_has_one_folder_of_its_own(archive: MemoryArchive) -> None:
    path = archive.file(SOURCE, ArchivedRange(7, 9), "tenant=acme/day=2026-03-14")
    assert path == f"{EPISODES}/tenant=acme/day=2026-03-14/a_bb-dIbTDWdVFO6YCdqOA-0-00000000000000000007.parquet"


def test_without_a_setting_there_is_nothing_in_it() -> None:
    archive = MemoryArchive.of(Settings())
    assert not archive
    assert archive.lacking(SOURCE, 3, 9) == 6
    assert list(archive.records(SOURCE, 0, 9)) == []


class Partition:
    """Kafka with one partition, whose records below `low` retention has deleted."""

    low, end = 0, 10

    def watermarks(self, *_: object) -> Watermarks:
        return Watermarks(self.low, self.end)

    def stable_end(self, *_: object) -> int:
        return self.end


class Overtaken(MemoryArchive):
    """While its process begins a chunk, retention goes on, and another process begins one as well."""

    def begin(self, source: ArchivedPartition, chunk: ArchivedRange) -> bool:
        kafka = Partition()
        kafka.low = 5
        archive_chunk(MemoryArchive(self._objects, self._prefix), kafka)
        return super().begin(source, chunk)


def archive_chunk(archive: MemoryArchive, kafka: Any) -> bool:
    from hmx_pipeline.store.archive_format import ArchivedRecord
    from hmx_pipeline.store.archiver import Archiver

    archiver = Archiver(Settings(kafka_bootstrap="unused"), archive)

    def read(_name: str, _source: object, marks: Watermarks) -> tuple[list[ArchivedRecord], int]:
        records = (TopicRecord(EPISODES, 0, n, b"acme/s", b"{}", []) for n in range(marks.low, marks.high))
        return [ArchivedRecord(record, 0) for record in records], marks.high

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archiver, "_read", read)
        patch.setattr(archiver, "_erase", lambda: None)
        return archiver._archive_chunk(kafka, SOURCE, kafka.end)


def offsets(archive: MemoryArchive) -> list[int]:
    return [record.offset for chunk in archive.records(SOURCE, 0, 99) for record in chunk.records]


@pytest.mark.parametrize("before", [0, 2])
def test_two_processes_that_retention_overtakes_archive_no_record_twice(archive: MemoryArchive, before: int) -> None:
    if before:
        finish(archive, ArchivedRange(0, before))
    kafka = Partition()
    kafka.low = before + 1
    archive_chunk(Overtaken(archive._objects, archive._prefix), kafka)
    kafka.end = 20
    while archive_chunk(archive, kafka):
        pass
    assert offsets(archive) == list(range(5, 20))
    assert archive.lacking(SOURCE, 0, 20) == 5 - before
