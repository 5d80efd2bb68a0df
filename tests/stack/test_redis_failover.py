"""Redis as a server that fails over, loads, has no room or may evict: waited for, or refused with a plain sentence."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hmx_pipeline.local.redis import Redis
from hmx_pipeline.local.redis import redis as local_redis
from hmx_pipeline.retrieval.postings import ROW
from hmx_pipeline.service.main import run_service
from hmx_pipeline.settings import Settings
from hmx_pipeline.store import atomic_blocks
from hmx_pipeline.store.atomic_blocks import EvictingError, StoreUnavailableError, refuse_eviction
from hmx_pipeline.store.fetch import Store
from hmx_pipeline.store.materialiser import Materialiser
from tests.stack.test_service import ACME
from tests.stack.test_store_materialiser import caught_up, ends, episodes, everything, publish, running
from tests.support.memory import Memory, episode, episode_as_read, memory_of
from tests.support.pipeline import create_topics, new_settings
from tests.support.resp import between
from tests.support.service import is_problem, serving
from tests.support.waiting import until

REFUSALS = {
    "READONLY": "READONLY You can't write against a read only replica.",
    "MOVED": "MOVED 3999 127.0.0.1:6381",
    "LOADING": "LOADING Redis is loading the dataset in memory",
    "OOM": "OOM command not allowed when used memory > 'maxmemory'.",
    "MASTERDOWN": "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "CLUSTERDOWN": "CLUSTERDOWN The cluster is down",
    "NOREPLICAS": "NOREPLICAS Not enough good replicas to write.",
    "NOPERM": "NOPERM this user has no permissions to run the command",
}


@pytest.fixture
def settings(kafka: str, redis_url: str) -> Settings:
    made = new_settings(kafka, redis_url)
    create_topics(made, 2)
    return made


@pytest.fixture
def memory(settings: Settings) -> Iterator[Memory]:
    with memory_of(settings) as made:
        yield made


@contextmanager
def server(folder: Path, *more: str) -> Iterator[Redis]:
    """A Redis of the test's own."""
    made = local_redis(folder)
    process = subprocess.Popen((*made.component.argv, *more), stdout=subprocess.DEVNULL)
    try:
        until(made.component.ready, "Redis")
        yield made
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("code", REFUSALS)
def test_whatever_redis_refuses_for_now_is_one_plain_sentence(memory: Memory, redis_url: str, code: str) -> None:
    memory.write(episode_as_read(episode("e1", "deploy staging"), 0))
    with between(redis_url) as standing:
        other = Memory(standing.url, memory.keys.prefix)
        standing.refuses = {"*": REFUSALS[code]}
        asked: list[Any] = [
            other.store.servers[0].ping,
            other.store.tenants,
            other.store.completeness,
            lambda: other.pack("deploy"),
            lambda: other.store.learnt("acme"),
            lambda: other.store.get_event("acme", "e1"),
            lambda: other.blocks.apply("hmx.episodes.v1/0", 1, 2, []),
            other.blocks.read_again,
        ]
        for ask in asked:
            with pytest.raises(StoreUnavailableError, match=r"Redis (refuses for now|does not answer): "):
                ask()
        standing.refuses = {}
        assert other.found("deploy to staging") == ["e1"]


@pytest.mark.parametrize("code", ["READONLY", "OOM"])
def test_the_materialiser_waits_for_a_redis_that_refuses_and_then_writes_everything_once(
    settings: Settings, memory: Memory, code: str
) -> None:
    with between(settings.redis_url) as standing, running(replace(settings, redis_url=standing.url)) as materialiser:
        publish(settings, everything(settings))
        until(caught_up(settings, memory), "positions at the topics' ends")
        standing.refuses = dict.fromkeys(("HSET", "SET", "WATCH", "EXEC"), REFUSALS[code])
        publish(settings, episodes("e3"))
        until(lambda: standing.refused and code in materialiser.ready()[1], "a reason that names it")
        assert materialiser.live()[0]
        standing.refuses = {}
        until(caught_up(settings, memory), "positions at the topics' ends again")
        assert memory.client.hlen(memory.keys.tenant("acme").documents) == 3
        assert memory.client.strlen(memory.keys.tenant("acme").rows) == 3 * ROW.itemsize


