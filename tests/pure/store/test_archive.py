"""Where the archive keeps what, and how much of a range it lacks."""

from pathlib import Path

import pytest

from hmx_pipeline.settings import Settings
from hmx_pipeline.store.archive import ArchivedPartition, ArchivedRange, MemoryArchive
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
