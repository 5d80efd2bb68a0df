"""The materialiser between a real Kafka and a real Redis."""

import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import IsolationLevel, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from hmx_pipeline.kafka.clients import producer_config
from hmx_pipeline.local.ports import free_ports
from hmx_pipeline.local.redis import redis as local_redis
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.materialiser import Materialiser, MaterialiserError
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.store.redis_keys import KINDS
from hmx_pipeline.topology import ARTIFACTS, EPISODES, MATERIALISED
from tests.support.memory import (
    Memory,
    artifact,
    artifact_as_read,
    contribution_as_read,
    episode,
    episode_as_read,
    memory_of,
)
from tests.support.pipeline import create_topics, new_settings
from tests.support.waiting import until

ENOUGH_S = 120.0
PARTITION = 0
WHERE = f"{EPISODES}/{PARTITION}"


@pytest.fixture
def settings(kafka: str, redis_url: str) -> Settings:
    made = new_settings(kafka, redis_url)
    create_topics(made)
    return made


@pytest.fixture
def memory(settings: Settings) -> Iterator[Memory]:
    with memory_of(settings) as made:
        yield made


def episodes(*ids: str, first: int = 0) -> list[TopicRecord]:
    """Of one session, from that place in it on."""
    return [episode_as_read(episode(i, f"deploy staging {i}", index=n), 0, PARTITION) for n, i in enumerate(ids, first)]


def publish(settings: Settings, records: list[TopicRecord], commit: bool = True) -> None:
    """In one transaction, so that a marker follows; or in one that is aborted."""
    transaction = {"transactional.id": f"{settings.topic_prefix}test"}
    producer = Producer(producer_config(settings.kafka_bootstrap, **transaction))
    producer.init_transactions()
    producer.begin_transaction()
    for record in records:
        producer.produce(
            settings.topic_prefix + record.topic, record.value, record.key, record.partition, headers=record.headers
        )
    if commit:
        producer.commit_transaction()
    else:
        producer.flush()
        producer.abort_transaction()
    # The markers that make it visible come after the call has returned.
    until(lambda: ends(settings) == ends(settings, IsolationLevel.READ_UNCOMMITTED), "the transaction's markers")


def ends(settings: Settings, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED) -> dict[str, int]:
    """Of every partition that is materialised."""
    admin = AdminClient({"bootstrap.servers": settings.kafka_bootstrap})
    topics = [settings.topic_prefix + topic for topic in MATERIALISED]
    counts = admin.describe_topics(TopicCollection(topics))
    asked = {
        TopicPartition(topic, partition.id): OffsetSpec.latest()
        for topic, described in counts.items()
        for partition in described.result(ENOUGH_S).partitions
    }
    found = admin.list_offsets(asked, isolation_level=isolation).items()
    return {
        f"{at.topic.removeprefix(settings.topic_prefix)}/{at.partition}": end.result(ENOUGH_S).offset
        for at, end in found
    }


@contextmanager
def running(settings: Settings) -> Iterator[Materialiser]:
    """Its loop in a thread; an error of the loop is the test's. It looks for damage all the time, not once a second."""
    (port,) = free_ports(1)
    materialiser, stop = Materialiser(replace(settings, materialiser_port=port)), threading.Event()
    failures: list[BaseException] = []

    def loop() -> None:
        try:
            materialiser.run(stop)
        except MaterialiserError as error:
            failures.append(error)

    thread = threading.Thread(target=loop)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("materialiser.CHECK_S", "materialiser.QUIET_CHECK_S", "partition_reader.POLL_S"):
            patch.setattr(f"hmx_pipeline.store.{name}", 0.1)
        patch.setattr("hmx_pipeline.store.materialiser.BACKOFF_S", (0.1, 0.5))
        thread.start()
        try:
            yield materialiser
        finally:
            stop.set()
            thread.join(ENOUGH_S)
            assert not thread.is_alive()
    assert failures == []


def caught_up(settings: Settings, memory: Memory) -> Callable[[], bool]:
    wanted = ends(settings)
    return lambda: {where: memory.store.positions().get(where) for where in wanted} == wanted


def everything(settings: Settings) -> list[TopicRecord]:
    return [*episodes("e1", "e2"), contribution_as_read("c1", 0), artifact_as_read(artifact("a1"), 0, PARTITION)]


def test_what_is_committed_arrives_and_positions_cover_the_markers(settings: Settings, memory: Memory) -> None:
    publish(settings, everything(settings))
    publish(settings, [*episodes("never"), artifact_as_read(artifact("never"), 0, PARTITION)], commit=False)
    with running(settings) as materialiser:
        until(caught_up(settings, memory), "positions at the topics' ends")
        assert sorted(memory.found("deploy staging")) == ["a1", "e1", "e2"]
        assert memory.store.get_contribution("acme", "c1")
        assert memory.store.get_event("acme", "never") is None
        publish(settings, episodes("e3"))
        until(caught_up(settings, memory), "positions at the topics' ends again")
        assert "e3" in memory.found("deploy staging")
        assert materialiser.ready()[0]