def test_a_connection_that_breaks_in_a_transaction_leaves_nothing_lost_or_doubled(
    settings: Settings, memory: Memory
) -> None:
    with between(settings.redis_url) as standing, running(replace(settings, redis_url=standing.url)):
        for number, command in enumerate(("WATCH", "MULTI", "EXEC", "EXEC")):
            standing.cut = command
            publish(settings, episodes(f"e{number}", first=number))
            until(caught_up(settings, memory), f"positions at the topics' ends after {command} was cut")
            assert standing.cut == ""
    rows = memory.client.strlen(memory.keys.tenant("acme").rows)
    assert rows == 4 * ROW.itemsize


def test_a_primary_that_becomes_a_replica_is_waited_for_by_writers_and_still_read(
    settings: Settings, tmp_path: Path
) -> None:
    with server(tmp_path / "a") as first:
        memory = Memory(first.url, settings.topic_prefix)
        here = replace(settings, redis_url=first.url)
        publish(settings, everything(settings))
        with running(here) as materialiser, serving(here) as service:
            until(caught_up(settings, memory), "positions at the topics' ends")
            memory.client.replicaof("127.0.0.1", "1")  # of a primary that does not answer
            publish(settings, episodes("e3"))
            until(lambda: "READONLY" in materialiser.ready()[1], "a reason that names the replica")
            answer = service.post("/v1/hmx/context-packs", json={"query": "deploy to staging"}, headers=ACME)
            assert answer.status_code == 200
            memory.client.replicaof("NO", "ONE")
            until(caught_up(settings, memory), "positions at the topics' ends again")
            assert "e3" in memory.found("deploy staging")


def test_the_service_answers_503_with_retry_after_and_names_what_is_wrong(settings: Settings, memory: Memory) -> None:
    with between(settings.redis_url) as standing, serving(replace(settings, redis_url=standing.url)) as service:
        standing.refuses = {"*": REFUSALS["LOADING"]}
        asked = [
            service.post("/v1/hmx/context-packs", json={"query": "deploy"}, headers=ACME),
            *(service.get(path, headers=ACME) for path in ("/v1/hmx/artifacts", "/v1/hmx/artifacts/a1")),
            service.get("/v1/hmx/events/e1", headers=ACME),
            service.post("/v1/hmx/fingerprints", json={}, headers=ACME),
        ]
        for answer in asked:
            problem = is_problem(answer, 503, "redis_unavailable")
            assert "loading its data" in problem["detail"]
            assert answer.headers["Retry-After"]
        until(lambda: "loading its data" in service.get("/readyz").text, "/readyz names it")
        dialect = service.post(
            "/v1/synthesize", json={"query": "deploy"}, headers=ACME | {"Authorization": "Bearer hx_test_acme"}
        )
        assert (dialect.status_code, dialect.json()["error"]["code"]) == (503, "service_unavailable")


def test_an_evicting_policy_is_refused_at_start_with_the_command_that_mends_it(
    settings: Settings, tmp_path: Path
) -> None:
    with server(tmp_path / "r", "--maxmemory-policy", "allkeys-lru") as evicting:
        here = replace(settings, redis_url=evicting.url)
        command = "redis-cli CONFIG SET maxmemory-policy noeviction"
        with pytest.raises(EvictingError, match=command):
            Materialiser(here).run(threading.Event())
        with pytest.raises(EvictingError, match=command):
            run_service(here)
        with serving(here) as service:  # one that has been running when the policy was set
            said = service.get("/readyz")
            assert said.status_code == 503
            assert command in said.text
            Memory(evicting.url, "").client.config_set("maxmemory-policy", "noeviction")
            until(lambda: command not in service.get("/readyz").text, "well again")


