"""Keys and tokens that are bound to a person, on a real port: whichever route is asked, they open nothing of another
person's."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from websockets.sync.client import connect

from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.headers import AGENT_UNPROVEN
from hmx_pipeline.service.api_keys import USUAL, Grant, Scope, add, parse
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.topology import EVENTS, EVIDENCE
from tests.stack.test_store_materialiser import publish
from tests.stack.test_subjects import ANN, BOB, as_read, known, spoken
from tests.support.issuer import AUDIENCE, Issuer
from tests.support.memory import T0, Memory
from tests.support.pipeline import create_topics, new_settings
from tests.support.records import event
from tests.support.service import is_problem
from tests.support.topics import read

HERON, OTTER, OPEN = "heron", "otter", "mole"
"""What Ann said, what Bob said, and what belongs to all."""
ISSUER = Issuer()
QUESTION = {"query": "locker code room first", "fill": "budget"}


def told(subject: str) -> TopicRecord:
    said = Contribution(
        contribution_id=f"c-{subject}", tenant_id="acme", pattern_type="task_schema", pattern_key="p", session_id="s9",
        segment_id="x", agent_id="a", first_at=T0, last_at=T0, subject=subject,
    )  # fmt: skip
    return TopicRecord(EVIDENCE, 0, 0, b"any", said.to_json(), [])


@pytest.fixture(scope="module", params=["keys", "tokens"])
def settings(
    request: pytest.FixtureRequest, kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    """With tokens, those who are bound to a subject show one; the tenant's keys stay keys."""
    file = tmp_path_factory.mktemp("keys") / "keys"
    made = new_settings(kafka, redis_url, api_keys=str(file), mem0=1)
    if request.param == "tokens":
        file.with_name("jwks").write_bytes(orjson.dumps(ISSUER.jwks()))
        made = replace(made, jwt_issuer=ISSUER.issuer, jwt_audience=AUDIENCE, jwt_jwks=str(file.with_name("jwks")))
    create_topics(made, partitions=1)
    memory = Memory(redis_url, made.topic_prefix)
    episodes = spoken(
        ("s0", f"the locker was {OTTER} first", None),
        ("s1", f"the locker code is {HERON}", ANN),
        ("s0", f"the locker code is {OTTER}", BOB),
        ("s3", f"the locker room is {OPEN}", None),
    )
    publish(made, episodes)
    memory.write(
        *episodes,
        *as_read(
            [known("k-ann", HERON, ANN), known("k-bob", f"locker {OTTER}", BOB), known("k-all", f"locker {OPEN}")]
        ),
    )
    memory.write(told(BOB))
    yield made
    memory.wipe()
    memory.client.close()


def key(settings: Settings, subject: str | None = None, *scopes: Scope) -> dict[str, str]:
    if settings.jwt_issuer and subject is not None:
        made = ISSUER.token(sub=subject, scope=" ".join(frozenset(scopes) or USUAL))
    else:
        made = add(Path(settings.api_keys), Grant("acme", frozenset(scopes) or USUAL, subject))
    return {"Authorization": f"Bearer {made}"}


def asked(service: httpx.Client, headers: dict[str, str], **more: Any) -> httpx.Response:
    return service.post("/v1/hmx/context-packs", json={**QUESTION, **more}, headers=headers)