@pytest.mark.requirement("K-05")
def test_redis_emptied_while_it_runs_is_filled_again(settings: Settings, memory: Memory) -> None:
    publish(settings, everything(settings))
    with running(settings):
        until(caught_up(settings, memory), "positions at the topics' ends")
        before, pack = memory.dump(), memory.pack("deploy staging")
        assert memory.store.completeness().cut == {}
        memory.wipe()
        until(caught_up(settings, memory), "memory built anew, with nothing new arriving")
        assert memory.dump() == before
        assert memory.pack("deploy staging") == pack


def test_several_at_once_write_what_one_writes(settings: Settings, memory: Memory) -> None:
    with running(settings), running(settings), running(settings):
        for n in range(6):
            publish(settings, episodes(*(f"e{n}-{i}" for i in range(20)), first=20 * n))
        until(caught_up(settings, memory), "positions at the topics' ends")
        together = memory.dump()
    memory.wipe()
    with running(settings):
        until(caught_up(settings, memory), "positions at the topics' ends")
        assert memory.dump() == together


def test_who_is_left_takes_over_what_another_had_filled(settings: Settings, memory: Memory) -> None:
    with running(settings):
        for life in range(2):
            with running(settings):
                publish(settings, episodes(*(f"together-{life}-{i}" for i in range(20))))
                until(caught_up(settings, memory), "positions at the topics' ends")
            publish(settings, episodes(*(f"alone-{life}-{i}" for i in range(20))))
            until(caught_up(settings, memory), "positions at the topics' ends, with one process less")


def test_stopped_and_started_it_goes_on_where_it_was(settings: Settings, memory: Memory) -> None:
    publish(settings, episodes("e1"))
    with running(settings):
        until(caught_up(settings, memory), "positions at the topics' ends")
    publish(settings, episodes("e2"))
    with running(settings):
        until(caught_up(settings, memory), "positions at the topics' ends")
    assert memory.client.hlen(memory.keys.tenant("acme").documents) == 2


def test_whoever_begins_from_the_stored_positions_tells_readers_to_forget(settings: Settings, memory: Memory) -> None:
    publish(settings, episodes("e1"))
    known: list[bytes | None] = [None]
    for _ in range(2):
        with running(settings):
            until(lambda: memory.client.get(memory.keys.filling) not in known, "another name for what is there")
            until(caught_up(settings, memory), "positions at the topics' ends")
            known.append(memory.client.get(memory.keys.filling))


def test_what_retention_took_is_passed_over(settings: Settings, memory: Memory) -> None:
    publish(settings, episodes("e1", "e2"))
    assert memory.blocks.apply(WHERE, None, 1, []).ours
    lost = TopicPartition(settings.topic_prefix + EPISODES, PARTITION, 3)
    admin = AdminClient({"bootstrap.servers": settings.kafka_bootstrap})
    for future in admin.delete_records([lost]).values():
        future.result(ENOUGH_S)
    publish(settings, episodes("e3"))
    before = METRICS.materialiser_lost._value.get()
    with running(settings):
        until(caught_up(settings, memory), "positions at the topics' ends")
    assert memory.found("deploy staging") == ["e3"]
    assert METRICS.materialiser_lost._value.get() - before == 2


def test_memory_that_is_filled_after_retention_says_what_it_lacks(settings: Settings, memory: Memory) -> None:
    publish(settings, episodes("e1", "e2"))
    lost = TopicPartition(settings.topic_prefix + EPISODES, PARTITION, 1)
    admin = AdminClient({"bootstrap.servers": settings.kafka_bootstrap})
    for future in admin.delete_records([lost]).values():
        future.result(ENOUGH_S)
    with running(settings):
        until(caught_up(settings, memory), "positions at the topics' ends")
    whole = memory.store.completeness()
    assert (whole.complete, whole.cut) == (True, {EPISODES: 1})
    assert f"1 record of {EPISODES}" in str(whole)
    assert memory.pack("deploy to staging").metadata["memory_cut"] == {EPISODES: 1}


def test_a_position_beyond_the_end_is_refused(settings: Settings, memory: Memory) -> None:
    memory.blocks.apply(WHERE, None, 99, [])
    with pytest.raises(MaterialiserError, match=r"99.*ends at 0"):
        Materialiser(settings).run(threading.Event())