def test_a_policy_that_becomes_evicting_stops_writing_until_it_is_mended(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hmx_pipeline.store.materialiser.POLICY_S", 0.0)
    with server(tmp_path / "r") as own:
        memory, here = Memory(own.url, settings.topic_prefix), replace(settings, redis_url=own.url)
        with running(here) as materialiser:
            until(lambda: materialiser.ready()[0], "ready")
            memory.client.config_set("maxmemory-policy", "volatile-ttl")
            until(lambda: "noeviction" in materialiser.ready()[1], "a reason that names the command")
            memory.client.config_set("maxmemory-policy", "noeviction")
            publish(settings, everything(settings))
            until(caught_up(settings, memory), "positions at the topics' ends")


def test_the_policy_is_read_where_config_may_not_be_asked(tmp_path: Path) -> None:
    with server(tmp_path / "r", "--maxmemory-policy", "allkeys-random") as managed:
        memory = Memory(managed.url, "")
        memory.client.acl_setuser("default", commands=["-config"])
        with pytest.raises(EvictingError):
            refuse_eviction(memory.client)


def test_while_redis_is_being_filled_packs_say_so_or_refuse(settings: Settings, memory: Memory) -> None:
    publish(settings, everything(settings))
    wanted = ends(settings)
    with serving(settings) as service:

        def asked(**more: Any) -> Any:
            return service.post("/v1/hmx/context-packs", json={"query": "deploy staging", **more}, headers=ACME)

        empty = asked()
        assert empty.status_code == 200
        assert empty.json()["metadata"]["memory_complete"] is False
        assert empty.headers["X-HMX-Memory-Complete"] == "false"
        refused = is_problem(asked(require_complete=True), 503, "memory_incomplete")
        assert "memory is 0 % filled" in refused["detail"]
        # As a materialiser leaves it that has read a part, and was killed.
        memory.blocks.begin_fill({where: (0, end) for where, end in wanted.items()})
        memory.write(*(episodes("e1")))
        part = asked().json()["metadata"]
        assert part["memory_complete"] is False
        assert 0 < part["memory_filling"]["percent"] < 100
        where = part["memory_filling"]["partitions"]["hmx.episodes.v1/0"]
        assert where == {"position": 1, "end": wanted["hmx.episodes.v1/0"]}
        listed = service.get("/v1/hmx/artifacts", headers=ACME)
        assert (listed.json()["memory_complete"], listed.headers["X-HMX-Memory-Complete"]) == (False, "false")
        missing = is_problem(service.get("/v1/hmx/artifacts/a1", headers=ACME), 404, "not_found")
        assert "being filled" in missing["detail"]
        assert service.get("/v1/hmx/overview").json()["memory_complete"] is False
        assert service.get("/readyz").json()["memory_complete"] is False
        dialect = service.post(
            "/v1/synthesize", json={"query": "deploy"}, headers={"Authorization": "Bearer hx_test_acme"}
        )
        assert dialect.headers["X-HMX-Memory-Complete"] == "false"
        assert dialect.json()["data"]["metadata"]["memory_complete"] is False
        with running(settings):
            until(caught_up(settings, memory), "positions at the topics' ends")
            whole = asked(require_complete=True)
            assert whole.status_code == 200
            assert whole.json()["metadata"]["memory_complete"] is True
            assert whole.headers["X-HMX-Memory-Complete"] == "true"
            memory.wipe()
            assert asked().json()["metadata"]["memory_complete"] in (False, True)
            until(lambda: asked().json()["metadata"]["memory_complete"], "complete again")
    assert Store([memory.client], memory.keys).completeness().complete


def test_a_server_that_is_paused_is_waited_for_in_bounds_and_then_answers_again(
    settings: Settings, memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic_blocks, "ANSWER_S", 0.5)
    with server(tmp_path / "r") as own, serving(replace(settings, redis_url=own.url)) as service:
        there = Memory(own.url, settings.topic_prefix)
        there.write(episode_as_read(episode("e1", "deploy staging"), 0))
        ask = partial(service.post, "/v1/hmx/context-packs", json={"query": "deploy to staging"}, headers=ACME)
        before = ask().json()["entries"]
        assert before
        there.client.client_pause(6_000)
        refused = ask()
        assert "Redis does not answer" in is_problem(refused, 503, "redis_unavailable")["detail"]
        assert int(refused.headers["retry-after"]) > 0
        until(lambda: ask().status_code == 200, "it answers again")
        assert ask().json()["entries"] == before
