"""The unmodified Hippocortex client against the service on a real Kafka and Redis: its whole contract but learning."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import jsonschema
import pytest
from hippocortex import CaptureEvent, Hippocortex, HippocortexError, SyncHippocortex, SynthesizeOptions
from hippocortex.adapters import langgraph
from hippocortex.wrap import wrap

from hmx_pipeline.service.hippocortex import minting
from hmx_pipeline.service.hippocortex.capture import BATCH_EVENTS
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.atomic_blocks import Blocks, connect
from hmx_pipeline.store.projection import TopicRecord, commands_of
from hmx_pipeline.store.redis_keys import Keys
from tests.support.events import event
from tests.support.memory import T0, artifact, artifact_as_read, empty, episode, episode_as_read, procedure
from tests.support.pipeline import create_topics, new_settings
from tests.support.service import serving
from tests.support.topics import logged
from tests.support.waiting import PATIENCE_S

ARTIFACTS = 23
SOME = 60


def records() -> list[TopicRecord]:
    """What memory holds of acme, and a little of globex."""
    texts = ["deploy the staging environment", "kubectl cannot find the namespace", "the rollout of staging is fine"]
    said = [episode(f"e{i}", text, at=T0 + i * 1000, index=i, session=f"s{i}") for i, text in enumerate(texts)]
    said.append(episode("g0", "the secret plan of globex for staging", tenant="globex"))
    compiled = [
        artifact(
            f"a{n:02}",
            f"Deploy staging {n}",
            content=procedure(*(f"tool{n}x{step} thing{n}x{step}" for step in range(3))),
            confidence=round(0.4 + n / 100, 2),
            observed_count=n % 5,
        )
        for n in range(ARTIFACTS - 1)
    ]
    playbook = {"artifact_type": "failure_playbook", "content": {"failure_pattern": "the namespace is missing"}}
    compiled.append(artifact("p1", "Deploy staging again", **playbook))
    compiled.append(artifact("g1", "Staging of globex", tenant="globex"))
    return [
        *(episode_as_read(item, offset) for offset, item in enumerate(said)),
        *(artifact_as_read(item, offset) for offset, item in enumerate(compiled)),
    ]


@pytest.fixture(scope="module")
def settings(kafka: str, redis_url: str) -> Iterator[Settings]:
    made = new_settings(kafka, redis_url)
    create_topics(made, partitions=2)
    client, keys = connect(redis_url), Keys(made.topic_prefix)
    blocks = Blocks(client, keys)
    for topic in {record.topic for record in records()}:
        block = [record for record in records() if record.topic == topic]
        assert blocks.apply(f"{topic}/0", None, len(block), commands_of(keys, block)).at == len(block)
    yield made
    empty(made)
    client.close()


@pytest.fixture(scope="module")
def url(service: httpx.Client) -> str:
    return f"{service.base_url}/v1".replace("//v1", "/v1")


@pytest.fixture
def hx(url: str) -> Iterator[SyncHippocortex]:
    with SyncHippocortex("hx_test_acme", base_url=url) as client:
        yield client


def asked(url: str, ask: Any, key: str = "hx_test_acme") -> Any:
    """What the client that knows all calls says."""

    async def session() -> Any:
        async with Hippocortex(key, base_url=url, timeout=PATIENCE_S) as client:
            return await ask(client)

    return asyncio.run(session())


def said(session: str, text: str = "hello", **metadata: Any) -> CaptureEvent:
    return CaptureEvent("message", session, {"role": "user", "content": text}, metadata or None)


def is_error(raised: pytest.ExceptionInfo[HippocortexError], code: str, status: int) -> None:
    assert (raised.value.code, raised.value.status_code) == (code, status)


@pytest.mark.requirement("O-04", "Y07")
def test_captures_become_valid_events_whose_sequence_only_rises(hx: SyncHippocortex, settings: Settings) -> None:
    results = [hx.capture(said("rising", f"n {n}", agentId="smith", n=2**60 + n)) for n in range(20)]
    assert {result.status for result in results} == {"ingested"}
    events = logged(settings, "rising")
    assert [event.event.event_id for event in events] == [result.event_id for result in results]
    assert all(a.event.sequence < b.event.sequence < 2**53 for a, b in pairwise(events))
    assert all(a.instant <= b.instant for a, b in pairwise(events))
    first = events[0]
    assert (first.event.tenant_id, first.event.agent_id, first.event.event_type) == ("acme", "smith", "message")
    assert first.fields["content"] == {"role": "user", "content": "n 0"}
    assert first.fields["metadata"] == {"x-hmx-sequence": "arrival", "agentId": "smith", "n": 2**60}


@pytest.mark.requirement("O-05", "Y07")
def test_a_key_used_twice_names_one_event_though_redis_is_empty_and_the_service_is_another(
    kafka: str, redis_url: str
) -> None:
    settings = new_settings(kafka, redis_url)
    create_topics(settings, partitions=2)
    sent = said("keyed", "only once", idempotencyKey="k1")
    with serving(settings) as service, SyncHippocortex("hx_test_acme", base_url=f"{service.base_url}/v1") as client:
        first = client.capture(sent)
        empty(settings)
        again = client.capture(sent)
        other = client.capture(said("keyed", "another", idempotencyKey="k2"))
        top = httpx.post(
            f"{service.base_url}/v1/capture",
            headers={"Authorization": "Bearer hx_test_acme"},
            json={"type": "message", "sessionId": "keyed", "payload": {}, "idempotencyKey": "k1"},
        ).json()["data"]
    assert (first.status, again.status, other.status, top["status"]) == (
        "ingested",
        "duplicate",
        "ingested",
        "duplicate",
    )
    assert first.event_id == again.event_id == top["eventId"] != other.event_id
    with serving(settings) as service, SyncHippocortex("hx_test_acme", base_url=f"{service.base_url}/v1") as client:
        assert client.capture(sent).event_id == first.event_id
    once, others, twice = logged(settings, "keyed")
    assert once.event.event_id == twice.event.event_id != others.event.event_id
    assert once.event.sequence < others.event.sequence < twice.event.sequence


def test_what_memory_holds_under_a_key_is_a_duplicate_in_any_process(settings: Settings, url: str) -> None:
    sent = said("remembered", "only once", idempotencyKey="k1")
    with SyncHippocortex("hx_test_acme", base_url=url) as client:
        first = client.capture(sent)
    (event,) = logged(settings, "remembered")
    held = episode(first.event_id, session="remembered", content=event.fields["content"])
    client, keys = connect(settings.redis_url), Keys(settings.topic_prefix)
    Blocks(client, keys).apply("hmx.episodes.v1/1", None, 1, commands_of(keys, [episode_as_read(held, 0, partition=1)]))
    client.close()
    with serving(settings) as other, SyncHippocortex("hx_test_acme", base_url=f"{other.base_url}/v1") as again:
        assert (again.capture(sent).status, len(logged(settings, "remembered"))) == ("duplicate", 1)


@pytest.mark.requirement("O-04")
def test_a_batch_leaves_out_what_is_not_valid(hx: SyncHippocortex, settings: Settings) -> None:
    good, keyed = said("batch"), said("batch", idempotencyKey="k")
    result = hx.capture_batch([good, CaptureEvent("message", "", {}), keyed, keyed])
    assert (result.total, result.ingested, result.duplicates, result.errors) == (4, 2, 1, 1)
    assert [one.status for one in result.results] == ["ingested", "ingested", "duplicate"]
    assert len(logged(settings, "batch")) == 2
    none = hx.capture_batch([])
    assert (none.results, none.total) == ([], 0)
    bad = hx.capture_batch([CaptureEvent("x-hmx-tick", "batch", {}), CaptureEvent("", "batch", {})])
    assert (bad.results, bad.errors) == ([], 2)


@pytest.mark.requirement("O-04")
def test_a_thousand_events_are_a_batch_and_one_more_is_none(hx: SyncHippocortex, settings: Settings) -> None:
    many = [said("thousand", str(n)) for n in range(BATCH_EVENTS)]
    assert hx.capture_batch(many).ingested == BATCH_EVENTS
    assert [event.fields["content"]["content"] for event in logged(settings, "thousand")] == [
        str(n) for n in range(BATCH_EVENTS)
    ]
    with pytest.raises(HippocortexError) as raised:
        hx.capture_batch([*many, many[0]])
    is_error(raised, "validation_error", 422)


@pytest.mark.parametrize(
    ("sent", "path"),
    [
        ({"sessionId": "s", "payload": {}}, "$.type"),
        ({"type": "message", "payload": {}}, "$.sessionId"),
        ({"type": "message", "sessionId": "s"}, "$.payload"),
        ({"type": "message", "sessionId": "s", "payload": [1]}, "$.payload"),
        ({"type": "message", "sessionId": 7, "payload": {}}, "$.sessionId"),
        ({"type": "message", "sessionId": "s", "payload": {}, "metadata": [1]}, "$.metadata"),
        ({"type": "x-hmx-barrier", "sessionId": "s", "payload": {}}, "$.type"),
        ([1], "$"),
    ],
)
@pytest.mark.requirement("O-10")
def test_what_is_wrong_with_a_capture_is_named_by_the_path_the_client_knows(
    service: httpx.Client, sent: Any, path: str
) -> None:
    answer = service.post("/v1/capture", json=sent, headers={"Authorization": "Bearer hx_test_acme"})
    body = enveloped(answer, 422)
    assert (body["error"]["code"], body["error"]["details"][0]["path"]) == ("validation_error", path)


def test_a_payload_s_numbers_are_not_rounded_on_the_way(service: httpx.Client, settings: Settings) -> None:
    sent = b'{"type":"api_result","sessionId":"exact","payload":{"n":18446744073709551615, "d":1.10}}'
    headers = {"Authorization": "Bearer hx_test_acme"}
    enveloped(service.post("/v1/capture", content=sent, headers=headers), 200)
    (event,) = logged(settings, "exact")
    assert bytes(event.event.content) == b'{"n":18446744073709551615, "d":1.10}'
    enveloped(service.post("/v1/capture", content=sent.replace(b"615,", b"6150,"), headers=headers), 422)


def enveloped(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.headers["content-type"] == "application/json"
    body = dict(answer.json())
    assert (answer.status_code, body["ok"]) == (status, status == 200)
    assert body.keys() == {"ok", "meta", "data" if body["ok"] else "error"}
    assert {"requestId", "tenantId", "durationMs"} == body["meta"].keys()
    if not body["ok"]:
        assert {"code", "message"} <= body["error"].keys()
    return body


@pytest.mark.requirement("O-10")
def test_every_error_has_the_envelope_and_the_native_routes_keep_theirs(service: httpx.Client) -> None:
    key = {"Authorization": "Bearer hx_test_acme"}
    assert enveloped(service.get("/v1/nothing"), 404)["error"]["code"] == "not_found"
    assert enveloped(service.get("/v1/artifacts/", headers=key), 404)["error"]["code"] == "not_found"
    assert enveloped(service.delete("/v1/capture"), 405)["error"]["code"] == "method_not_allowed"
    assert (
        enveloped(service.post("/v1/synthesize", content=b"{", headers=key), 422)["error"]["code"] == "validation_error"
    )
    assert (
        enveloped(service.get("/v1/artifacts?limit=101", headers=key), 422)["error"]["details"][0]["path"] == "$.limit"
    )
    assert enveloped(service.get("/v1/artifacts?cursor=x", headers=key), 422)["error"]["code"] == "validation_error"
    too_large = service.post("/v1/synthesize", content=b" " * 300_000, headers=key)
    assert enveloped(too_large, 413)["error"]["code"] == "validation_error"
    assert "error" not in service.get("/v1/hmx/nothing").json()


def test_openapi_describes_bodies_and_envelopes_with_references_that_lead_somewhere(service: httpx.Client) -> None:
    document = service.get("/openapi.json").json()
    for route in ("capture", "capture/batch", "learn", "synthesize"):
        told = document["paths"][f"/v1/{route}"]["post"]
        jsonschema.Draft202012Validator.check_schema(told["requestBody"]["content"]["application/json"]["schema"])
        wrong = told["responses"]["default"]["content"]
        assert list(wrong) == ["application/json"]
        jsonschema.validate(service.post(f"/v1/{route}").json(), wrong["application/json"]["schema"])
    assert "$defs" not in str(document["paths"]["/v1/synthesize"])


@pytest.mark.requirement("O-10")
def test_errors_reach_the_client_by_their_code(hx: SyncHippocortex, url: str) -> None:
    with pytest.raises(HippocortexError) as raised:
        asked(url, lambda client: client.capture(said("s")), "wrong")
    is_error(raised, "unauthorized", 401)
    for call in (lambda: hx.vault_query("password"), lambda: hx.vault_reveal("v1")):
        with pytest.raises(HippocortexError) as raised:
            call()
        is_error(raised, "not_found", 501)
    with pytest.raises(HippocortexError) as raised:
        asked(url, lambda client: client.get_artifact("nobody"))
    is_error(raised, "not_found", 404)
    with pytest.raises(HippocortexError) as raised:
        hx.synthesize("")
    is_error(raised, "validation_error", 422)
    assert raised.value.details


@pytest.mark.requirement("O-10")
def test_a_defect_is_enveloped_too_and_says_nothing_of_it(
    service: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("a payload")

    monkeypatch.setattr("hmx_pipeline.service.hippocortex.synthesize.make_pack", broken)
    key = {"Authorization": "Bearer hx_test_acme"}
    body = enveloped(service.post("/v1/synthesize", json={"query": "staging"}, headers=key), 500)
    assert body["error"]["code"] == "internal_error"
    assert "payload" not in str(body)


@pytest.mark.requirement("O-10")
def test_a_key_has_a_limit_and_is_told_of_it(settings: Settings, tmp_path: Path) -> None:
    with serving(replace(settings, rate_limit=2)) as service:
        key = {"Authorization": "Bearer hx_test_acme"}
        answers = [service.get("/v1/artifacts", headers=key) for _ in range(6)]
    assert answers[0].headers["X-RateLimit-Limit"] == "2"
    assert "X-RateLimit-Remaining" in answers[0].headers
    refused = next(answer for answer in answers if answer.status_code != 200)
    assert enveloped(refused, 429)["error"]["code"] == "rate_limited"
    assert int(refused.headers["Retry-After"]) > 0
    assert "X-RateLimit-Reset" in refused.headers


@pytest.mark.requirement("O-10")
def test_without_redis_events_go_on_and_captures_and_reading_say_why_not(
    kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minting, "WAIT_S", 0.1)
    settings = new_settings(kafka, "redis://127.0.0.1:1")
    create_topics(settings, partitions=2)
    with serving(settings) as service, SyncHippocortex("hx_test_acme", base_url=f"{service.base_url}/v1") as client:
        sent = service.post(
            "/v1/hmx/events", json=[event(tenant_id="acme")], headers={"Authorization": "Bearer hx_test_acme"}
        )
        assert sent.status_code == 202
        with pytest.raises(HippocortexError) as refused:
            client.capture(said("s", idempotencyKey="k"))
        is_error(refused, "service_unavailable", 503)
        with pytest.raises(HippocortexError) as raised:
            client.synthesize("staging")
        is_error(raised, "service_unavailable", 503)
        health = enveloped(service.get("/v1/health"), 200)
        assert (health["data"]["status"], health["data"]["kafka"]) == ("degraded", "answers")


@pytest.mark.requirement("O-07", "X23")
def test_a_pack_keeps_its_budget_its_sections_and_its_confidence(hx: SyncHippocortex) -> None:
    whole = hx.synthesize("deploy staging")
    assert whole.budget.limit == 4000
    assert 0 < whole.budget.used <= 4000
    assert whole.budget.entries_included == len(whole.entries) > 3
    assert {"procedures", "failures", "context"} <= {entry.section for entry in whole.entries}
    small = hx.synthesize("deploy staging", SynthesizeOptions(max_tokens=60))
    assert small.budget.used <= small.budget.limit == 60
    assert small.budget.entries_dropped > whole.budget.entries_dropped
    for section in ("procedures", "failures", "context"):
        some = hx.synthesize("deploy staging", SynthesizeOptions(sections=[section]))
        assert {entry.section for entry in some.entries} == {section}
        assert some.budget.used <= some.budget.limit
    sure = hx.synthesize("deploy staging", SynthesizeOptions(min_confidence=0.55))
    assert sure.entries
    assert all(entry.confidence >= 0.55 for entry in sure.entries)
    assert any(entry.confidence < 0.55 for entry in whole.entries)


def test_the_same_question_to_the_same_memory_has_the_same_answer_for_the_client_too(hx: SyncHippocortex) -> None:
    first, second = (hx.synthesize("deploy staging") for _ in range(2))
    assert first == second


def test_provenance_is_there_when_asked_for_and_every_id_in_it_resolves(hx: SyncHippocortex, url: str) -> None:
    without = hx.synthesize("deploy staging", SynthesizeOptions(include_provenance=False))
    assert all(entry.provenance is None for entry in without.entries)
    sources = [source for entry in hx.synthesize("deploy staging").entries for source in entry.provenance or ()]
    assert {source.source_type for source in sources} == {"artifact", "episode"}

    async def resolved(client: Hippocortex) -> list[Any]:
        return [await client.get_artifact(source.source_id) for source in sources]

    for source, found in zip(sources, asked(url, resolved), strict=True):
        assert found.id == source.source_id
        assert source.artifact_type in (None, found.type)
        assert found.evidence_count == source.evidence_count or source.source_type == "episode"


@pytest.mark.requirement("C-26")
def test_an_artifact_and_a_pack_have_the_names_of_the_clients_own_types(service: httpx.Client) -> None:
    """The rows of HMX-A §11 and HMX-C §9 that map a field to one of the other type."""
    artifact = {
        "artifact_id": "id", "artifact_type": "type", "title": "title", "summary": "summary", "content": "content",
        "confidence": "confidence", "status": "status", "source_events": "evidenceRefs",
        "source_memory_ids": "sourceMemoryIds", "superseded_by": "supersededBy", "tags": "tags", "metadata": "metadata",
    }  # fmt: skip
    pack = {
        "pack_id": "id", "query_context": "queryContext", "entries": "entries", "token_budget": "tokenBudget",
        "created_at": "createdAt", "metadata": "metadata",
    }  # fmt: skip
    key = {"Authorization": "Bearer hx_test_acme"}
    ours = service.get("/v1/hmx/artifacts/p1", headers=key).json()
    theirs = enveloped(service.get("/v1/artifacts/p1", headers=key), 200)["data"]
    assert {name: ours[name] for name in artifact if name in ours} == {
        name: theirs[other] for name, other in artifact.items() if other in theirs
    }
    asked = {"query": "deploy staging", "token_budget": 4000, "min_confidence": 0.3}
    made = service.post("/v1/hmx/context-packs", json=asked, headers=key).json()
    told = enveloped(service.post("/v1/synthesize", json={"query": "deploy staging"}, headers=key), 200)["data"]
    assert told.keys() >= set(pack.values())
    assert [entry["content"] for entry in told["entries"]] == [entry["content"] for entry in made["entries"]]
    for name, other in pack.items():
        assert name == "entries" or told[other] == made[name]


@pytest.mark.parametrize("sort", ["createdAt", "updatedAt", "confidence", "evidenceCount"])
@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.requirement("O-10")
def test_a_walk_along_the_cursor_visits_every_artifact_once_in_order(url: str, sort: str, order: str) -> None:
    async def walk(client: Hippocortex) -> list[Any]:
        page = await client.list_artifacts(sort=sort, order=order, limit=7)
        pages = [page]
        while page.has_more:
            page = await client.list_artifacts(sort=sort, order=order, limit=7, cursor=page.cursor)
            pages.append(page)
        return pages

    pages = asked(url, walk)
    found = [artifact for page in pages for artifact in page.artifacts]
    assert {page.total for page in pages} == {ARTIFACTS}
    assert len({artifact.id for artifact in found}) == len(found) == ARTIFACTS
    names = {"createdAt": "created_at", "updatedAt": "updated_at", "evidenceCount": "evidence_count"}
    values = [getattr(artifact, names.get(sort, sort)) for artifact in found]
    assert values == sorted(values, reverse=order == "desc")


def test_artifacts_are_listed_by_type_and_status(url: str) -> None:
    (playbook,) = asked(url, lambda client: client.list_artifacts(type="failure_playbook")).artifacts
    assert (playbook.id, playbook.type, playbook.status) == ("p1", "failure_playbook", "active")
    assert asked(url, lambda client: client.list_artifacts(status="deprecated")).total == 0


def test_two_keys_never_see_each_other_s_memory(hx: SyncHippocortex, url: str) -> None:
    async def everything(client: Hippocortex) -> Any:
        return await client.list_artifacts(limit=100), await client.synthesize("staging globex secret plan")

    artifacts, pack = asked(url, everything, "hx_test_globex")
    assert [artifact.id for artifact in artifacts.artifacts] == ["g1"]
    assert {source.source_id for entry in pack.entries for source in entry.provenance} == {"g0", "g1"}
    assert "globex" not in str(hx.synthesize("staging globex secret plan").entries)
    with pytest.raises(HippocortexError) as raised:
        asked(url, lambda client: client.get_artifact("g1"))
    is_error(raised, "not_found", 404)


@pytest.mark.requirement("O-10")
def test_metrics_tell_what_was_sent(url: str) -> None:
    async def some_use(client: Hippocortex) -> Any:
        await client.capture_batch([said("m"), said("m", idempotencyKey="k"), CaptureEvent("", "m", {})])
        await client.capture(said("m", idempotencyKey="k"))
        await client.synthesize("anything")
        return await client.get_metrics(period="1h", granularity="minute")

    metrics = asked(url, some_use, "hx_test_counted")
    assert (metrics.events_total, metrics.events_ingested, metrics.granularity) == (4, 2, "minute")
    assert (metrics.quota_events_used, metrics.quota_plan) == (2, "self-hosted")
    assert metrics.period_start < metrics.period_end
    raw = httpx.get(f"{url}/usage-metrics", headers={"Authorization": "Bearer hx_test_counted"}).json()["data"]["usage"]
    assert raw["events"] == {"total": 4, "ingested": 2, "duplicates": 1, "errors": 1, "byType": {"message": 2}}
    assert raw["syntheses"]["total"] == 1


class FakeModel:
    """A chat model that remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self.create))

    def create(self, **params: Any) -> Any:
        self.asked.append(params["messages"])
        return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content="done"))])


