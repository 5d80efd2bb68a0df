"""Producers of every kind, through the whole pipeline to the answers over HTTP.

Ids are opaque (HMX-E §5): tenants, sessions and events whose ids differ in a slash, a line break or a Unicode form stay
apart. The overview's dialect of content is understood and stays as written. Secrets, planted wherever a producer can
put a value, stay in the events topic and among the dead letters.
"""

import json
import uuid
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import orjson
import pytest

from hmx_pipeline.audit.pipeline_conservation import verify
from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.keys import session_key
from hmx_pipeline.intake.scan import REDACTED
from hmx_pipeline.kafka.clients import plain_producer
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.kafka.topic_files import load_topics
from hmx_pipeline.settings import Settings
from hmx_pipeline.stages.session_state import decode_state
from hmx_pipeline.topology import EVENTS, EVENTS_DLQ, SESSION_STATE
from tests.support.memory import Memory
from tests.support.pipeline import Pipeline, new_settings, running
from tests.support.records import event
from tests.support.topics import counts, episodes_by_session, read

WAIT_S = 120.0
PRINTED = Path(__file__).parents[1] / "pure" / "contracts" / "printed" / "examples.json"
COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"
TENANTS = ["a", "a/b", "a%2Fb", COMPOSED, DECOMPOSED, "🦆", "two\nlines"]
SESSIONS = ["c", "b/c", "b%2Fc", COMPOSED, DECOMPOSED, "🦆", "two\nlines", " ", "*", "{c}"]
EVENT_IDS = ["e", "e/1\n🦆"]
PLACES = list(product(TENANTS, SESSIONS))

OVERVIEW: dict[str, Any] = json.loads(PRINTED.read_text(encoding="utf-8"))["event.json"][-1]
"""The example event of the overview."""

BODY = f"Zq7Xw2Lk9{uuid.uuid4().hex}"  # what every planted secret holds
SHAPED = f"sk-proj-{BODY}"
GUARDED = "guarded"


def sent() -> dict[tuple[str, str, str], dict[str, Any]]:
    """Each place has the same two event ids; what is said there names the place."""
    made = {}
    for number, (tenant, session) in enumerate(PLACES):
        for sequence, event_id in enumerate(EVENT_IDS):
            text = f"a heron at place{number:03d}"
            made[tenant, session, event_id] = event(
                session, sequence, tenant_id=tenant, event_id=event_id, content={"role": "user", "text": text}
            )
    return made


def dialect(number: int) -> list[dict[str, Any]]:
    """A session as the overview writes content: `{role, content}` and a tool's `input` as a string."""
    service = ("payments", "search", "billing", "ledger")[number % 4]
    said: list[tuple[str, dict[str, Any]]] = [
        ("message", {"role": "user", "content": f"Please deploy the {service} service to staging"})
    ]
    for tool in ("build_image", "deploy", "verify_rollout"):
        said.append(("tool_call", {"tool_name": tool, "input": json.dumps({"service": service, "env": "staging"})}))
        said.append(("tool_result", {"tool_name": tool, "output": f"{service} is fine", "success": True}))
    said.append(("feedback", {"signal": "positive"}))
    return [
        event(f"dialect-{number}", n, tenant_id=OVERVIEW["tenant_id"], event_type=kind, content=content)
        for n, (kind, content) in enumerate(said)
    ]


def secretive(sequence: int, **fields: Any) -> dict[str, Any]:
    return event("secrets", sequence, tenant_id=GUARDED, **fields)


def planted() -> list[bytes]:
    """Valid events, in every outcome, with a secret in every place that an event has for a value."""
    inner = json.dumps({"deep": [{"password": BODY}], "url": f"https://u:{BODY}@example.org"})
    places: list[dict[str, Any]] = [
        {"content": {"role": "user", "text": f"use {SHAPED} for it"}},
        {"content": {"password": BODY, "nested": [{"api_key": {"a": [BODY]}}]}},
        {"content": {"text": inner, SHAPED: "as a key"}},
        {"event_type": "tool_call", "content": {"tool_name": f"curl -H 'Authorization: Bearer {BODY}'", "call_id": "1",
                                                "arguments": {"command": f"mysql --password={BODY}"}}},
        {"event_type": "tool_result", "content": {"tool_name": "mysql", "call_id": "1", "success": False,
                                                  "error": f"access denied for postgres://u:{BODY}@db/x"}},
        {"event_type": "error", "content": {"error_type": f"Denied {SHAPED}", "message": f"token={BODY} was refused"}},
        {"event_type": "command_exec", "content": {"command": f"GITHUB_TOKEN={BODY} make", "exit_code": 1}},
        {"event_type": "x-acme-vault", "content": {"description": f"{SHAPED} was rotated"}},
        {"metadata": {"cookie": BODY, "hmx": {"authorization": BODY}, "note": inner}},
        {"source": f"agent {SHAPED}", "provenance_ref": f"https://u:{BODY}@example.org/x", "tags": ["a", SHAPED]},
        {"hmx_version": "HMX-1.7", "session_token": BODY, "mood": {"secret": [BODY]}},
        {"event_type": "feedback", "content": {"signal": "negative", "comment": f"never show {SHAPED}"}},
    ]  # fmt: skip
    events = [secretive(sequence, **fields) for sequence, fields in enumerate(places)]
    late = secretive(0, event_id="late", at=1_000, content={"text": f"late with {SHAPED}"})
    behind_a_gap = secretive(len(places) + 5, content={"text": f"waiting with {SHAPED}"})
    return [orjson.dumps(made) for made in (*events, events[0], late, behind_a_gap)]


