"""The archive holds each record once, whoever dies or races while it is written, and says what it lacks."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.settings import Settings, SettingsError
from hmx_pipeline.store.archive import ArchiveError, MemoryArchive
from hmx_pipeline.store.materialiser import Materialiser
from hmx_pipeline.topology import EPISODES
from tests.stack.test_archive import archived, delete_heads, is_archived
from tests.stack.test_store_materialiser import caught_up, episodes, everything, publish, running
from tests.support.memory import Memory, contribution_as_read, memory_of
from tests.support.pipeline import create_topics, new_settings
from tests.support.service import serving
from tests.support.topics import read
from tests.support.waiting import until


@pytest.fixture
def settings(kafka: str, redis_url: str, tmp_path: Path) -> Settings:
    pytest.importorskip("pyarrow", reason="the extra `archive` is not installed")
    made = new_settings(kafka, redis_url, archive=str(tmp_path / "archive"))
    create_topics(made, partitions=1)
    return made


@pytest.fixture
def memory(settings: Settings) -> Iterator[Memory]:
    with memory_of(settings) as made:
        yield made


def archive_once(settings: Settings, archive: MemoryArchive | None = None) -> None:
    from hmx_pipeline.store.archiver import Archiver

    Archiver(settings, archive or MemoryArchive.of(settings)).archive_once(threading.Event())


def in_topics(settings: Settings) -> list[tuple[str, int, int, str]]:
    topics = {each.topic for each in everything(settings)} & {EPISODES, contribution_as_read("c", 0).topic}
    return sorted(
        (topic, partition, message.offset() or 0, (message.value() or b"").decode())
        for topic in topics
        for partition, messages in read(settings, topic).items()
        for message in messages
    )


class Dying(MemoryArchive):
    """Its process dies instead of writing the n-th file."""

    left = 0

    def put(self, path: str, held: bytes) -> None:
        if not self.left:
            raise ArchiveError("it died")
        self.left -= 1
        super().put(path, held)


def test_every_record_is_archived_once_wherever_it_is_interrupted(settings: Settings) -> None:
    dead = 0
    for n in range(5):
        publish(settings, [*everything(settings), *episodes(f"e{n}")])
        publish(settings, episodes("never"), commit=False)
        dying = Dying.of(settings)
        dying.left = n
        try:
            archive_once(settings, dying)
        except ArchiveError:
            dead += 1
    archive_once(settings)
    assert dead >= 3
    assert is_archived(settings)
    assert archived(settings) == in_topics(settings)


def test_several_at_once_archive_every_record_once(settings: Settings) -> None:
    with ThreadPoolExecutor(3) as threads:
        rounds = [threads.submit(archive_once, settings) for _ in range(15)]
        for n in range(5):
            publish(settings, [*everything(settings), *episodes(f"e{n}")])
        for each in rounds:
            each.result()
    archive_once(settings)
    assert is_archived(settings)
    assert archived(settings) == in_topics(settings)


def test_several_refill_from_the_archive_what_one_refills(settings: Settings, memory: Memory) -> None:
    for n in range(6):
        publish(
            settings, [*episodes(*(f"e{n}-{i}" for i in range(20)), first=20 * n), contribution_as_read(f"c{n}", 0)]
        )
        archive_once(settings)
    with running(settings):
        until(caught_up(settings, memory), "memory as it was")
        before = memory.dump()
    delete_heads(settings)
    for processes in (1, 2):
        memory.wipe()
        with running(settings):
            if processes == 2:
                with running(settings):
                    until(memory.store.positions, "both have begun")
            until(caught_up(settings, memory), "memory as it was")
            assert memory.dump() == before


def test_a_reader_that_retention_has_overtaken_goes_on_from_the_archive(settings: Settings, memory: Memory) -> None:
    publish(settings, everything(settings))
    with running(settings):
        until(caught_up(settings, memory), "positions at the topics' ends")
    publish(settings, episodes("missed", first=2))
    archive_once(settings)
    delete_heads(settings)
    before = METRICS.materialiser_lost._value.get()
    with running(settings):
        until(caught_up(settings, memory), "positions at the topics' ends")
    assert memory.store.get_event("acme", "missed")
    assert METRICS.materialiser_lost._value.get() == before
    assert memory.store.completeness().cut == {}


@pytest.mark.requirement("Y23")
def test_what_the_archive_lacks_is_said_by_packs_and_readiness(settings: Settings, memory: Memory) -> None:
    publish(settings, episodes("kept"))
    archive_once(settings)
    publish(settings, episodes("lost", first=1))
    delete_heads(settings)
    archive_once(settings)
    with running(settings):
        until(caught_up(settings, memory), "positions at the topics' ends")
        with serving(settings) as client:
            ready = client.get("/readyz").text
    assert memory.store.get_event("acme", "kept")
    assert memory.store.get_event("acme", "lost") is None
    lacking = {EPISODES: 2}  # with the marker of its transaction
    assert memory.pack("deploy to staging").metadata["memory_cut"] == lacking
    assert EPISODES in ready


def test_what_redis_lost_comes_back_from_the_archive(settings: Settings, memory: Memory) -> None:
    publish(settings, everything(settings))
    archive_once(settings)
    with running(settings):
        until(caught_up(settings, memory), "positions at the topics' ends")
        delete_heads(settings)
        before = memory.dump()
        memory.client.delete(memory.keys.tenant("acme").event("e1"))
        until(lambda: memory.dump() == before, "the event is restored")
        rows = memory.keys.tenant("acme").rows
        memory.client.delete(rows)
        until(lambda: memory.client.exists(rows), "memory is built anew")
        until(caught_up(settings, memory), "positions at the topics' ends again")
        assert memory.dump() == before


def test_what_is_lost_is_counted_once_however_often_the_archive_is_asked(settings: Settings, memory: Memory) -> None:
    publish(settings, everything(settings))
    with running(settings):
        until(caught_up(settings, memory), "positions at the topics' ends")
    publish(settings, episodes("kept", first=2))
    archive_once(settings)
    publish(settings, episodes("lost", first=3))
    delete_heads(settings)
    (file,) = Path(settings.archive).glob(f"*{EPISODES}/tenant=*/*/*.parquet")
    away = file.rename(file.with_suffix(".away"))
    before, asked = METRICS.materialiser_lost._value.get(), METRICS.materialiser_retries.labels("archive")._value
    tries = asked.get()
    with running(settings):
        until(lambda: asked.get() >= tries + 3, "the archive is asked again and again")
        away.rename(file)
        until(caught_up(settings, memory), "positions at the topics' ends")
    assert memory.store.completeness().cut == {EPISODES: 2}
    assert METRICS.materialiser_lost._value.get() - before == 2


def test_a_file_that_is_gone_is_waited_for_and_named(settings: Settings, memory: Memory) -> None:
    publish(settings, everything(settings))
    archive_once(settings)
    delete_heads(settings)
    (file,) = Path(settings.archive).glob(f"*{EPISODES}/tenant=*/*/*.parquet")
    away = file.rename(file.with_suffix(".away"))
    with running(settings) as materialiser:
        until(lambda: file.name in materialiser.ready()[1], "a reason that names the file")
        assert memory.store.get_event("acme", "e1") is None
        away.rename(file)
        until(caught_up(settings, memory), "positions at the topics' ends")
    assert memory.store.get_event("acme", "e1")


def test_an_archive_that_cannot_be_opened_is_refused_with_its_setting(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    for place in (tmp_path / "file" / "below", "nothing://at/all"):
        with pytest.raises(SettingsError, match="HMX_ARCHIVE"):
            Materialiser(replace(settings, archive=str(place)))
