"""mem0's routes on a real Kafka and Redis: whose memory is found, and what is no request. The client is in
tests/clients."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from hmx_pipeline.contracts.limits import CONTENT_BYTES
from hmx_pipeline.service.api_keys import USUAL, Grant, Scope, add
from hmx_pipeline.settings import Settings
from tests.stack.test_subject_keys import ANN, BOB, HERON, OPEN, OTTER, as_read, known
from tests.support.memory import Memory
from tests.support.pipeline import create_topics, logged, new_settings
from tests.support.service import serving


@pytest.fixture(scope="module")
def settings(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.touch()
    made = new_settings(kafka, redis_url, api_keys=str(file), mem0=1)
    create_topics(made, partitions=1)
    memory = Memory(redis_url, made.topic_prefix)
    records = [
        known("k-ann", f"locker {HERON}", ANN),
        known("k-bob", f"locker {OTTER}", BOB),
        known("k-all", f"locker {OPEN}"),
    ]
    memory.write(*as_read(records))
    yield made
    memory.wipe()
    memory.client.close()


def key(settings: Settings, subject: str | None = None, *scopes: Scope) -> dict[str, str]:
    """As mem0's clients show it."""
    return {
        "Authorization": f"Token {add(Path(settings.api_keys), Grant('acme', frozenset(scopes) or USUAL, subject))}"
    }


