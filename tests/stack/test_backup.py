"""A deployment that was lost with its Kafka and Redis comes back from its backup: the same offsets, packs and bytes,
and processing goes on where it was, once."""

import gzip
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hmx_pipeline.audit import backup
from hmx_pipeline.audit import restore as restoring
from hmx_pipeline.audit.backup import file_of
from hmx_pipeline.audit.pipeline_conservation import verify
from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.kafka.clients import Cluster
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.kafka.topic_files import connect, load_topics, read_cluster
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EPISODES
from tests.stack.test_archive import delete_heads, is_archived, packs, remembered
from tests.stack.test_erase import CANARY, MINE, OTHERS, in_redis, session
from tests.support.memory import Memory
from tests.support.own_command import hmx
from tests.support.pipeline import Pipeline, new_settings, running
from tests.support.topics import episodes_by_session, headers_of, read
from tests.support.waiting import until

TOPICS = [spec.topic for spec in load_topics()]
WAITING = session("waiting", "bob", "The database is Postgres.", "Never drop a table.", at=70_000)
LATER = session("later", "cy", "The queue is called blue.", at=80_000)
Place = tuple[str, int]


def bounds(settings: Settings) -> dict[Place, tuple[int, int]]:
    with closing(Cluster(settings.kafka_bootstrap)) as cluster:
        return {
            (topic, number): tuple(cluster.watermarks(settings.topic_prefix + topic, number))
            for topic in TOPICS
            for number in range(cluster.topic(settings.topic_prefix + topic).partitions)
        }


def records(settings: Settings) -> dict[Place, list[Any]]:
    """Of all topics; positions name the topic that they are of by an id."""
    return {
        (topic, number): [
            (m.offset(), m.timestamp()[1], m.key(), None if m.key() == b"!" else m.value(), headers_of(m))
            for m in found
        ]
        for topic in TOPICS
        for number, found in read(settings, topic).items()
    }


def lose(settings: Settings, memory: Memory) -> None:
    admin = connect(settings.kafka_bootstrap)
    names = [settings.topic_prefix + topic for topic in TOPICS]
    for future in admin.delete_topics(names).values():
        future.result(60)
    until(lambda: not set(names) & set(admin.list_topics(timeout=10).topics), "the topics are deleted")
    memory.wipe()


def filled_again(memory: Memory) -> dict[bytes, bytes]:
    memory.wipe()
    until(lambda: memory.store.completeness().complete, "Redis is filled again")
    return {key: value for key, value in remembered(memory).items() if not key.endswith(b":topics")}  # their ids


def configured(settings: Settings) -> dict[str, str]:
    names = [settings.topic_prefix + topic for topic in TOPICS]
    found = read_cluster(connect(settings.kafka_bootstrap), names).topics
    return {name.removeprefix(settings.topic_prefix): topic.config["retention.ms"] for name, topic in found.items()}


def retained(topic: str) -> str:
    return next(str(spec.config.retention_ms) for spec in load_topics() if spec.topic == topic)


@pytest.fixture
def pipeline(kafka: str, redis_url: str, tmp_path: Path) -> Iterator[Pipeline]:
    pytest.importorskip("pyarrow", reason="the extra `archive` is not installed")
    made = new_settings(kafka, redis_url, archive=str(tmp_path / "archive"), archive_s=1)
    with running(made, tmp_path, "worker", "materialiser", partitions=2) as started:
        assert publish([*MINE, *OTHERS, b"no event"], made).complete
        wait_for_all(made)
        yield started


