"""HmxStore as LangGraph uses a store, against the service on a real Kafka and Redis."""

import asyncio
from collections.abc import Iterator

import httpx
import pytest

from hmx_mcp.marking import NOTE
from hmx_mcp.service import Service
from hmx_pipeline.settings import Settings
from tests.stack.test_otel import logged
from tests.support.memory import artifact, artifact_as_read, procedure
from tests.support.pipeline import create_topics, new_settings
from tests.support.service import remembering

pytest.importorskip("langgraph.store.base")
from hmx_langgraph import HmxStore


@pytest.fixture(scope="module")
def settings(kafka: str, redis_url: str) -> Iterator[Settings]:
    made = new_settings(kafka, redis_url)
    create_topics(made, partitions=1)
    known = artifact_as_read(artifact("a1", "Deploy staging", content=procedure("check namespace", "apply it")), 0)
    with remembering(made, [known]) as filled:
        yield filled


@pytest.fixture
def store(service: httpx.Client) -> HmxStore:
    where = {"HMX_SERVICE_URL": str(service.base_url), "HMX_TENANT": "acme"}
    return HmxStore(Service.of(where))


def test_memory_is_searched_by_a_query_and_marked_as_data(store: HmxStore) -> None:
    (found,) = store.search(("hmx",), query="deploy staging")
    assert (found.namespace, found.key) == (("hmx", "procedures"), "a1")
    assert found.value["text"].startswith(NOTE)
    assert "> " in found.value["text"]
    assert "check namespace" in found.value["text"]
    assert found.score is not None
    assert store.search(("hmx", "procedures"), query="deploy staging") != []
    assert store.search(("hmx", "facts"), query="deploy staging") == []
    assert store.search(("hmx",), query="deploy staging", offset=1) == []
    assert store.search(("hmx",)) == []


def test_one_record_is_had_by_its_id(store: HmxStore) -> None:
    found = store.get(("hmx",), "a1")
    assert found is not None
    assert found.value["kind"] == "artifacts"
    assert store.get(("hmx",), "nothing") is None


def test_what_is_put_is_an_event_and_the_same_put_again_is_none(store: HmxStore, settings: Settings) -> None:
    for _ in range(2):
        store.put(("hmx", "facts"), "db", {"content": "The database is Postgres."})
    store.put(("hmx", "facts"), "db", {"host": "db1", "port": 5432})
    texts = [event["content"]["text"] for event in logged(settings, "langgraph")]
    assert texts == ["The database is Postgres.", '{"host": "db1", "port": 5432}']


def test_what_memory_cannot_do_is_said(store: HmxStore) -> None:
    with pytest.raises(ValueError, match="deletes nothing"):
        store.delete(("hmx",), "a1")
    with pytest.raises(ValueError, match="section"):
        store.search(("hmx",), query="x", filter={"kind": "y"})


def test_no_fact_of_a_person_is_recorded_as_everybodys(store: HmxStore, settings: Settings) -> None:
    """Graphs put the person into the namespace; memory knows people by the key or the subject alone."""
    before = logged(settings, "langgraph")
    for whose in (("ann",), ("ann", "facts"), ("facts", "ann")):
        with pytest.raises(ValueError, match="whose"):
            store.put(("hmx", *whose), "k", {"text": "I am allergic to nuts."})
    assert logged(settings, "langgraph") == before


def test_every_other_namespace_is_the_graphs_own(store: HmxStore, settings: Settings) -> None:
    store.put(("users", "ann"), "theme", {"dark": True})
    item = store.get(("users", "ann"), "theme")
    assert item is not None
    assert item.value == {"dark": True}
    assert store.list_namespaces() == [("users", "ann")]
    store.delete(("users", "ann"), "theme")
    assert store.get(("users", "ann"), "theme") is None


def test_operations_of_both_kinds_are_answered_in_their_order_without_blocking(store: HmxStore) -> None:
    async def both() -> tuple[object, ...]:
        await store.aput(("users",), "k", {"v": 1})
        own, found, none = await asyncio.gather(
            store.aget(("users",), "k"), store.asearch(("hmx",), query="deploy staging"), store.aget(("users",), "x")
        )
        return own and own.value, [one.key for one in found], none

    assert asyncio.run(both()) == ({"v": 1}, ["a1"], None)
