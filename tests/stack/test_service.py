"""The service on a real Redis: packs, every source by its id, tenants apart, errors as problem details."""

import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import httpx
import jsonschema
import pytest

from hmx_pipeline.contracts.pack import ContextPack, Explained
from hmx_pipeline.contracts.schemas import documents
from hmx_pipeline.queries.context_pack import AT_ONCE_EACH, make_pack
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.projection import TopicRecord
from tests.support.memory import T0, artifact, artifact_as_read, contribution_as_read, episode, episode_as_read
from tests.support.pipeline import new_settings
from tests.support.service import is_problem, remembering, serving

ACME = {"X-HMX-Tenant": "acme"}
ODD = "run/7 of ü?#%2F"
SCHEMAS = documents()


def records() -> list[TopicRecord]:
    texts = ["deploy the staging environment", "kubectl cannot find the namespace", "the rollout of staging is fine"]
    said = [episode(f"e{i}", text, at=T0 + i * 1000, index=i, session=f"s{i}") for i, text in enumerate(texts)]
    said += [
        episode("twin", "staging here", session="s8"),
        episode("twin", "staging there", session="s9"),
        episode(ODD, "deploy an odd id to staging", session="s9"),
        episode("e0", "the secret plan of globex for staging", tenant="globex", tags=["fleet"]),
        episode("tagged", "deploy the fleet to staging", session="s7", tags=["fleet"]),
    ]
    heard = ["e1"]
    old = artifact("a1", status="superseded", superseded_by="a2", source_events=heard)
    new = artifact("a2", supersedes="a1", version=2, source_events=heard)
    drafts = [artifact(f"d{i}", f"Draft {i}", status="draft", source_events=heard) for i in range(5)]
    playbook = artifact(
        "p1",
        "Restart the namespace",
        artifact_type="failure_playbook",
        content={"failure_pattern": "x"},
        source_events=heard,
    )
    compiled = [old, new, playbook, *drafts, artifact("g1", "Staging of globex", tenant="globex")]
    return [
        *(episode_as_read(item, offset) for offset, item in enumerate(said)),
        *(artifact_as_read(item, offset) for offset, item in enumerate(compiled)),
        contribution_as_read("c1", 0),
    ]


@pytest.fixture(scope="module")
def settings(redis_url: str) -> Iterator[Settings]:
    """A memory of two tenants; no Kafka is needed to read."""
    made = new_settings("127.0.0.1:1", redis_url)
    with remembering(made, records()) as filled:
        yield filled


def pack_of(service: httpx.Client, query: str = "deploy staging namespace", **asked: Any) -> dict[str, Any]:
    asked = {"fill": "budget", **asked}  # all of this small memory's texts hold the same few words
    answer = service.post("/v1/hmx/context-packs", json={"query": query, **asked}, headers=ACME)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.mark.requirement("C-01", "C-13")
def test_a_pack_is_what_its_schema_and_its_model_say(service: httpx.Client) -> None:
    pack = pack_of(service, token_budget=500, session_id="s1", agent_id="agent-1")
    jsonschema.validate(pack, SCHEMAS["context-pack.json"])
    ContextPack.model_validate(pack)
    assert pack["entries"]
    assert pack["token_budget"]["used"] <= 500
    assert pack["assembly_metadata"]["assembly_duration_ms"] > 0


@pytest.mark.requirement("C-03")
def test_every_id_in_a_pack_resolves(service: httpx.Client) -> None:
    pack = pack_of(service)
    sources = {(entry["source_type"], entry["source_id"]) for entry in pack["entries"]}
    assert {kind for kind, _ in sources} == {"artifact", "episode"}
    for kind, name in sources:
        where = "events" if kind == "episode" else "artifacts"
        session = pack["metadata"]["sources"].get(name, {}).get("session_id")
        params = {"session": session} if session else None
        found = service.get(f"/v1/hmx/{where}/{quote(name, safe='')}", headers=ACME, params=params)
        assert found.status_code == 200, name
        if kind == "artifact":
            for event in found.json()["source_events"]:
                assert service.get(f"/v1/hmx/events/{event}", headers=ACME).status_code == 200
            for contribution in found.json()["source_memory_ids"]:
                assert service.get(f"/v1/hmx/contributions/{contribution}", headers=ACME).status_code == 200