def test_over_mcp_a_bound_key_opens_and_writes_what_is_its_own(service: httpx.Client, settings: Settings) -> None:
    from tests.stack.test_mcp import within

    async def ask(client: Any) -> list[Any]:
        fetched = [await client.call_tool("fetch", {"id": name}) for name in ("k-ann", "k-bob", "k-all")]
        packed = await client.call_tool("memory_pack", {"query": "What is the locker code?"})
        told = await client.call_tool("memory_record", {"kind": "fact", "text": "the locker is red"})
        return [*fetched, packed, told]

    bearer = key(settings, ANN)["Authorization"].partition(" ")[2]
    own, others, open_, packed, told = within("http", str(service.base_url), ask, HMX_API_KEY=bearer)
    assert [own.is_error, others.is_error, open_.is_error] == [False, True, False]
    assert HERON in packed.content[0].text
    assert OTTER not in packed.content[0].text
    (written,) = [
        one
        for records in read(settings, EVENTS).values()
        for one in (orjson.loads(record.value() or b"null") for record in records)
        if one and one["event_id"] == told.structured_content["event_id"]
    ]
    assert written["metadata"]["subject_id"] == ANN
    assert written["session_id"].startswith(f"{ANN}/mcp-")


def test_a_bound_key_asks_for_its_own_subject_and_no_other(service: httpx.Client, settings: Settings) -> None:
    ann, tenant = key(settings, ANN), key(settings)
    own = asked(service, ann)
    assert HERON in own.text
    assert OPEN in own.text
    assert OTTER not in own.text
    assert asked(service, ann, subject_id=ANN).json()["pack_id"] == own.json()["pack_id"]
    assert asked(service, tenant, subject_id=ANN).json()["pack_id"] == own.json()["pack_id"]
    is_problem(asked(service, ann, subject_id=BOB), 403, "forbidden")
    shared = asked(service, tenant)
    assert OPEN in shared.text
    assert HERON not in shared.text
    assert OTTER not in shared.text


@pytest.mark.requirement("Y19", "K-07")
def test_no_route_tells_a_bound_key_what_is_anothers(service: httpx.Client, settings: Settings) -> None:
    """All that take an id are asked for each id that there is."""
    ann = key(settings, ANN, Scope.READ)
    paths = service.get("/openapi.json").json()["paths"]
    del paths["/v1/hmx/stream"]  # it does not end
    ids = ["e0", "e1", "e2", "e3", "k-ann", "k-bob", "k-all", f"c-{BOB}", "s0", "s1"]
    answered = 0
    for path, methods in paths.items():
        for name in ids if "{" in path else [""]:
            where = re.sub(r"\{.*?\}", name, path)
            for method in methods:
                answer = service.request(method, where, json=QUESTION if method == "post" else None, headers=ann)
                answered += answer.status_code == 200
                assert OTTER not in answer.text, (method, where)
                assert BOB not in answer.text.replace(where, ""), (method, where)
    assert answered > 15


def test_a_token_opens_just_what_a_bound_key_opens(service: httpx.Client, settings: Settings) -> None:
    keyed = {"Authorization": f"Bearer {add(Path(settings.api_keys), Grant('acme', USUAL, ANN))}"}
    shown = key(settings, ANN)
    hook = {"hook_event_name": "UserPromptSubmit", "session_id": "hooked", "prompt": "What is the locker code?"}
    paths = ["artifacts", "knowledge", "events", "counts", "tenants", "subjects", "knowledge/k-ann", "knowledge/k-bob"]
    asked: list[tuple[str, str, Any]] = [("GET", f"/v1/hmx/{path}", None) for path in paths]
    asked += [("POST", "/v1/hmx/context-packs", QUESTION), ("POST", "/v1/hooks/claude-code", hook)]
    for method, path, body in asked:
        answers = [service.request(method, path, json=body, headers=headers) for headers in (keyed, shown)]
        by_key, by_token = ((one.status_code, re.sub(r'_ms":[\d.]+', "", one.text)) for one in answers)
        assert by_key == by_token, path
    for wrong in (Issuer().token(sub=ANN), ISSUER.token(sub=ANN, exp=1)):
        refused = service.get("/v1/hmx/knowledge", headers={"Authorization": f"Bearer {wrong}"})
        is_problem(refused, 401, "unauthorized")
        assert refused.headers["www-authenticate"].startswith("Bearer")
        assert not any(part in refused.text for part in wrong.split("."))