def test_a_record_that_cannot_be_read_does_not_stop_the_rest(settings: Settings, memory: Memory) -> None:
    publish(settings, [TopicRecord(EPISODES, PARTITION, 0, b"k", b"{}", []), *episodes("e1")])
    with running(settings):
        until(caught_up(settings, memory), "positions at the topics' ends")
    assert memory.found("deploy staging") == ["e1"]


def test_without_redis_it_waits_and_says_so_and_then_loses_nothing(settings: Settings, tmp_path: Path) -> None:
    server = local_redis(tmp_path)
    memory = Memory(server.url, settings.topic_prefix)
    away = replace(settings, redis_url=server.url)
    publish(settings, episodes("e1"))
    with running(away) as materialiser:
        until(lambda: "Redis" in materialiser.ready()[1], "a reason that names Redis")
        assert not materialiser.ready()[0]
        assert materialiser.live()[0]
        process = subprocess.Popen(server.component.argv, stdout=subprocess.DEVNULL)
        try:
            until(lambda: materialiser.ready()[0], "ready")
            until(caught_up(settings, memory), "positions at the topics' ends")
            assert memory.found("deploy staging") == ["e1"]
            process.terminate()
            process.wait()
            until(lambda: not materialiser.ready()[0], "not ready once Redis is gone again")
        finally:
            process.kill()
            process.wait()
            memory.client.close()


def test_a_redis_without_room_is_waited_for_and_nothing_is_written_in_part(settings: Settings, tmp_path: Path) -> None:
    server = local_redis(tmp_path)
    memory = Memory(server.url, settings.topic_prefix)
    process = subprocess.Popen(server.component.argv, stdout=subprocess.DEVNULL)
    try:
        until(server.component.ready, "Redis")
        memory.client.config_set("maxmemory", 1)
        publish(settings, everything(settings))
        retries = METRICS.materialiser_retries.labels("redis")
        before = retries._value.get()
        with running(replace(settings, redis_url=server.url)) as materialiser:
            until(lambda: "memory" in materialiser.ready()[1], "a reason that names memory")
            assert retries._value.get() > before
            assert memory.dump() == {}
            memory.client.config_set("maxmemory", 0)
            until(caught_up(settings, memory), "positions at the topics' ends")
            assert sorted(memory.found("deploy staging")) == ["a1", "e1", "e2"]
    finally:
        memory.client.close()
        process.kill()
        process.wait()


def test_what_came_from_topics_that_were_created_again_is_built_anew(
    settings: Settings, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are as long as the old ones, so only ids tell: here the ids that are stored are of others."""
    monkeypatch.setattr("hmx_pipeline.store.healing.SWEPT_S", 0.0)  # a sweep may find what was put there for damage
    recreated = (EPISODES, ARTIFACTS)
    publish(settings, everything(settings))
    with running(settings):
        until(caught_up(settings, memory), "positions at the topics' ends")
    before, tenant = memory.dump(), memory.keys.tenant("a%:b")
    for topic in recreated:
        memory.client.hset(memory.keys.topics, topic, b"another")
        memory.client.hset(tenant.version, f"{topic}/0", b"1")
        for kind in KINDS[topic]:
            memory.client.set(f"{tenant.root}:{kind}:stale", b"")
    memory.client.sadd(memory.keys.tenants, "a%:b")
    memory.client.set(tenant.contribution("another topic's"), b"{}")
    with running(settings):
        # The stored positions are at the ends from the first, until the old topics are forgotten.
        until(lambda: b"another" not in memory.client.hvals(memory.keys.topics), "the ids of the topics that are there")
        until(caught_up(settings, memory), "positions at the topics' ends again")
    assert memory.client.delete(tenant.contribution("another topic's"))
    assert memory.dump() == before
    assert all(METRICS.materialiser_recreated.labels(topic)._value.get() for topic in recreated)


@pytest.mark.slow
def test_without_kafka_or_its_topics_it_waits_and_says_so(settings: Settings) -> None:
    for changes in ({"kafka_bootstrap": "127.0.0.1:1"}, {"topic_prefix": "absent."}):
        with running(replace(settings, **changes)) as materialiser:  # type: ignore[arg-type]
            until(lambda m=materialiser: "Kafka" in m.ready()[1], "a reason that names Kafka")  # type: ignore[misc]
            assert not materialiser.ready()[0]


def test_its_health_is_served(settings: Settings) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=Materialiser(settings).run, args=(stop,))
    thread.start()

    def answers(path: str) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{settings.materialiser_port}{path}", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    try:
        until(lambda: answers("/readyz"), "/readyz")
        assert answers("/livez")
        assert answers("/metrics")
    finally:
        stop.set()
        thread.join(ENOUGH_S)
    assert not answers("/livez")