def refused() -> list[bytes]:
    """Records that become dead letters, with a secret in what is at fault."""
    return [
        BODY.encode(),
        b'{"password": "' + BODY.encode(),
        b'{"password": "' + BODY.encode() + b'", "password": 1}',
        b'"\xff' + SHAPED.encode() + b'"',
        orjson.dumps({**secretive(50), SHAPED: 1}),
        orjson.dumps({**secretive(51), "hmx_version": SHAPED}),
        orjson.dumps({**secretive(52), "timestamp": SHAPED}),
        orjson.dumps({**secretive(53), "content": SHAPED}),
        orjson.dumps({**secretive(54), "tags": [{"password": BODY}]}),
        orjson.dumps({**secretive(55), "event_type": "x-hmx-tick", "content": {"token": BODY}}),
        orjson.dumps(secretive(0, content={"text": f"the same id again with {SHAPED}"})),
    ]


@pytest.fixture(scope="module")
def pipeline(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    settings = new_settings(kafka, redis_url)
    with running(settings, tmp_path_factory.mktemp("logs"), "worker", "materialiser", "service") as made:
        valid = [orjson.dumps(one) for one in sent().values()]
        valid += [orjson.dumps(one) for number in range(8) for one in dialect(number)]
        assert publish([*valid, orjson.dumps(OVERVIEW), *planted()], settings).complete
        producer = plain_producer(kafka)
        for value in refused():
            place = {"key": session_key(GUARDED, "secrets").encode(), "headers": [("authorization", SHAPED.encode())]}
            producer.produce(settings.topic_prefix + EVENTS, value, **place)
        producer.flush()
        with httpx.Client(base_url=settings.service_url, headers={"X-HMX-Tenant": GUARDED}) as client:
            for value in refused()[:-1]:
                answer = client.post("/v1/hmx/events", content=value, headers={"Content-Type": "application/json"})
                assert BODY not in answer.text
        wait_for_all(settings, WAIT_S)
        yield made


@pytest.fixture(scope="module")
def settings(pipeline: Pipeline) -> Settings:
    return pipeline.settings


def client_of(settings: Settings, tenant: str) -> httpx.Client:
    headers = {b"X-HMX-Tenant": tenant.encode()}
    return httpx.Client(base_url=settings.service_url, headers=headers, timeout=30.0)  # type: ignore[arg-type]


IN_A_HEADER = [tenant for tenant in TENANTS if "\n" not in tenant]


@pytest.mark.requirement("E-03", "E-05", "X29", "X31", "Y17")
def test_every_session_has_an_order_and_a_state_of_its_own(settings: Settings) -> None:
    by_place: dict[tuple[str, str], list[str]] = {}
    for messages in read(settings, "hmx.episodes.v1").values():
        for message in messages:
            episode = orjson.loads(message.value() or b"")
            tenant, session = episode["metadata"]["hmx"]["tenant_id"], episode["sessionId"]
            assert message.key() == session_key(tenant, session).encode()
            by_place.setdefault((tenant, session), []).append(episode["id"])
    assert {place: by_place[place] for place in PLACES} == dict.fromkeys(PLACES, EVENT_IDS)
    keys = {m.key() for messages in read(settings, SESSION_STATE).values() for m in messages}
    assert {f"s/{session_key(*place)}".encode() for place in PLACES} <= keys
    report = verify(settings)
    assert report.conserved, report.faults


@pytest.mark.requirement("E-03", "E-05", "X29", "X31")
@pytest.mark.parametrize("tenant", IN_A_HEADER)
def test_each_event_is_found_under_its_own_tenant_and_session_only(settings: Settings, tenant: str) -> None:
    with client_of(settings, tenant) as client:
        for session, event_id in product(SESSIONS, EVENT_IDS):
            path = f"/v1/hmx/events/{quote(event_id, safe='')}"
            assert client.get(path, params={"session": session}).json() == sent()[tenant, session, event_id]
            assert client.get(path).status_code == 409, "the id stands for an event in each session"
        assert client.get(f"/v1/hmx/events/{quote(EVENT_IDS[0])}", params={"session": "C"}).status_code == 404
        assert client.get("/v1/hmx/events/late", params={"session": "secrets"}).status_code == 404


@pytest.mark.requirement("E-05", "K-07")
@pytest.mark.parametrize("tenant", IN_A_HEADER)
def test_a_pack_holds_what_its_own_tenant_said(settings: Settings, tenant: str) -> None:
    own = {f"place{number:03d}" for number, place in enumerate(PLACES) if place[0] == tenant}
    with client_of(settings, tenant) as client:
        asked = {"query": "heron place", "token_budget": 8_000, "fill": "budget"}
        pack = client.post("/v1/hmx/context-packs", json=asked).text
    named = {f"place{number:03d}" for number in range(len(PLACES)) if f"place{number:03d}" in pack}
    assert named
    assert named <= own


def test_memory_lists_the_tenants_as_they_are_spelt(settings: Settings) -> None:
    with client_of(settings, "any") as client:
        assert {*TENANTS, GUARDED, OVERVIEW["tenant_id"]} == set(client.get("/v1/hmx/tenants").json()["tenants"])


@pytest.mark.requirement("O-03", "X08")
def test_the_overviews_example_comes_out_as_written_and_its_tool_becomes_a_step(settings: Settings) -> None:
    with client_of(settings, OVERVIEW["tenant_id"]) as client:
        assert client.get(f"/v1/hmx/events/{OVERVIEW['event_id']}").json() == OVERVIEW
        (schema,) = client.get("/v1/hmx/artifacts", params={"type": "task_schema"}).json()["artifacts"]
    steps = [step["tools_used"] for step in schema["content"]["steps"]]
    assert steps == [["build_image"], ["deploy"], ["verify_rollout"]]
    prefix = f"e/{session_key(OVERVIEW['tenant_id'], OVERVIEW['session_id'])}/".encode()
    kept = [m for messages in read(settings, SESSION_STATE).values() for m in messages if m.key().startswith(prefix)]
    trace, *_ = decode_state(kept[0].key().decode(), kept[0].value())
    assert (trace.step.role, trace.step.name, trace.step.values) == ("call", "deploy", ("staging", "payments"))


@pytest.mark.requirement("R-12", "Y09", "Y18")
def test_the_secrets_went_all_the_ways_that_there_are(settings: Settings) -> None:
    """Or the next test would prove nothing."""
    total = counts(settings)
    assert total["rejected"] == len(refused())
    assert (total["duplicate"], total["released_late"]) == (1, 1)
    assert len(episodes_by_session(settings)["secrets"]) == len(planted()) - 1
    for topic, least in ((EVENTS, len(planted()) + len(refused())), (EVENTS_DLQ, len(refused()))):
        held = [
            m for messages in read(settings, topic).values() for m in messages if BODY.encode() in (m.value() or b"")
        ]
        assert len(held) == least


@pytest.mark.requirement("R-12", "Y09", "Y18")
@pytest.mark.parametrize("topic", [spec.topic for spec in load_topics() if spec.topic not in (EVENTS, EVENTS_DLQ)])
def test_no_other_topic_holds_a_secret(settings: Settings, topic: str) -> None:
    for messages in read(settings, topic).values():
        for message in messages:
            parts = [message.key(), message.value(), *(value for _, value in message.headers() or [])]
            assert not any(BODY.encode() in (part or b"") for part in parts)


@pytest.mark.requirement("R-12", "Y09", "Y18")
def test_redis_logs_metrics_and_answers_hold_no_secret(pipeline: Pipeline, settings: Settings) -> None:
    memory = Memory(settings.redis_url, settings.topic_prefix).dump()
    assert any(REDACTED.encode() in value for value in memory.values())
    assert not any(BODY.encode() in name + value for name, value in memory.items())
    for name in pipeline.processes:
        assert BODY not in pipeline.log(name, lines=1_000_000)
    for port in (settings.service_port, settings.worker_port, settings.materialiser_port):
        shown = httpx.get(f"http://127.0.0.1:{port}/metrics")
        assert shown.status_code == 200
        assert BODY not in shown.text
    with client_of(settings, GUARDED) as client:
        asked = {"query": "mysql access denied token password", "token_budget": 8_000}
        answers = [client.post("/v1/hmx/context-packs", json=asked), client.get("/v1/hmx/artifacts")]
        answers.append(client.get("/v1/hmx/events/secrets-0"))
    assert all(answer.status_code == 200 and BODY not in answer.text for answer in answers)
    assert REDACTED in answers[0].text