def test_routes_that_tell_of_everybody_want_a_key_of_the_tenant(service: httpx.Client, settings: Settings) -> None:
    ann, tenant = key(settings, ANN), key(settings)
    assert service.get("/v1/hmx/sessions/s0", headers=ann).status_code == 403
    of_all = ("tables/sessions", "tables/patterns", "counts", "subjects")
    for path in (*(f"/v1/hmx/{name}" for name in of_all), "/v1/usage-metrics"):
        assert service.get(path, headers=ann).status_code == 403
        assert service.get(path, headers=tenant).status_code == 200
    told = service.get("/v1/hmx/subjects", headers=tenant).json()
    assert {ANN, BOB} <= {each["subject_id"] for each in told["subjects"]}
    assert (told["complete"], told["total"]) == (True, len(told["subjects"]))
    is_problem(service.post("/v1/hmx/fingerprints", json={}, headers=ann), 403, "forbidden")
    assert service.get("/v1/hmx/tenants", headers=ann).status_code == 403


def test_single_records_of_others_are_not_there(service: httpx.Client, settings: Settings) -> None:
    ann, tenant = key(settings, ANN), key(settings)
    for path in ("events/e0", "events/e2", "knowledge/k-bob", f"contributions/c-{BOB}"):
        is_problem(service.get(f"/v1/hmx/{path}", headers=ann), 404, "not_found")
        assert service.get(f"/v1/hmx/{path}", headers=tenant).status_code == 200
    for path in ("events/e1", "events/e3", "knowledge/k-ann", "knowledge/k-all"):
        assert service.get(f"/v1/hmx/{path}", headers=ann).status_code == 200
    assert service.get("/v1/artifacts/k-bob", headers=ann).status_code == 404
    assert service.get("/v1/artifacts/e0", headers=ann).status_code == 404


def test_a_key_of_the_tenant_sees_single_records_as_a_subject_if_it_says_so(
    service: httpx.Client, settings: Settings
) -> None:
    tenant, ann = key(settings), key(settings, ANN)

    def seen(path: str, **asked: str) -> int:
        return service.get(f"/v1/hmx/{path}", params=asked, headers=tenant).status_code

    for path in ("events/e2", "knowledge/k-bob", f"contributions/c-{BOB}"):
        assert [seen(path), seen(path, subject=BOB), seen(path, subject=ANN), seen(path, subject="")] == [
            200, 200, 404, 404,
        ]  # fmt: skip
    for path in ("events/e3", "knowledge/k-all"):
        assert {seen(path, subject=who) for who in (ANN, BOB, "")} == {200}
    is_problem(service.get("/v1/hmx/knowledge/k-bob", params={"subject": BOB}, headers=ann), 403, "forbidden")
    assert service.get("/v1/hmx/knowledge/k-ann", params={"subject": ""}, headers=ann).status_code == 200


def test_an_export_and_a_stream_tell_ones_own_and_the_shared(service: httpx.Client, settings: Settings) -> None:
    ann = key(settings, ANN)

    def exported(headers: dict[str, str]) -> list[str]:
        lines = service.get("/v1/hmx/events", headers=headers).text.splitlines()
        return [orjson.loads(line)["event_id"] for line in lines]

    assert exported(key(settings)) == ["e0", "e1", "e2", "e3"]
    assert exported(ann) == ["e1", "e3"]
    with service.stream("GET", "/v1/hmx/stream", params={"from": "start"}, headers=ann) as answer:
        lines = answer.iter_lines()
        said = [line for line in (next(lines) for _ in range(12)) if line.startswith("data:")]
    assert [orjson.loads(line[5:])["event_id"] for line in said] == ["e1", "e3"]