class FakeGraph:
    """A compiled graph likewise."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def invoke(self, state: Any, config: Any = None) -> Any:
        self.asked.append(state["messages"])
        return {"messages": [*state["messages"], {"role": "assistant", "content": "done"}]}


QUESTION = {"role": "user", "content": "how do I deploy staging?"}


@pytest.mark.parametrize("reached", [True, False], ids=["up", "down"])
def test_wrapped_models_and_graphs_are_given_memory_and_captured_and_go_on_without_a_service(
    url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch, reached: bool
) -> None:
    where = {"base_url": url if reached else "http://127.0.0.1:1/v1", "api_key": "hx_test_acme"}
    model, graph = FakeModel(), FakeGraph()
    opened: list[SyncHippocortex] = []

    def opening(**given: Any) -> SyncHippocortex:
        opened.append(SyncHippocortex(**given))
        return opened[-1]

    monkeypatch.setattr("hippocortex.client.SyncHippocortex", opening)
    wrapped = wrap(model, session_id="wrapped", extract=False, **where)
    assert wrapped.chat.completions.create(messages=[QUESTION]).choices[0].message.content == "done"
    opened[0].close()
    hooked = langgraph.wrap(graph, session_id="graph", **where)
    assert hooked.invoke({"messages": [QUESTION]})["messages"][-1]["content"] == "done"
    asyncio.run(hooked._adapter.close())
    for asked_of in (model.asked, graph.asked):
        (messages,) = asked_of
        assert messages[-1] == QUESTION
        told = [m["content"] if isinstance(m, dict) else m.content for m in messages[:-1]]  # LangChain has its own form
        assert any("Deploy staging" in content for content in told) is reached
    if reached:
        for session in ("wrapped", "graph"):
            roles = [event.fields["content"]["role"] for event in logged(settings, session)]
            assert roles == ["user", "assistant"]