@pytest.mark.requirement("X13")
def test_a_pack_says_its_sources_in_the_overviews_words_on_request(service: httpx.Client) -> None:
    plain, told = (pack_of(service, vocabulary=words) for words in ("hmx-c", "overview"))
    kinds = [
        (one["source_type"], other["source_type"]) for one, other in zip(plain["entries"], told["entries"], strict=True)
    ]
    assert set(kinds) == {("artifact", "artifact"), ("episode", "event")}
    jsonschema.validate(plain, SCHEMAS["context-pack.json"])


def test_a_pack_explains_itself_over_http(service: httpx.Client) -> None:
    pack = pack_of(service, explain=True, token_budget=60, strategy="breadth_first", lineage={"agent_id": "agent-1"})
    jsonschema.validate(pack, SCHEMAS["context-pack.json"])
    why = Explained.model_validate_json(json.dumps(pack["metadata"]["explained"]))
    assert [one.rank for one in why.entries] == [entry["rank"] for entry in pack["entries"]]
    assert [one.source_id for one in why.drops] == [drop["source_id"] for drop in pack["dropped_entries"]]
    assert any(one.budget for one in why.drops)


@pytest.mark.requirement("E-17")
def test_a_pack_is_filtered_by_tags(service: httpx.Client) -> None:
    pack = pack_of(service, tags=["fleet"])
    jsonschema.validate(pack, SCHEMAS["context-pack.json"])
    assert ([entry["source_id"] for entry in pack["entries"]], pack["tags"]) == (["tagged"], ["fleet"])


@pytest.mark.requirement("C-23")
def test_two_services_give_the_same_pack_bar_its_duration(service: httpx.Client, settings: Settings) -> None:
    with serving(settings) as other:
        packs = [pack_of(client, session_id="s1") for client in (service, other)]
    for pack in packs:
        del pack["assembly_metadata"]["assembly_duration_ms"]
    assert packs[0] == packs[1]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b"{", "$"),
        (b"[]", "$"),
        (b"{}", "$.query"),
        (b'{"query": ""}', "$.query"),
        (b'{"query": "q", "token_budget": 0}', "$.token_budget"),
        (b'{"query": "q", "token_budget": "9"}', "$.token_budget"),
        (b'{"query": "q", "query_vector": []}', "$.query_vector"),
        (b'{"query": "q", "query_vector": [0.5, true]}', "$.query_vector[1]"),
        (b'{"query": "q", "query_vector": [' + b"0," * 4096 + b"0]}", "$.query_vector"),
        (b'{"query": "q", "sections": ["nope"]}', "$.sections[0]"),
        (b'{"query": "q", "weights": {"recency": -1}}', "$.weights.recency"),
        (b'{"query": "q", "tags": ["a", 1]}', "$.tags[1]"),
        (b'{"query": "q", "other": 1}', "$.other"),
        (b'{"query": "q", "as_of": "yesterday"}', "$.as_of"),
        (b'{"query": "q", "include": ["draft"]}', "$.include[0]"),
        (b'{"query": "q", "lineage": {"session_id": ""}}', "$.lineage.session_id"),
        (b'{"query": "q", "strategy": "best"}', "$.strategy"),
    ],
)
def test_a_bad_request_for_a_pack_is_told_where_it_is_bad(service: httpx.Client, body: bytes, path: str) -> None:
    headers = {**ACME, "Content-Type": "application/json"}
    answer = service.post("/v1/hmx/context-packs", content=body, headers=headers)
    assert is_problem(answer, 422, "invalid_request")["path"] == path


def test_a_pack_is_asked_for_in_json_of_bounded_size_and_for_the_headers_tenant(service: httpx.Client) -> None:
    url = "/v1/hmx/context-packs"
    is_problem(service.post(url, content=b"query=q", headers=ACME), 415, "unsupported_media_type")
    is_problem(service.post(url, json={"query": "q" * 300_000}, headers=ACME), 413, "too_large")
    asked = {"query": "q", "tenant_id": "globex"}
    is_problem(service.post(url, json=asked, headers=ACME), 422, "tenant_mismatch")


