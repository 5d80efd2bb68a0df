"""An archiver ends, however fast its topics grow, and finishes nothing that was erased while it wrote."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hmx_pipeline.contracts.erasure import ErasedScope, ErasureMark, mark_of
from hmx_pipeline.kafka.clients import Watermarks
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.archive import ArchivedPartition, ArchiveError, MemoryArchive
from hmx_pipeline.topology import EVIDENCE
from tests.support.memory import T0, contribution_as_read

pytest.importorskip("pyarrow", reason="the extra `archive` is not installed")
from hmx_pipeline.store import archiver

ERASED = ErasureMark(
    erasure_id="e1",
    tenant_id="acme",
    at=T0,
    marks=[mark_of("acme", ErasedScope.SESSION, "s1")],
    partition=0,
    before=1,
)
MANY = 20
"""Chunks after which it is told to stop."""


class GrowingTopics:
    """Evidence that gains a record whenever it is asked where it ends."""

    def __init__(self) -> None:
        self.low, self.held = 0, 3
        self.marks: list[ErasureMark] = []
        self.reads = 0
        self.stop = threading.Event()
        self.when_read: Callable[[], None] = lambda: None

    def topic(self, name: str) -> Any:
        return SimpleNamespace(topic_id="id", partitions=1 if name == EVIDENCE else 0)

    def watermarks(self, _: str, __: int) -> Watermarks:
        return Watermarks(self.low, self.held)

    def stable_end(self, _: str, __: int) -> int:
        self.held += 1
        return self.held

    def read(self, _: object, __: str, ___: int, marks: Watermarks) -> Iterator[Any]:
        for offset in range(marks.low, marks.high):
            row = contribution_as_read(f"c{offset}", offset)
            yield SimpleNamespace(
                offset=lambda at=offset: at,
                value=lambda row=row: row.value,
                key=lambda: b"acme/s1",
                headers=list,
                timestamp=lambda: (1, T0),
            )
        self.when_read()
        self.reads += 1
        if self.reads > MANY:
            self.stop.set()

    def close(self) -> None: ...


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> GrowingTopics:
    made = GrowingTopics()
    monkeypatch.setattr(archiver, "Cluster", lambda _: made)
    monkeypatch.setattr(archiver, "read_partition", made.read)
    monkeypatch.setattr(archiver, "erasure_marks", lambda *_: iter(list(made.marks)))
    return made


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(Settings(archive=str(tmp_path)), kafka_bootstrap="nowhere:9092")


def archived(settings: Settings) -> list[int]:
    archive = MemoryArchive.of(settings)
    paths = [path for path in archive.paths(EVIDENCE) if path.endswith(".parquet")]
    return sorted(row.record.offset for path in paths for row in archive.rows(path))


def test_a_topic_that_grows_while_it_is_archived_is_archived_in_one_chunk(
    topics: GrowingTopics, settings: Settings
) -> None:
    archiver.Archiver(settings, MemoryArchive.of(settings)).archive_once(topics.stop)
    assert not topics.stop.is_set(), "it never ends"
    (chunk,) = MemoryArchive.of(settings).chunks(ArchivedPartition(EVIDENCE, "id", 0))
    assert archived(settings) == list(range(chunk.end))


def test_what_is_erased_while_it_is_archived_is_in_no_finished_chunk(topics: GrowingTopics, settings: Settings) -> None:
    topics.when_read = lambda: topics.marks.append(ERASED)
    archiver.Archiver(settings, MemoryArchive.of(settings)).archive_once(topics.stop)
    assert MemoryArchive.of(settings).lacking(ArchivedPartition(EVIDENCE, "id", 0), 0, 4) == 0
    assert archived(settings) == []


def test_of_a_retention_only_files_are_written_anew_that_hold_something_too_old(
    topics: GrowingTopics, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = archiver.Archiver(settings, archive := MemoryArchive.of(settings))
    made.archive_once(topics.stop)
    (path,) = [path for path in archive.paths(EVIDENCE) if path.endswith(".parquet")]
    topics.stable_end = lambda *_: topics.held  # type: ignore[method-assign]
    put = list[str]()
    monkeypatch.setattr(MemoryArchive, "put", lambda _, path, __: put.append(path))
    for cut, anew in ((T0 - 1, []), (T0 + 1, [path])):
        policy = {"erasure_id": "retention", "marks": [], "before": 0, "cuts": {"all": cut}}
        topics.marks = [ERASED.model_copy(update=policy)]
        made.archive_once(topics.stop)
        assert put == anew


class Dying(MemoryArchive):
    """Its process dies before it has finished a chunk."""

    def finish(self, *_: object) -> None:
        raise ArchiveError("it died")


def one_that_knows_beside_one_that_died(topics: GrowingTopics, settings: Settings) -> archiver.Archiver:
    """Returns an archiver that knows an erasure; another one, which did not know it, wrote records and died."""
    known, topics.held = archiver.Archiver(settings, MemoryArchive.of(settings)), -1
    topics.marks.append(ERASED)
    known.archive_once(topics.stop)
    topics.held = 3
    topics.marks.clear()
    with pytest.raises(ArchiveError):
        archiver.Archiver(settings, Dying.of(settings)).archive_once(topics.stop)
    return known


def test_what_a_process_that_died_did_not_know_to_be_erased_does_not_stay(
    topics: GrowingTopics, settings: Settings
) -> None:
    known = one_that_knows_beside_one_that_died(topics, settings)
    assert archived(settings)
    topics.marks.append(ERASED)
    known.archive_once(topics.stop)
    assert archived(settings) == []


def test_what_such_a_process_left_of_deleted_records_goes_within_a_day(
    topics: GrowingTopics, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = one_that_knows_beside_one_that_died(topics, settings)
    topics.marks.append(ERASED)
    topics.low = topics.held = 10
    known.archive_once(topics.stop)
    monkeypatch.setattr(archiver, "CHECK_S", 0.0, raising=False)
    known.archive_once(topics.stop)
    assert archived(settings) == []


def test_what_was_deleted_before_it_was_archived_is_counted_once(topics: GrowingTopics, settings: Settings) -> None:
    made = archiver.Archiver(settings, MemoryArchive.of(settings))
    made.archive_once(topics.stop)
    before, topics.low = METRICS.archive_lost._value.get(), topics.held + 5
    topics.held = topics.low - 1  # nothing is left
    made.archive_once(topics.stop)
    topics.held = topics.low + 3
    with pytest.raises(ArchiveError):
        archiver.Archiver(settings, Dying.of(settings)).archive_once(topics.stop)
    made.archive_once(topics.stop)
    made.archive_once(topics.stop)
    assert METRICS.archive_lost._value.get() - before == 5