def test_a_bound_key_writes_for_its_own_subject_alone(service: httpx.Client, settings: Settings) -> None:
    ann = key(settings, ANN)
    sent = [event("w", n, metadata=of) for n, of in enumerate(({"user_id": ANN}, {"user_id": BOB}, {}))]
    results = service.post("/v1/hmx/events", json=sent, headers=ann).json()["results"]
    assert [one["status"] for one in results] == ["accepted", "rejected", "rejected"]
    assert {(one["reason"], one["path"]) for one in results[1:]} == {("subject_mismatch", "$.metadata.subject_id")}
    url = str(service.base_url).replace("http", "ws", 1).rstrip("/") + "/v1/hmx/events"
    with connect(url, subprotocols=["hmx-1.0"], additional_headers=ann, proxy=None) as socket:  # type: ignore[list-item]
        for one, status in zip(sent, ("accepted", "rejected", "rejected"), strict=True):
            socket.send(orjson.dumps(one))
            assert orjson.loads(socket.recv(30))["status"] == status


def test_a_bound_key_gets_into_no_session_of_others_by_its_name(service: httpx.Client, settings: Settings) -> None:
    ann, agents = key(settings, ANN), add(Path(settings.api_keys), Grant("acme", USUAL, agent="ops"))
    sent = event("taken", 0, metadata={"user_id": ANN})
    capture = {"type": "message", "sessionId": "taken", "payload": {"role": "user", "text": "hello"}}
    assert service.post("/v1/hmx/events", json=sent, headers=ann).status_code == 202
    assert service.post("/v1/capture", json=capture, headers=ann).status_code == 200
    proven = {"Authorization": f"Bearer {agents}"}
    assert service.post("/v1/hmx/events", json=event("ops", 0, agent_id="ops"), headers=proven).status_code == 202
    is_problem(service.post("/v1/hmx/events", json=event("ops", 1), headers=proven), 422, "agent_mismatch")
    messages = [message for own in read(settings, EVENTS).values() for message in own]
    found = {
        orjson.loads(message.value() or b"")["session_id"]: dict(message.headers() or ()).get(AGENT_UNPROVEN)
        for message in messages
    }
    assert "taken" not in found
    assert found[f"{ANN}/taken"] == b"true"
    assert found["ops"] is None


def test_a_capture_is_of_the_user_it_names_else_of_the_keys_subject(service: httpx.Client, settings: Settings) -> None:
    ann, tenant = key(settings, ANN), key(settings)
    capture = {"type": "message", "sessionId": "cap", "payload": {"role": "user", "text": "hello"}}
    taken = [
        (ann, {}, 200), (ann, {"userId": ANN}, 200), (ann, {"userId": BOB}, 422),
        (ann, {"metadata": {"userId": BOB}}, 422), (tenant, {"userId": BOB}, 200), (tenant, {}, 200),
    ]  # fmt: skip
    for headers, more, status in taken:
        assert service.post("/v1/capture", json={**capture, **more}, headers=headers).status_code == status


def test_a_synthesis_is_for_the_user_it_names(service: httpx.Client, settings: Settings) -> None:
    def answer(headers: dict[str, str], **more: Any) -> httpx.Response:
        options = {"minConfidence": 0, "fill": "budget"}
        body = {"query": QUESTION["query"], "options": options, **more}
        return service.post("/v1/synthesize", json=body, headers=headers)

    ann, tenant = key(settings, ANN), key(settings)
    found = answer(ann).text
    assert HERON in found
    assert OTTER not in found
    assert OTTER in answer(tenant, userId=BOB).text
    assert HERON not in answer(tenant).text
    assert answer(ann, userId=BOB).status_code == 403


def test_an_operators_key_is_nobodys() -> None:
    (found,) = parse([f"{'a' * 64} acme\tadmin,read\tann"])
    assert found[1] is None


def test_keys_of_before_subjects_read_as_they_did() -> None:
    grants = [grant for _, grant in parse(["a acme", "b acme\tread", "c acme\tread\tann b"])]
    read = frozenset({Scope.READ})
    assert grants == [Grant("acme", USUAL), Grant("acme", read), Grant("acme", read, "ann b")]