def test_an_event_comes_back_as_it_was_sent_with_its_origin(service: httpx.Client) -> None:
    answer = service.get("/v1/hmx/events/e1", headers=ACME)
    jsonschema.validate(answer.json(), SCHEMAS["event.json"])
    assert answer.json()["content"] == {"role": "user", "text": "kubectl cannot find the namespace"}
    assert (answer.headers["hmx-origin-partition"], answer.headers["hmx-origin-offset"]) == ("0", "1")


@pytest.mark.requirement("E-04", "Y03")
def test_an_id_that_two_sessions_use_asks_for_the_session(service: httpx.Client) -> None:
    answer = service.get("/v1/hmx/events/twin", headers=ACME)
    assert is_problem(answer, 409, "ambiguous")["sessions"] == ["s8", "s9"]
    one = service.get("/v1/hmx/events/twin", headers=ACME, params={"session": "s9"})
    assert one.json()["content"]["text"] == "staging there"
    gone = is_problem(service.get("/v1/hmx/events/twin?session=s1", headers=ACME), 404, "not_found")
    assert "/v1/hmx/dead-letters" in gone["detail"]


@pytest.mark.requirement("E-03")
def test_an_id_may_hold_any_character_when_percent_encoded(service: httpx.Client) -> None:
    answer = service.get(f"/v1/hmx/events/{quote(ODD, safe='')}", headers=ACME)
    assert answer.json()["event_id"] == ODD


def test_a_superseded_artifact_and_its_successor_name_each_other(service: httpx.Client) -> None:
    old, new = (service.get(f"/v1/hmx/artifacts/{name}", headers=ACME).json() for name in ("a1", "a2"))
    for found in (old, new):
        jsonschema.validate(found, SCHEMAS["artifact.json"])
    assert (old["status"], old["superseded_by"], new["supersedes"]) == ("superseded", "a2", "a1")


def test_artifacts_are_listed_by_status_and_type_in_pages(service: httpx.Client) -> None:
    def ids(**params: Any) -> list[str]:
        found = service.get("/v1/hmx/artifacts", headers=ACME, params=params).json()["artifacts"]
        return [item["artifact_id"] for item in found]

    assert ids() == ["a2", "p1"]
    assert ids(type="failure_playbook") == ["p1"]
    assert ids(status="superseded") == ["a1"]
    walked, cursor = [], {}
    while True:
        page = service.get("/v1/hmx/artifacts", headers=ACME, params={"status": "draft", "limit": 2, **cursor}).json()
        walked.append([item["artifact_id"] for item in page["artifacts"]])
        if "cursor" not in page:
            break
        cursor = {"cursor": page["cursor"]}
    assert page["total"] == 5
    assert walked == [["d0", "d1"], ["d2", "d3"], ["d4"]]
    for params in ({"limit": 0}, {"limit": 101}, {"status": "nope"}):
        answer = service.get("/v1/hmx/artifacts", headers=ACME, params=params)
        assert is_problem(answer, 422, "invalid_request")["path"] == f"$.{next(iter(params))}"


def test_a_tenant_sees_nothing_of_another(service: httpx.Client) -> None:
    other = {"X-HMX-Tenant": "globex"}
    assert service.get("/v1/hmx/events/e0", headers=other).json()["tenant_id"] == "globex"
    for path in ("events/e1", "artifacts/a2", "contributions/c1"):
        is_problem(service.get(f"/v1/hmx/{path}", headers=other), 404, "not_found")
    assert "globex" not in str(pack_of(service, "staging of globex secret plan")["entries"])
    listed = service.get("/v1/hmx/artifacts", headers=other).json()["artifacts"]
    assert [item["artifact_id"] for item in listed] == ["g1"]


