"""Memory lasts longer than what its topics keep: what the archive holds comes back byte for byte, once, and what was
erased does not."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.kafka.clients import Cluster
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.archive import ARCHIVED, ArchivedPartition, MemoryArchive
from hmx_pipeline.topology import EPISODES, EVENTS, EVIDENCE
from tests.stack.test_erase import CANARY, MINE, OTHERS, in_redis, session
from tests.support.memory import Memory
from tests.support.own_command import hmx
from tests.support.pipeline import Pipeline, new_settings, running
from tests.support.waiting import until

BRIEF = session("brief", "bob", "Hello.", "The wifi hint is mahogany.", at=30_000)
BRIEF = [orjson.dumps(orjson.loads(one) | {"ttl_seconds": 1}) for one in BRIEF]
"""Its time is over when the others' events come."""
WRONG = session("wrong", "bob", "Hello.", "The staging database is Oracle.", at=40_000)
QUESTIONS = (
    "What is the wifi hint?",
    "What is the staging database?",
    "Where is the staging cluster?",
    "May I deploy?",
    f"What is the {CANARY} bucket called?",
)
Json = dict[str, Any]


def sources(settings: Settings) -> Iterator[tuple[ArchivedPartition, int]]:
    """Every partition that is archived, and where it ends."""
    with closing(Cluster(settings.kafka_bootstrap)) as cluster:
        for topic in ARCHIVED:
            info = cluster.topic(settings.topic_prefix + topic)
            for number in range(info.partitions):
                end = cluster.stable_end(settings.topic_prefix + topic, number)
                yield ArchivedPartition(topic, info.topic_id, number), end


def is_archived(settings: Settings) -> bool:
    archive = MemoryArchive.of(settings)
    return all(archive.lacking(source, 0, end) == 0 for source, end in sources(settings))


def archived(settings: Settings) -> list[tuple[str, int, int, str]]:
    """Topic, partition, offset and value of all rows of all files, as whoever queries the folder finds them."""
    archive = MemoryArchive.of(settings)
    paths = [p for topic in ARCHIVED for p in archive.paths(settings.topic_prefix + topic) if p.endswith(".parquet")]
    rows = (row.record for path in paths for row in archive.rows(path))
    return sorted((row.topic, row.partition, row.offset, (row.value or b"").decode()) for row in rows)


def delete_heads(settings: Settings) -> None:
    """As if retention had passed for all that these topics hold."""
    admin = AdminClient({"bootstrap.servers": settings.kafka_bootstrap})
    with closing(Cluster(settings.kafka_bootstrap)) as cluster:
        ends = [
            TopicPartition(name, number, cluster.watermarks(name, number).high)
            for name in (settings.topic_prefix + topic for topic in (EVENTS, EPISODES, EVIDENCE))
            for number in range(cluster.topic(name).partitions)
        ]
    for future in admin.delete_records(ends).values():
        future.result(60)


def remembered(memory: Memory) -> dict[bytes, bytes]:
    """All of memory but for the positions: ticks move them on."""
    return {key: value for key, value in memory.dump().items() if b":guard:" not in key and b":positions" not in key}


def packs(memory: Memory) -> list[str]:
    asked = [(question, who) for question in QUESTIONS for who in ("ada", "bob")]
    return [memory.pack(question, subject_id=who).to_json().decode() for question, who in asked]


def knowledge_in(pack: str, text: str) -> list[Json]:
    """The entries of a pack that are no episode and say so."""
    return [e for e in json.loads(pack)["entries"] if e["source_type"] != "episode" and text in e["content"]]


@pytest.fixture(scope="module")
def pipeline(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    pytest.importorskip("pyarrow", reason="the extra `archive` is not installed")
    folder = tmp_path_factory.mktemp("archive")
    made = new_settings(kafka, redis_url, archive=str(folder), archive_s=1)
    with running(made, tmp_path_factory.mktemp("logs"), "worker", "materialiser", partitions=2) as started:
        assert publish([*MINE, *BRIEF, *WRONG, *OTHERS], made).complete
        wait_for_all(made)
        yield started


@pytest.fixture
def settings(pipeline: Pipeline) -> Settings:
    return pipeline.settings


@pytest.mark.requirement("Y23")
def test_the_same_memory_comes_back_after_the_topics_retention_has_passed(settings: Settings, redis_url: str) -> None:
    memory = Memory(redis_url, settings.topic_prefix)
    asked = hmx(settings, "knowledge", "list", "--tenant", "acme", "--text", "Oracle", "--json")
    for record in json.loads(asked.stdout)["records"]:
        assert hmx(settings, "knowledge", "retract", record["record_id"], "--tenant", "acme").exit_code == 0
    wait_for_all(settings)
    until(lambda: is_archived(settings), "all is archived")
    before, told = remembered(memory), packs(memory)
    assert CANARY in "".join(told)
    assert "mahogany" not in "".join(told), "its time to live has ended it"
    assert not any(knowledge_in(pack, "Oracle") for pack in told), "an operator has ended it"
    delete_heads(settings)
    memory.wipe()
    until(lambda: memory.store.completeness().complete, "Redis is filled again")
    assert remembered(memory) == before
    assert packs(memory) == told
    assert memory.store.completeness().cut == {}


@pytest.mark.requirement("Y23")
def test_what_is_erased_leaves_the_archive_and_never_comes_back(
    settings: Settings, redis_url: str, tmp_path: Path
) -> None:
    memory, file = Memory(redis_url, settings.topic_prefix), tmp_path / "receipt.json"
    assert any(CANARY in value for *_, value in archived(settings))
    answer = hmx(settings, "erase", "--tenant", "acme", "--subject", "ada", "--receipt", str(file), "--json")
    assert answer.exit_code == 0, answer.output
    receipt: Json = json.loads(answer.stdout)
    assert receipt["at"] <= receipt["last_copy"]["archive"]
    until(lambda: not any(CANARY in value for *_, value in archived(settings)), "the archive is without it")
    assert any("Frankfurt" in value for *_, value in archived(settings))
    delete_heads(settings)
    memory.wipe()
    until(lambda: memory.store.completeness().complete, "Redis is filled again")
    assert in_redis(settings, "frankfurt")
    assert not in_redis(settings, CANARY)