@pytest.mark.requirement("Y23")
def test_what_was_backed_up_comes_back_and_goes_on(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, folder = pipeline.settings, tmp_path / "backup"
    memory = Memory(settings.redis_url, settings.topic_prefix)
    assert hmx(settings, "erase", "--tenant", "acme", "--subject", "ada").exit_code == 0
    wait_for_all(settings)
    before, told = filled_again(memory), packs(memory)
    pipeline.stop("worker")
    assert publish(WAITING, settings).complete  # no worker has seen them
    kept, ends = records(settings), bounds(settings)
    taken = hmx(settings, "backup", folder, "--json")
    assert taken.exit_code == 0, taken.output
    assert json.loads(taken.stdout)["records"] == sum(map(len, kept.values()))
    assert Path(folder).stat().st_mode & 0o077 == 0, "nobody else reads what producers sent"
    pipeline.stop("materialiser")

    refused = hmx(settings, "restore", folder)
    assert refused.exit_code == 1
    assert "is not empty" in refused.output
    lose(settings, memory)
    monkeypatch.setattr(restoring, "FILLERS", 3)  # long gaps take several transactions
    monkeypatch.setattr(restoring, "PIECE_RECORDS", 2)
    answer = hmx(settings, "restore", folder, "--json")
    assert answer.exit_code == 0, answer.output
    assert bounds(settings) == ends
    assert records(settings) == kept
    assert not {name for name, value in configured(settings).items() if value != retained(name)}

    pipeline.start("materialiser")
    assert filled_again(memory) == before
    assert packs(memory) == told
    assert not in_redis(settings, CANARY), "an erasure holds for what is restored"
    pipeline.start("worker")
    assert publish([*LATER, *OTHERS], settings).complete  # the others came before: duplicates
    wait_for_all(settings)
    verified = hmx(settings, "verify")
    assert verified.exit_code == 0, verified.output
    found = episodes_by_session(settings)
    assert {name: len(ids) for name, ids in found.items()} == {"mine": 3, "others": 2, "waiting": 2, "later": 1}


@pytest.mark.requirement("Y23")
def test_what_only_the_archive_has_comes_back_too(pipeline: Pipeline, tmp_path: Path) -> None:
    settings, folder = pipeline.settings, tmp_path / "backup"
    memory = Memory(settings.redis_url, settings.topic_prefix)
    pipeline.stop("worker")
    until(lambda: is_archived(settings), "all is archived")
    delete_heads(settings)
    before, ends = filled_again(memory), bounds(settings)
    assert hmx(settings, "backup", folder).exit_code == 0
    pipeline.stop("materialiser")
    lose(settings, memory)
    answer = hmx(settings, "restore", folder)
    assert answer.exit_code == 0, answer.output
    assert bounds(settings) == ends
    pipeline.start("materialiser")
    assert filled_again(memory) == before
    assert memory.store.completeness().cut == {}
    pipeline.start("worker")
    assert publish(LATER, settings).complete
    wait_for_all(settings)
    assert episodes_by_session(settings).keys() == {"later"}


def test_nothing_is_restored_while_a_worker_runs(pipeline: Pipeline, tmp_path: Path) -> None:
    """It would process what is restored once more, and the restored topics would get its records besides."""
    settings, folder = pipeline.settings, tmp_path / "backup"
    pipeline.stop("worker")
    assert hmx(settings, "backup", folder).exit_code == 0
    pipeline.start("worker")
    refused = hmx(replace(settings, session_timeout_ms=1), "restore", folder)
    assert refused.exit_code == 1
    assert "workers run (" in refused.output
    assert verify(settings).conserved


def test_a_backup_that_is_not_whole_is_refused(pipeline: Pipeline, tmp_path: Path) -> None:
    settings, folder = pipeline.settings, tmp_path / "backup"
    pipeline.stop("worker")
    assert hmx(settings, "backup", folder).exit_code == 0
    assert "is not empty" in hmx(settings, "backup", folder).output
    elsewhere = replace(settings, topic_prefix=settings.topic_prefix + "other.")
    assert "HMX_CONTROL_KEY" in hmx(replace(elsewhere, control_key="another"), "restore", folder).output
    file = file_of(folder, EPISODES, 0)
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()) + b"\n"))
    assert "is damaged" in hmx(elsewhere, "restore", folder).output
    (folder / "manifest.json").unlink()
    assert "no whole backup" in hmx(elsewhere, "restore", folder).output


def test_what_a_worker_writes_meanwhile_makes_no_backup(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = backup._written

    def late(*given: Any) -> Any:
        if not (tmp_path / "once").exists():
            (tmp_path / "once").touch()
            assert publish(LATER, pipeline.settings).complete
            wait_for_all(pipeline.settings)
        return written(*given)

    monkeypatch.setattr(backup, "_written", late)
    refused = hmx(pipeline.settings, "backup", tmp_path / "backup")
    assert refused.exit_code == 1
    assert "stop all workers" in refused.output