@pytest.mark.parametrize(
    ("header", "reason"),
    [(None, "tenant_required"), (b"", "tenant_required"), (b"\xff", "tenant_required"), (b"_hmx", "tenant_reserved")],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "events"), ("POST", "context-packs"), ("GET", "events/e1"), ("GET", "contributions/c1"),
        ("GET", "artifacts"), ("GET", "artifacts/a2"),
    ],
)  # fmt: skip
def test_no_route_of_memory_answers_without_a_tenant(
    service: httpx.Client, method: str, path: str, header: bytes | None, reason: str
) -> None:
    headers = {} if header is None else {b"X-HMX-Tenant": header}
    is_problem(service.request(method, f"/v1/hmx/{path}", headers=headers), 400, reason)


def test_two_tenants_are_none(service: httpx.Client) -> None:
    answer = service.get("/v1/hmx/artifacts", headers=[("X-HMX-Tenant", "acme"), ("X-HMX-Tenant", "globex")])
    is_problem(answer, 400, "tenant_required")


def test_a_tenants_name_is_utf_8(service: httpx.Client) -> None:
    answer = service.get("/v1/hmx/artifacts", headers={b"X-HMX-Tenant": "Müller".encode()})
    assert answer.json() == {"artifacts": [], "total": 0, "memory_complete": False}


@pytest.mark.requirement("O-02", "V-04")
def test_versions_and_schemas_are_told_to_anybody(service: httpx.Client) -> None:
    about = service.get("/v1/hmx").json()
    assert (about["hmx_version"], about["supported_versions"]) == ("HMX-1.0", ["HMX-1.x"])
    for name, path in about["schemas"].items():
        assert service.get(path).json() == SCHEMAS[f"{name}.json"]
    is_problem(service.get("/schemas/hmx-1.0/nope.json"), 404, "not_found")


def test_what_no_route_answers_is_a_problem_too(service: httpx.Client) -> None:
    is_problem(service.get("/nope"), 404, "not_found")
    answer = service.delete("/v1/hmx/artifacts", headers=ACME)
    is_problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, HEAD"
    told = service.delete("/v1/hmx/events", headers=ACME)
    assert told.headers["allow"] == "GET, HEAD, POST", "of every route of the path"
    assert service.head("/v1/hmx/context-packs", headers=ACME).headers["allow"] == "POST"
    is_problem(service.get("/v1/hmx/artifacts/", headers=ACME), 404, "not_found")


@pytest.mark.parametrize(
    "path", ["/v1/hmx/artifacts", "/v1/hmx/artifacts/nope", "/v1/artifacts", "/livez", "/", "/nope"]
)
def test_head_answers_as_get_does_without_the_content(service: httpx.Client, path: str) -> None:
    headers = {**ACME, "Authorization": "Bearer hx_test_acme"}
    got, told = service.get(path, headers=headers), service.head(path, headers=headers)
    assert (told.status_code, told.content) == (got.status_code, b"")
    changing = {"date", "content-length", "x-ratelimit-remaining", "x-ratelimit-reset"}
    assert told.headers.keys() == got.headers.keys()
    assert {n: v for n, v in told.headers.items() if n not in changing} == {
        n: v for n, v in got.headers.items() if n not in changing
    }


