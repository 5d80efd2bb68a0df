"""Keys of Redis that were deleted, cut or altered behind our back: nothing altered is served, all of it is mended."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import RedisError, ResponseError

from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.retrieval.postings import document_number
from hmx_pipeline.settings import Settings
from hmx_pipeline.store import integrity_sweep
from hmx_pipeline.store.atomic_blocks import Client, kind_of, snapshot
from hmx_pipeline.store.changes import Command
from hmx_pipeline.store.damage_log import DOCUMENT, Lost
from hmx_pipeline.store.fetch import Store
from hmx_pipeline.store.integrity_sweep import LOOKED_AT, IntegritySweep
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.store.redis_keys import KINDS
from hmx_pipeline.store.repair import spans
from hmx_pipeline.store.topic_ids import forget_damaged
from hmx_pipeline.topology import ARTIFACTS, EPISODES, EVIDENCE
from tests.stack.test_redis_failover import server
from tests.stack.test_service import ACME
from tests.stack.test_store_knowledge import as_read, knowledge_of, said
from tests.stack.test_store_materialiser import caught_up, episodes, publish, running
from tests.support.memory import (
    Memory,
    artifact,
    artifact_as_read,
    contribution_as_read,
    episode,
    episode_as_read,
    memory_of,
    procedure,
)
from tests.support.pipeline import create_topics, new_settings
from tests.support.service import is_problem, serving
from tests.support.waiting import until

RULE = "Always run the linter before committing."


@pytest.fixture
def settings(kafka: str, redis_url: str) -> Settings:
    made = new_settings(kafka, redis_url)
    create_topics(made, 1)
    return made


@pytest.fixture
def memory(settings: Settings) -> Iterator[Memory]:
    with memory_of(settings) as made:
        yield made


def records() -> list[TopicRecord]:
    other = artifact("a2", "Deploy staging twice", content=procedure("look around", "deploy it", "verify rollout"))
    rules = as_read(knowledge_of([*said("s9", RULE)]))
    near = episode(
        "near", "deploy staging near", index=7, session="s2", embeddings=[0.5, 0.5], tags=["fleet"], ttl_seconds=10**6
    )
    failed = {"error_type": "PinError", "message": "the pin is wrong"}
    error = episode("failed", event_type="error", content=failed, session="s1", index=2)
    whose = episode("whose", "deploy staging alone", session="s3", index=8, metadata={"subject_id": "ann"})
    return [
        *episodes("e1", "e2"),
        episode_as_read(whose, 0),
        episode_as_read(error, 0),
        episode_as_read(near, 0),
        *(record._replace(partition=0) for record in rules),
        contribution_as_read("c1", 0),
        artifact_as_read(artifact("a1"), 0),
        artifact_as_read(other, 0),
    ]


def flipped(value: bytes) -> bytes:
    at = len(value) // 2
    return value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]


def alter(memory: Memory, key: bytes, how: str) -> None:
    """Deletes a key, gives it another type, cuts it or flips a bit of it."""
    client, kind = memory.client, memory.client.type(key)
    if how == "deleted":
        client.delete(key)
    elif how == "mistyped":
        client.delete(key)
        client.execute_command(*((b"SET", key, b"garbage") if kind != b"string" else (b"SADD", key, b"garbage")))
    elif kind == b"string":
        value = client.get(key)
        client.set(key, flipped(value) if how == "flipped" else value[: len(value) // 2])
    elif kind == b"list":
        last = client.rpop(key)
        if how == "flipped":
            client.rpush(key, flipped(last))
    elif kind == b"hash":
        field, value = min(client.hgetall(key).items())
        client.hset(key, field, flipped(value)) if how == "flipped" else client.hdel(key, field)
    elif kind == b"zset":
        member, score = client.zrange(key, 0, 0, withscores=True)[0]
        client.zrem(key, member)
        if how == "flipped":
            client.zadd(key, {flipped(member): score})
    else:
        member = client.spop(key)
        if how == "flipped":
            client.sadd(key, flipped(member))


HOWS = ("deleted", "mistyped", "flipped", "cut")


def asked(service: Any, path: str) -> Any:
    return service.get(f"/v1/hmx/{path}", headers=ACME)


def pack_of(service: Any) -> Any:
    return service.post("/v1/hmx/context-packs", json={"query": "deploy staging linter"}, headers=ACME)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.requirement("Y27")
def test_a_corrupt_record_costs_one_entry_and_is_named_and_not_served(
    settings: Settings, memory: Memory, how: str
) -> None:
    memory.write(*numbered(records()))
    tenant = memory.keys.tenant("acme")
    with serving(settings) as service:
        before = pack_of(service).json()
        assert {"a1", "a2"} <= {entry["source_id"] for entry in before["entries"]}
        Store([memory.client], memory.keys)
    alter(memory, tenant.artifact("a1"), how)
    alter(memory, tenant.contribution("c1"), how)
    alter(memory, tenant.event("e1"), how)
    counted = METRICS.provenance_failed.labels("artifact")
    was = counted._value.get()
    with serving(settings) as service:
        answer = pack_of(service)
        assert answer.status_code == 200
        entries = {entry["source_id"] for entry in answer.json()["entries"]}
        assert "a1" not in entries
        assert "a2" in entries
        assert answer.json()["metadata"]["provenance_failed"] == ["artifact a1"]
        for path in ("artifacts/a1", "contributions/c1", "events/e1", "events/e1?session=s1"):
            problem = is_problem(asked(service, path), 503, "provenance_failed")
            assert "restores it from its topic" in problem["detail"]
        assert [one["artifact_id"] for one in asked(service, "artifacts").json()["artifacts"]] == ["a2"]
        until(lambda: "artifact a1" in service.get("/readyz").json()["provenance_failed"], "/readyz names it")
        assert counted._value.get() > was
        assert "hmx_provenance_failed_total" in service.get("/metrics").text


def numbered(made: list[TopicRecord]) -> list[TopicRecord]:
    """By topic, as they would stand in it."""
    at: dict[str, int] = {}
    found = []
    for record in made:
        at[record.topic] = at.get(record.topic, -1) + 1
        found.append(record._replace(offset=at[record.topic]))
    return found


@pytest.fixture(scope="module")
def filled(kafka: str, redis_url: str) -> Iterator[tuple[Settings, Memory, dict[bytes, bytes]]]:
    """One materialiser that goes on running while keys are damaged one after the other."""
    settings = new_settings(kafka, redis_url)
    create_topics(settings, 1)
    memory = Memory(settings.redis_url, settings.topic_prefix)
    publish(settings, records())
    with running(settings):
        until(caught_up(settings, memory), "positions at the topics' ends")
        yield settings, memory, memory.dump()
    memory.wipe()
    memory.client.close()


def is_as(memory: Memory, before: dict[bytes, bytes]) -> bool:
    try:
        return memory.dump() == before
    except (LookupError, TypeError, ValueError, ResponseError):  # while it changes
        return False


def kinds_of(memory: Memory) -> dict[str, bytes]:
    """A key of every kind that the layout has."""
    return {kind_of(key): key for key in sorted(memory.client.scan_iter(match=f"{memory.keys.root}*"), reverse=True)}


PROJECTED = {kind for kinds in KINDS.values() for kind in kinds} - {"pcards", "pchanges", "unsearched"}
"""But for what these records do not write: cards of precedents, and how many episodes found no more room."""
KIND = sorted({*PROJECTED, "version", "positions", "goals", "tenants", "topics", "filling", "hmx.episodes.v1/0"})


@pytest.mark.parametrize("how", ["deleted", *(pytest.param(how, marks=pytest.mark.slow) for how in HOWS[1:])])
@pytest.mark.parametrize("kind", KIND)
@pytest.mark.requirement("Y27")
def test_a_key_of_any_kind_that_is_damaged_is_never_a_5xx_and_is_mended(
    filled: tuple[Settings, Memory, dict[bytes, bytes]], kind: str, how: str
) -> None:
    settings, memory, before = filled
    pack = memory.pack("deploy staging linter", session_id="s1")
    assert pack.entries
    key = kinds_of(memory)[kind]
    alter(memory, key, how)
    reader = Memory(settings.redis_url, settings.topic_prefix)  # remembers nothing
    told = {entry.source_id: entry.content for entry in pack.entries}

    def mended() -> bool:
        entries = reader.pack("deploy staging linter", session_id="s1").entries
        assert all(told.get(entry.source_id, entry.content) == entry.content for entry in entries)
        return is_as(memory, before)

    until(mended, f"{kind} is mended")
    until(lambda: memory.store.completeness().complete, "complete again")
    now = Memory(settings.redis_url, settings.topic_prefix).pack("deploy staging linter", session_id="s1")
    assert now.entries == pack.entries
    assert now.workflow_hints == pack.workflow_hints


@pytest.mark.parametrize("partition", [0, 3])
def test_memory_that_nobody_damaged_is_never_called_damaged(memory: Memory, partition: int) -> None:
    memory.write(*numbered([record._replace(partition=partition) for record in records()]))
    integrity_sweep = IntegritySweep(memory.client, memory.keys)
    found = list(iter(integrity_sweep.step, None))
    assert len(found) > 5, "a census, a page of episodes and of each kind of record"
    assert not any(each.lost or each.broken for each in found)


def test_what_a_server_has_evicted_is_found_and_memory_is_as_before(settings: Settings, tmp_path: Path) -> None:
    with server(tmp_path / "r") as own:
        memory, here = Memory(own.url, settings.topic_prefix), replace(settings, redis_url=own.url)
        publish(settings, records())
        with running(here):
            until(caught_up(settings, memory), "positions at the topics' ends")
            until(lambda: memory.store.completeness().complete, "complete")
            before = memory.dump()
            memory.client.config_set("maxmemory-policy", "allkeys-random")
            memory.client.config_set("maxmemory", 1)
            until(lambda: memory.client.info("stats")["evicted_keys"] > 3 or evict(memory), "some keys are evicted")
            memory.client.config_set("maxmemory", 0)
            memory.client.config_set("maxmemory-policy", "noeviction")
            until(lambda: is_as(memory, before), "memory is as it was")
            until(lambda: memory.store.completeness().complete, "complete again")


def evict(memory: Memory) -> bool:
    """A command that asks for room."""
    with suppress(RedisError):
        memory.client.set("room", b"x")
    return False


STRAY = (
    "expiring", "pcards", "pchanges:0", "unsearched", "kcards", "artifacts:archived", "known:retracted", "tag:nobody",
    "vector:unknown", "session:nobody",
)  # fmt: skip


@pytest.mark.parametrize("name", STRAY)
def test_a_key_of_the_wrong_type_that_nothing_rests_on_goes_by_itself(
    filled: tuple[Settings, Memory, dict[bytes, bytes]], name: str
) -> None:
    _, memory, before = filled
    key = f"{memory.keys.tenant('acme').root}:{name}".encode()
    memory.client.delete(key)
    memory.client.xadd(key, {"a": "b"})
    until(lambda: is_as(memory, before), "memory is as before")
    until(lambda: memory.store.completeness().complete, "complete again")


def test_the_kinds_that_memory_is_built_anew_for_are_named_until_it_is_whole(
    settings: Settings, memory: Memory
) -> None:
    memory.write(*numbered(records()))
    memory.blocks.begin_fill({"hmx.episodes.v1/0": (0, 1)})
    forget_damaged(memory.client, memory.keys, {EPISODES: "id"}, ["hmx.episodes.v1/0"], {"known"})
    memory.blocks.begin_fill({"hmx.episodes.v1/0": (0, 1)})
    with serving(settings) as service:
        until(lambda: "keys of kind known" in service.get("/readyz").json()["memory_filled"], "/readyz names it")
    memory.write(*numbered(episodes("e1")))
    assert memory.store.completeness().complete


def test_captures_go_on_where_a_key_of_theirs_is_of_another_type(memory: Memory) -> None:
    tenant = memory.keys.tenant("acme")
    for key in (memory.keys.capturing, tenant.captures("s1")):
        memory.client.delete(key)
        memory.client.xadd(key, {"a": "b"})
        capturing = memory.store.capturing(0)
        until(lambda capturing=capturing: capturing.enter("acme", "me", ["s1"]), "the session is given out")
        capturing.leave("acme", "me", {"s1": 7})


def common(count: int) -> list[TopicRecord]:
    """Episodes that share their terms."""
    return [episode_as_read(episode(f"e{n}", "deploy staging", index=n), n) for n in range(count)]


def test_postings_of_a_term_are_looked_at_however_many_there_are(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Command] = []

    def counted(client: Client, commands: Sequence[Command], damaged: set[str]) -> list[Any]:
        asked.extend(commands)
        return snapshot(client, commands, damaged)

    monkeypatch.setattr(integrity_sweep, "snapshot", counted)
    memory.write(*common(500))
    assert not any(found.broken for found in iter(IntegritySweep(memory.client, memory.keys).step, None))
    assert not [one for one in asked if one[0] == b"GET" and b":term:" in one[1]], "only parts of them are read"
    term = memory.keys.tenant("acme").postings("deploy")
    whole = memory.client.get(term)
    assert len(whole) > 3 * LOOKED_AT
    for at in (LOOKED_AT + 1, 2 * LOOKED_AT, len(whole) - 8):
        memory.client.set(term, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        broken = set().union(*(found.broken for found in iter(IntegritySweep(memory.client, memory.keys).step, None)))
        assert broken == {"term"}


def test_what_restores_a_record_is_read_from_where_memory_says_it_stands(memory: Memory) -> None:
    memory.write(*numbered(records()))
    tenant, ends = memory.keys.tenant("acme"), {(ARTIFACTS, 0): 9, (EPISODES, 0): 9, (EPISODES, 1): 9, (EVIDENCE, 0): 9}
    document = str(document_number(1, 5))
    assert spans(memory.client, [Lost(tenant, "artifact", "a2")], ends) == {(ARTIFACTS, 0): (1, 2)}
    assert spans(memory.client, [Lost(tenant, DOCUMENT, document)], ends) == {(EPISODES, 1): (5, 6)}
    assert spans(memory.client, [Lost(tenant, "contribution", "c1")], ends) == {(EVIDENCE, 0): (0, 9)}
    both = [Lost(tenant, DOCUMENT, document), Lost(tenant, "event", "e1")]
    assert spans(memory.client, both, ends) == {(EPISODES, 0): (0, 9), (EPISODES, 1): (0, 9)}


def test_a_record_is_restored_also_where_memory_is_wrong_about_its_place(
    filled: tuple[Settings, Memory, dict[bytes, bytes]],
) -> None:
    _, memory, before = filled
    tenant = memory.keys.tenant("acme")
    memory.client.zadd(tenant.artifact_changes(0), {"a1": 1})
    memory.client.set(tenant.artifact("a1"), b"{}")
    until(lambda: is_as(memory, before), "it is restored, and so is its place")