def memories(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 200, answer.text
    return {one["id"] for one in answer.json()["results"]}


def test_a_user_finds_the_own_and_what_all_share(service: httpx.Client, settings: Settings) -> None:
    tenant, ann = key(settings), key(settings, ANN)
    asked: dict[str, Any] = {"query": "What about the locker?", "filters": {"user_id": ANN}}
    own = service.post("/v3/memories/search/", json=asked, headers=tenant)
    assert memories(own) == {"k-ann", "k-all"}
    assert any(one["memory"].startswith(f"locker {HERON}") for one in own.json()["results"])
    assert memories(service.post("/v3/memories/search/", json={**asked, "top_k": 1}, headers=tenant)) < memories(own)
    nobody = {"query": asked["query"], "filters": {"AND": [{"agent_id": "nobody"}]}}
    other_app = {"query": asked["query"], "filters": {"app_id": "nobody"}}
    assert memories(service.post("/v1/memories/search/", json=other_app, headers=tenant)) == set()
    assert memories(service.post("/v3/memories/", json={"filters": {"app_id": "nobody"}}, headers=tenant)) == set()
    assert memories(service.post("/v1/memories/search/", json={"query": asked["query"]}, headers=ann)) == memories(own)
    assert memories(service.post("/v1/memories/search/", json=nobody, headers=tenant)) == set()
    assert memories(service.post("/v3/memories/", json={"filters": {"user_id": BOB}}, headers=tenant)) == {"k-bob"}
    assert memories(service.post("/v3/memories/", json={}, headers=tenant)) == {"k-all"}
    assert memories(service.get("/v1/memories/", headers=ann)) == {"k-ann"}
    assert memories(service.get("/v1/memories/", params={"user_id": ANN, "page": 2}, headers=tenant)) == set()
    assert service.get("/v1/memories/k-ann/", headers=ann).json()["memory"] == f"locker {HERON}"
    assert service.get("/v1/ping/", headers=ann).json()["org_id"] == "acme"


def test_a_bound_key_reaches_no_other_user(service: httpx.Client, settings: Settings) -> None:
    ann, other = key(settings, ANN), {"user_id": BOB}
    answers = [
        service.post("/v3/memories/search/", json={"query": "x", "filters": other}, headers=ann),
        service.post("/v3/memories/", json={"filters": {"AND": [other]}}, headers=ann),
        service.post("/v3/memories/add/", json={"messages": "hi", **other}, headers=ann),
        service.get("/v1/memories/", params=other, headers=ann),
        service.delete("/v1/memories/", params=other, headers=ann),
        service.delete("/v1/memories/", headers=key(settings, ANN, Scope.READ)),
        service.delete("/v1/memories/k-all/", headers=ann),
        service.delete("/v1/memories/k-ann/", headers=key(settings)),
    ]  # fmt: skip
    assert [answer.status_code for answer in answers] == [403] * len(answers)
    for answer in (service.get("/v1/memories/k-bob/", headers=ann), service.delete("/v1/memories/k-bob/", headers=ann)):
        assert answer.status_code == 404
        assert OTTER not in answer.text


def test_what_is_added_is_an_event_of_its_user(service: httpx.Client, settings: Settings) -> None:
    said = [{"role": "user", "content": "I am vegetarian"}, {"role": "robot", "content": [{"text": "Noted"}, {"x": 1}]}]
    body = {"messages": said, "user_id": ANN, "run_id": "r1", "agent_id": "cook", "metadata": {"room": "kitchen"}}
    answer = service.post("/v3/memories/add/", json=body, headers=key(settings)).json()
    events = logged(settings, "r1")
    assert [one["id"] for one in answer["results"]] == [event["event_id"] for event in events]
    assert [event["content"] for event in events] == [
        {"role": "user", "text": "I am vegetarian"}, {"role": "user", "text": "Noted"},
    ]  # fmt: skip
    assert {(event["agent_id"], event["metadata"]["subject_id"], event["metadata"]["room"]) for event in events} == {
        ("cook", ANN, "kitchen")
    }


def test_a_user_and_an_agent_of_the_same_name_have_sessions_of_their_own(
    service: httpx.Client, settings: Settings
) -> None:
    for whose in ({"user_id": "rex"}, {"agent_id": "rex"}, {"user_id": "agent-rex"}):
        body = {"messages": "Hello", **whose}
        assert service.post("/v3/memories/add/", json=body, headers=key(settings)).status_code == 200
    sessions = [event["session_id"] for event in logged(settings) if event["session_id"].startswith("mem0-")]
    assert len(set(sessions)) == len(sessions) == 3


def test_what_is_refused_is_refused_whole_so_that_sending_it_again_doubles_nothing(
    service: httpx.Client, settings: Settings
) -> None:
    said = [{"role": "user", "content": "I am vegetarian"}, {"role": "user", "content": "x" * CONTENT_BYTES}]
    body = {"messages": said, "user_id": ANN, "run_id": "refused"}
    assert service.post("/v3/memories/add/", json=body, headers=key(settings)).status_code == 422
    assert logged(settings, "refused") == []


def test_pages_of_a_list_lead_through_all_of_it(service: httpx.Client, settings: Settings) -> None:
    following, found = f"/v1/memories/?user_id={ANN}&page_size=1", list[str]()
    while following is not None:
        page = service.get(following, headers=key(settings)).json()
        found += [one["id"] for one in page["results"]]
        following = page["next"]
    assert found == ["k-ann"]
    assert service.get("/v1/memories/", params={"page_size": 1}, headers=key(settings)).json()["next"] is not None


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v3/memories/add/", {"user_id": "ann"}), ("/v3/memories/add/", {"messages": []}),
        ("/v3/memories/add/", {"messages": [1]}), ("/v3/memories/add/", {"messages": "x", "user_id": 7}),
        ("/v3/memories/search/", {"query": ""}), ("/v3/memories/search/", {"query": ["x"]}),
        ("/v3/memories/search/", []), ("/v3/memories/search/", {"query": "x", "top_k": -1}),
        ("/v3/memories/search/", {"query": "x", "limit": "10"}),
        ("/v3/memories/search/", {"query": "x", "filters": {"AND": [{"user_id": "ann"}, {"user_id": "bob"}]}}),
        ("/v3/memories/search/", {"query": "x", "run_id": "r" * 600}),
        ("/v3/memories/search/", {"query": "x", "filters": {"OR": [{"user_id": "a"}, {"user_id": "b"}]}}),
        ("/v3/memories/", {"filters": {"created_at": {"gte": "2026"}}}), ("/v3/memories/", {"filters": "ann"}),
        ("/v3/memories/", {"filters": {"user_id": {"in": ["ann", "bob"]}}}),
    ],
)  # fmt: skip
def test_what_is_no_request_and_filters_that_are_not_known_are_refused(
    service: httpx.Client, settings: Settings, path: str, body: Any
) -> None:
    assert service.post(path, json=body, headers=key(settings)).status_code == 422


def test_the_routes_are_there_only_if_the_setting_says_so(settings: Settings) -> None:
    with serving(replace(settings, mem0=0)) as service:
        assert service.get("/v1/ping/", headers=key(settings)).status_code == 404