def test_a_defect_is_a_problem_and_a_line_without_what_was_sent(
    settings: Settings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise ValueError("the payload")

    monkeypatch.setattr("hmx_pipeline.service.memory.make_pack", broken)
    with serving(settings) as client:
        answer = client.post("/v1/hmx/context-packs", json={"query": "q"}, headers=ACME)
        count = 'hmx_http_requests_total{route="/v1/hmx/context-packs",status="500"}'
        assert count in client.get("/metrics").text
    assert "the payload" not in str(is_problem(answer, 500, "internal")) + caplog.text
    (line,) = [record for record in caplog.records if "ValueError at test_service.py" in record.getMessage()]
    assert line.tenant == ACME["X-HMX-Tenant"]  # type: ignore[attr-defined]
    assert "Traceback" not in caplog.text


def test_who_finds_no_turn_at_a_pack_is_told_so_and_the_next_finds_one(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()

    def slow(*asked: Any) -> Any:
        begun.release()
        assert go_on.wait(30)
        return make_pack(*asked)

    monkeypatch.setattr("hmx_pipeline.service.memory.make_pack", slow)
    monkeypatch.setattr("hmx_pipeline.service.fair_turns.WAIT_S", 0.1)
    with serving(settings) as client, ThreadPoolExecutor() as pool:
        first = [pool.submit(pack_of, client) for _ in range(AT_ONCE_EACH)]
        assert all(begun.acquire(timeout=30) for _ in first)
        refused = client.post("/v1/hmx/context-packs", json={"query": "q"}, headers=ACME)
        also = client.post("/v1/synthesize", json={"query": "q"}, headers={"Authorization": "Bearer hx_test_acme"})
        go_on.set()
        assert all(pack.result(30)["entries"] for pack in first)
        is_problem(refused, 503, "busy")
        assert refused.headers["retry-after"]
        assert (also.status_code, also.json()["error"]["code"]) == (503, "service_unavailable")
        assert pack_of(client)["entries"]


def test_metrics_name_the_route_and_never_what_was_asked_for(service: httpx.Client) -> None:
    service.get("/v1/hmx/events/a-very-special-id", headers=ACME)
    service.get("/a-very-special-path")
    text = service.get("/metrics").text
    assert 'hmx_http_requests_total{route="/v1/hmx/events/{event_id:id}",status="404"}' in text
    assert "very-special" not in text


def test_openapi_describes_every_route(service: httpx.Client) -> None:
    paths = service.get("/openapi.json").json()["paths"]
    memory = (
        "events",
        "context-packs",
        "events/{event_id}",
        "contributions/{contribution_id}",
        "artifacts",
        "knowledge/{record_id}",
    )
    assert {f"/v1/hmx/{path}" for path in memory} | {"/v1/hmx", "/livez", "/readyz", "/metrics"} <= paths.keys()
    asked = paths["/v1/hmx/context-packs"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert asked["required"] == ["query"]
    for path, operations in paths.items():
        for operation in operations.values():
            errors = set(operation["responses"]) - {"200", "202"}
            own = {"4XX"} if path == "/mcp" else set()  # the protocol's errors have a form of their own
            assert errors == {"default"} | own, f"{path}: every other error is a problem"
    assert service.get("/docs/api").status_code == 200


def test_the_page_loads_nothing_from_elsewhere_and_every_part_it_names_is_there(service: httpx.Client) -> None:
    seen, ahead = {"/"}, ["/"]
    while ahead:
        path = ahead.pop()
        answer = service.get(path)
        assert answer.status_code == 200, path
        assert not re.search(r"(src|href|url|import|from|fetch)\W+(https?:)?//", answer.text), path
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        named = {f"/page/{name}" for name in re.findall(r"[\"/]([\w.-]+\.(?:js|css|svg))\"", answer.text)}
        ahead += named - seen
        seen |= named
    assert {"/page/app.js", "/page/style.css", "/page/icon.svg", "/page/overview.js"} <= seen
    assert service.get("/page/app.js").headers["content-type"].startswith("text/javascript")
    is_problem(service.get("/page/nope.js"), 404, "not_found")


def test_a_tenant_is_told_how_much_its_memory_holds(service: httpx.Client) -> None:
    told = service.get("/v1/hmx/counts", headers=ACME).json()
    assert told["artifacts"] == {
        "failure_playbook": {"active": 1},
        "task_schema": {"active": 1, "draft": 5, "superseded": 1},
    }
    assert set(told["knowledge"].values()) == {0}
    other = service.get("/v1/hmx/counts", headers={"X-HMX-Tenant": "globex"}).json()
    assert other["artifacts"] == {"task_schema": {"active": 1}}


def test_without_kafka_the_overview_says_so_and_tables_are_a_problem(service: httpx.Client) -> None:
    told = service.get("/v1/hmx/overview").json()
    assert (told["stages"], told["memory"]) == (None, None)
    assert all("Kafka" in said for said in told["problems"])
    assert [process["ready"] for process in told["processes"].values()] == [False, False]
    is_problem(service.get("/v1/hmx/tables/sessions", headers=ACME), 503, "kafka_unavailable")
