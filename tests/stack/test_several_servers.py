"""Several Redis servers share the tenants: each holds its own, and what befalls one does not reach other tenants."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hmx_pipeline.contracts.pack import ContextPack
from hmx_pipeline.local.redis import redis as local_redis
from hmx_pipeline.packs.assemble import assemble
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.retrieval_plan import plan
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.fetch import Store
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.store.servers import number_of
from tests.stack.test_store_materialiser import ends, publish, running
from tests.support.memory import artifact, artifact_as_read, episode, episode_as_read
from tests.support.pipeline import create_topics, new_settings
from tests.support.service import is_problem, serving
from tests.support.waiting import until

TENANTS = [f"tenant-{n}" for n in range(8)]
HELD = [[tenant for tenant in TENANTS if number_of(tenant, 2) == server] for server in (0, 1)]


class Server:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.made = local_redis(folder)
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.made.component.argv, stdout=subprocess.DEVNULL)
        until(self.made.component.ready, "Redis")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def lose(self) -> None:
        shutil.rmtree(self._folder / "appendonlydir")


@pytest.fixture
def redis_servers(tmp_path: Path) -> Iterator[list[Server]]:
    made = [Server(tmp_path / name) for name in ("one", "two")]
    yield made
    for each in made:
        each.kill()


@pytest.fixture
def settings(kafka: str, redis_servers: list[Server]) -> Settings:
    made = new_settings(kafka, " ".join(each.made.url for each in redis_servers))
    create_topics(made)
    publish(made, said())
    return made


def said() -> list[TopicRecord]:
    """By every tenant, over both partitions."""
    found = []
    for number, tenant in enumerate(TENANTS):
        for index in range(3):
            one = episode(f"{tenant}-{index}", f"deploy staging {index}", tenant=tenant, session=tenant, index=index)
            found.append(episode_as_read(one, 0, number % 2))
        found.append(artifact_as_read(artifact(f"{tenant}-a", tenant=tenant), 0, number % 2))
    return found


def pack(store: Store, tenant: str) -> ContextPack:
    request = PackRequest.model_validate({"query": "deploy staging", "tenant_id": tenant})
    planned = plan(request, store.embed)
    return assemble(request, planned, store.fetch(planned))


def caught_up(settings: Settings) -> Any:
    wanted, store = ends(settings), Store.open(settings)
    return lambda: {where: store.positions().get(where) for where in wanted} == wanted


def materialising(stack: ExitStack, settings: Settings) -> None:
    for server in (0, 1):
        stack.enter_context(running(replace(settings, redis_server=server)))


def test_each_server_holds_its_tenants_and_packs_are_those_of_one_server(settings: Settings, redis_url: str) -> None:
    alone = replace(settings, redis_url=redis_url)
    with ExitStack() as stack:
        materialising(stack, settings)
        stack.enter_context(running(alone))
        until(caught_up(settings), "positions at the topics' ends, on both")
        until(caught_up(alone), "positions at the topics' ends")
    shared, whole = Store.open(settings), Store.open(alone)
    assert [sorted(server.tenants()) for server in shared.servers] == HELD
    assert shared.tenants() == TENANTS
    for tenant in TENANTS:
        assert pack(shared, tenant).entries, tenant
        assert pack(shared, tenant) == pack(whole, tenant)
        assert shared.counts(tenant) == whole.counts(tenant)
        assert shared.get_event(tenant, f"{tenant}-1") == whole.get_event(tenant, f"{tenant}-1")


@pytest.mark.requirement("K-05")
def test_a_server_that_lost_everything_is_filled_anew_while_the_others_tenants_notice_nothing(
    settings: Settings, redis_servers: list[Server]
) -> None:
    with ExitStack() as stack:
        materialising(stack, settings)
        until(caught_up(settings), "positions at the topics' ends")
        store = Store.open(settings)
        before = {tenant: pack(store, tenant) for tenant in TENANTS}
        redis_servers[1].kill()
        service = stack.enter_context(serving(settings))
        assert [pack(store, tenant) for tenant in HELD[0]] == [before[tenant] for tenant in HELD[0]]
        asked = [service.post("/v1/hmx/context-packs", json={"query": "deploy"}, headers={"X-HMX-Tenant": tenant})
                 for tenant in (HELD[0][0], HELD[1][0])]  # fmt: skip
        assert asked[0].json()["metadata"]["memory_complete"] is True
        is_problem(asked[1], 503, "redis_unavailable")
        assert service.get("/readyz").status_code == 200
        redis_servers[1].lose()
        redis_servers[1].start()
        until(caught_up(settings), "the lost server is filled again")
        assert {tenant: pack(store, tenant) for tenant in TENANTS} == before
        assert service.get("/readyz").status_code == 200


def test_another_number_of_servers_is_filled_beside_what_serves(
    settings: Settings, redis_servers: list[Server]
) -> None:
    alone = replace(settings, redis_url=redis_servers[0].made.url)
    with ExitStack() as stack:
        stack.enter_context(running(alone))
        until(caught_up(alone), "positions at the topics' ends, on one")
        before = {tenant: pack(Store.open(alone), tenant) for tenant in TENANTS}
        assert not pack(Store.open(settings), TENANTS[0]).metadata["memory_complete"]
        materialising(stack, settings)
        until(caught_up(settings), "positions at the topics' ends, on both")
        for store in map(Store.open, (alone, settings)):
            assert {tenant: pack(store, tenant) for tenant in TENANTS} == before
