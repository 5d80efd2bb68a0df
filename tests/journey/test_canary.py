"""One tenant's marks and secrets, planted in every field over every intake, and looked for wherever they must not be.

A mark is what only the watched tenant may see: its ids, its words. A secret nobody may see beyond the events topic and
its dead letters. Both go in by Kafka, HTTP, NDJSON, WebSocket, OTLP and the clients' dialect; then every topic, Redis,
logs, metrics and the answers of every route to another tenant are searched.
"""

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final
from urllib.parse import quote

import httpx
import orjson
import pytest
from websockets.sync.client import connect

from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.keys import join_key
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.kafka.topic_files import load_topics
from hmx_pipeline.service.api_keys import USUAL, Grant, Scope, add
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS, EVENTS_DLQ
from tests.support.memory import Memory
from tests.support.model_server import answering
from tests.support.pipeline import Pipeline, new_settings, running
from tests.support.records import event
from tests.support.spans import export, span
from tests.support.topics import read

WAIT_S: Final = 180.0
MARK: Final = f"canary{uuid.uuid4().hex}"
SECRET: Final = f"Zq7Xw2Lk9{uuid.uuid4().hex}"
SHAPED: Final = f"sk-proj-{SECRET}"
WORDS: Final = "deploy the heron database"
"""What leads to what is marked, and holds no mark itself."""
WATCHED, OTHER, OPERATOR = f"watched{uuid.uuid4().hex}", "other", "operator"
Answers = Sequence[tuple[str, httpx.Response]]
Send = Callable[[Settings, dict[str, str], list[dict[str, Any]]], None]


def marked(intake: str) -> list[dict[str, Any]]:
    """Sessions whose every field holds the mark, and a secret wherever a value may be one."""
    session, place = f"{MARK} session {intake}", f"{MARK}-{intake}"
    said = {
        "agent_id": f"{place} agent", "trace_id": f"{place} trace", "correlation_id": f"{place} correlation",
        "parent_event_id": f"{place} parent", "source": f"{place} source {SHAPED}", "tags": [place, SHAPED],
        "provenance_ref": f"https://u:{SECRET}@example.org/{place}", "salience": 0.7, "ttl_seconds": 10**9,
        "metadata": {place: place, "cookie": SECRET, "note": json.dumps({"password": SECRET, "of": place}),
            "rejected_tool": place, "rejected_command": f"deploy {place} {SHAPED}"},
    }  # fmt: skip
    contents: list[tuple[str, dict[str, Any]]] = [
        ("message", {"role": "user", "text": f"Our heron database is {place} now."}),
        ("message", {"role": "user", "text": f"Always run {place} before committing."}),
        ("message", {"role": "user", "text": f"deploy the heron {place} with {SHAPED}", place: SHAPED}),
        ("tool_call", {"tool_name": place, "call_id": "1", "arguments": {"env": place, "api_key": SECRET}}),
        ("tool_result", {"tool_name": place, "call_id": "1", "success": False, "error": f"{place} token={SECRET}"}),
        ("error", {"error_type": f"{place} denied", "message": f"{place} postgres://u:{SECRET}@db/x", "stack": place}),
        ("command_exec", {"command": f"GITHUB_TOKEN={SECRET} make {place}", "exit_code": 0}),
        ("decision", {"question": place, "chosen_option": place, "reasoning": f"{place} {SHAPED}"}),
        ("feedback", {"signal": "correction", "comment": f"{place} never show {SHAPED}"}),
        (f"x-acme-{place}", {"description": f"{place} {SHAPED}"}),
    ]
    events = [
        event(session, n, event_id=f"{place}-{n}", tenant_id=WATCHED, event_type=kind, content=content, **said)
        for n, (kind, content) in enumerate(contents)
    ]
    later = {**events[0], "event_id": f"{place}-later", "hmx_version": "HMX-1.7", "sequence": len(events)}
    return [*events, {**later, "mood": place, "session_token": SECRET}]


def task(number: int) -> list[dict[str, Any]]:
    """The same thing done again and again, so that artifacts are compiled of it."""
    tools = (f"build {MARK}", f"deploy {MARK}", f"verify {MARK}")
    contents: list[tuple[str, dict[str, Any]]] = [
        ("message", {"role": "user", "text": f"Please deploy the heron {MARK}"})
    ]
    for tool in tools:
        contents.append(("tool_call", {"tool_name": tool, "call_id": tool, "arguments": {"of": MARK}}))
        contents.append(("tool_result", {"tool_name": tool, "call_id": tool, "success": True, "result": {"of": MARK}}))
    contents.append(("feedback", {"signal": "positive", "comment": MARK}))
    return [
        event(f"{MARK} task {number}", n, tenant_id=WATCHED, event_type=kind, content=content)
        for n, (kind, content) in enumerate(contents)
    ]


def by_kafka(settings: Settings, _: dict[str, str], events: list[dict[str, Any]]) -> None:
    assert publish(map(orjson.dumps, events), settings).complete


def by_http(settings: Settings, key: dict[str, str], events: list[dict[str, Any]]) -> None:
    for body in (*events[:2], events[2:]):
        answer = httpx.post(f"{settings.service_url}/v1/hmx/events", json=body, headers=key, timeout=WAIT_S)
        assert answer.status_code == 202, answer.text


def by_ndjson(settings: Settings, key: dict[str, str], events: list[dict[str, Any]]) -> None:
    refused = [SECRET.encode(), orjson.dumps({**events[0], SHAPED: MARK}), orjson.dumps({**events[0], "tags": SHAPED})]
    body = b"\n".join([*map(orjson.dumps, events), *refused])
    headers = {**key, "Content-Type": "application/x-ndjson"}
    answer = httpx.post(f"{settings.service_url}/v1/hmx/events", content=body, headers=headers, timeout=WAIT_S)
    assert answer.json()["summary"] == {"total": len(events) + 3, "accepted": len(events), "rejected": 3}
    assert SECRET not in answer.text


def by_websocket(settings: Settings, key: dict[str, str], events: list[dict[str, Any]]) -> None:
    url = f"{settings.service_url.replace('http', 'ws', 1)}/v1/hmx/events"
    with connect(url, subprotocols=["hmx-1.0"], additional_headers=key, proxy=None) as socket:  # type: ignore[list-item]
        for one in events:
            socket.send(orjson.dumps(one))
            assert orjson.loads(socket.recv(WAIT_S))["status"] == "accepted"


def by_dialect(settings: Settings, key: dict[str, str], events: list[dict[str, Any]]) -> None:
    captures = [
        {
            "type": one["event_type"], "sessionId": one["session_id"], "payload": one["content"],
            "metadata": {**one["metadata"], "agentId": one["agent_id"]}, "idempotencyKey": one["event_id"],
        }
        for one in events
    ]  # fmt: skip
    with httpx.Client(base_url=settings.service_url, headers=key, timeout=WAIT_S) as client:
        for capture in captures[:2]:
            assert client.post("/v1/capture", json=capture).json()["data"]["status"] == "ingested"
        batch = client.post("/v1/capture/batch", json={"events": captures[2:]}).json()["data"]["summary"]
        assert batch["ingested"] == len(captures) - 2


def by_otlp(settings: Settings, key: dict[str, str], session: str) -> None:
    """A chat whose every text is marked, and a tool whose arguments hold a secret."""
    chat = {
        "gen_ai.operation.name": "chat", "gen_ai.conversation.id": session, "user.id": f"{MARK} user",
        "gen_ai.input.messages": json.dumps(
            [{"role": "user", "parts": [{"type": "text", "content": f"Our heron {MARK} code is {SHAPED}"}]}]
        ),
    }  # fmt: skip
    tool = {
        "gen_ai.operation.name": "execute_tool", "gen_ai.conversation.id": session, "gen_ai.tool.name": MARK,
        "gen_ai.tool.call.arguments": json.dumps({"of": MARK, "password": SECRET}), "api_key": SECRET,
    }  # fmt: skip
    sent = export([span(1, chat, name=MARK), span(2, tool, name=f"execute_tool {MARK}")])
    answer = httpx.post(f"{settings.service_url}/v1/traces", json=sent, headers=key, timeout=WAIT_S)
    assert (answer.status_code, answer.json()) == (200, {})


INTAKES: Final[Mapping[str, Send]] = {
    "kafka": by_kafka, "http": by_http, "ndjson": by_ndjson, "websocket": by_websocket, "dialect": by_dialect,
}  # fmt: skip


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, dict[str, str]]:
    """Tenant → the header that opens its memory; the file of keys is among them by its path."""
    file = tmp_path_factory.mktemp("keys") / "keys"
    made = {tenant: add(file, Grant(tenant, USUAL)) for tenant in (WATCHED, OTHER)}
    made[OPERATOR] = add(file, Grant(OPERATOR, frozenset(Scope)))
    headers = {tenant: {"Authorization": f"Bearer {key}"} for tenant, key in made.items()}
    return {**headers, "file": {"path": str(file)}}


@pytest.fixture(scope="module")
def pipeline(
    kafka: str, redis_url: str, keys: Mapping[str, dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pipeline]:
    logs = tmp_path_factory.mktemp("logs")
    with ExitStack() as stack:
        model = stack.enter_context(answering(lambda messages: {"content": json.dumps(messages)}))
        settings = new_settings(
            kafka, redis_url, api_keys=keys["file"]["path"], mem0=1, openai_upstream=model, openai_key=SHAPED
        )
        made = stack.enter_context(running(settings, logs, "worker", "materialiser", "service", partitions=2))
        for intake, send in INTAKES.items():
            send(settings, keys[WATCHED], marked(intake))
        by_otlp(settings, keys[WATCHED], f"{MARK} session otlp")
        httpx.get(f"{settings.service_url}/docs/search", params={"q": f"{MARK} {SECRET}"}, timeout=WAIT_S)
        by_kafka(settings, {}, [one for number in range(8) for one in task(number)])
        # What is refused after the log: another's tenant_id in a record is nobody's mistake there, these are.
        by_kafka(settings, {}, [event("mine", n, tenant_id=OTHER) for n in range(3)])
        broken = [orjson.dumps({**marked("dlq")[0], "timestamp": SHAPED}), f'{{"{MARK}": "{SECRET}'.encode()]
        publish(broken, settings)
        wait_for_all(settings, WAIT_S)
        yield made


@pytest.fixture(scope="module")
def settings(pipeline: Pipeline) -> Settings:
    return pipeline.settings


@pytest.fixture(scope="module")
def ids(settings: Settings, keys: Mapping[str, dict[str, str]]) -> list[str]:
    """Of an event, an artifact, a contribution and a knowledge record of the watched tenant, and its session."""
    with asking(settings, keys[WATCHED]) as client:
        artifact = client.get("/v1/hmx/artifacts").json()["artifacts"][0]
        pack = client.post("/v1/hmx/context-packs", json={"query": WORDS}).json()
        known = [one["source_id"] for one in pack["entries"] if one["source_type"] not in ("artifact", "episode")]
        assert known
        found = [f"{MARK}-kafka-0", artifact["artifact_id"], artifact["source_memory_ids"][0], *known[:2]]
    return [*found, f"{MARK} session kafka"]


@pytest.fixture(scope="module")
def answers(settings: Settings, keys: Mapping[str, dict[str, str]], ids: list[str]) -> Mapping[str, Answers]:
    """What every route tells each of them."""
    found = {}
    for tenant in (WATCHED, OTHER, OPERATOR):
        with asking(settings, keys[tenant]) as client:
            found[tenant] = list(questions(client, ids))
    return found


def asking(settings: Settings, key: dict[str, str]) -> httpx.Client:
    return httpx.Client(base_url=settings.service_url, headers=key, timeout=WAIT_S)


def questions(client: httpx.Client, ids: Sequence[str]) -> Iterator[tuple[str, httpx.Response]]:
    """Every route of the service, asked for what is the watched tenant's."""
    agent = f"{MARK}-kafka agent"
    bodies: list[Any] = [
        {"query": WORDS}, {"query": WORDS, "session_id": ids[-1], "agent_id": agent, "token_budget": 9_000},
        {"query": WORDS, "tenant_id": WATCHED}, {"agent_id": agent}, {"agentId": agent}, {},
        {"messages": [{"role": "user", "content": WORDS}]},
        event("x", tenant_id=WATCHED), {"type": "message", "sessionId": "own", "payload": {"text": "mine"}},
    ]  # fmt: skip
    params = {"session": ids[-1], "type": "task_schema", "status": "active"}
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        name = path[path.find("{") : path.find("}") + 1] if "{" in path else ""
        for target in [path.replace(name, quote(one, safe="")) for one in ids] if name else [path]:
            if target == "/v1/hmx/stream":
                yield "GET /v1/hmx/stream", streamed(client)
                continue
            if "get" in methods:
                yield f"GET {path}", client.get(target)
                yield f"GET {path}", client.get(target, params=params)
            if "post" in methods:
                for body in bodies[:1] if path == "/v1/learn" else bodies:  # it waits until all is compiled
                    yield f"POST {path}", client.post(target, json=body)


def streamed(client: httpx.Client) -> httpx.Response:
    """What a stream from the start says until it says nothing for a while."""
    said = b""
    with (
        client.stream("GET", "/v1/hmx/stream", params={"from": "start"}, timeout=3) as answer,
        suppress(httpx.ReadTimeout),
    ):
        for chunk in answer.iter_bytes():
            said += chunk
    return httpx.Response(answer.status_code, content=said)


@pytest.mark.requirement("K-07", "R-12")
def test_the_watched_tenant_finds_its_own_on_every_way(
    settings: Settings, keys: Mapping[str, dict[str, str]], answers: Mapping[str, Answers]
) -> None:
    """Or the next tests would prove nothing."""
    found = {name for name, answer in answers[WATCHED] if MARK in answer.text}
    with asking(settings, keys[WATCHED]) as client:
        for intake in INTAKES:
            exported = client.get("/v1/hmx/events", params={"session": f"{MARK} session {intake}"})
            assert len(exported.content.splitlines()) == len(marked(intake)), intake
        spans = client.get("/v1/hmx/events", params={"session": f"{MARK} session otlp"})
        assert len(spans.content.splitlines()) > 1
    assert found >= {
        "GET /v1/hmx/events", "GET /v1/hmx/stream", "POST /v1/hmx/context-packs", "GET /v1/hmx/events/{event_id}",
        "GET /v1/hmx/contributions/{contribution_id}", "GET /v1/hmx/knowledge/{record_id}", "GET /v1/hmx/artifacts",
        "GET /v1/hmx/artifacts/{artifact_id}", "POST /v1/synthesize", "GET /v1/artifacts",
        "GET /v1/artifacts/{source_id}", "GET /v1/hmx/tables/sessions", "GET /v1/hmx/sessions/{session_id}",
        "POST /v1/chat/completions", "POST /v3/memories/search/", "POST /v3/memories/", "GET /v1/memories/{memory_id}/",
    }  # fmt: skip
    for topic in (EVENTS, EVENTS_DLQ):
        held = [m for messages in read(settings, topic).values() for m in messages]
        assert any(SECRET.encode() in (m.value() or b"") for m in held)


@pytest.mark.requirement("K-07", "R-12")
def test_no_route_tells_another_tenant_anything_and_nobody_a_secret(
    settings: Settings, keys: Mapping[str, dict[str, str]], ids: list[str], answers: Mapping[str, Answers]
) -> None:
    for tenant in (OTHER, OPERATOR):
        for name, answer in answers[tenant]:
            told = answer.text
            for one in (*ids, f"{MARK}-kafka agent"):
                told = told.replace(one, "").replace(quote(one, safe=""), "")  # what was asked may be said back
            assert MARK not in told, (tenant, name)
            assert WATCHED not in told or tenant == OPERATOR, name
            unready = name == "GET /readyz" and answer.status_code == 503  # on a busy machine it may be
            assert answer.status_code < 500 or answer.status_code == 501 or unready, (name, answer.text)
    assert not [(tenant, name) for tenant, said in answers.items() for name, answer in said if SECRET in answer.text]
    with asking(settings, {**keys[OTHER], "X-HMX-Tenant": WATCHED}) as client:
        for path in ("/v1/hmx/artifacts", "/v1/hmx/events", "/v1/hmx/stream", "/v1/hmx/counts", "/v1/artifacts"):
            assert client.get(path).status_code == 403


@pytest.mark.requirement("K-07", "R-12")
@pytest.mark.parametrize("topic", [spec.topic for spec in load_topics() if spec.topic not in (EVENTS, EVENTS_DLQ)])
def test_no_topic_but_the_guarded_holds_a_secret_and_marks_stand_under_their_tenant(
    settings: Settings, topic: str
) -> None:
    owner = join_key(WATCHED).encode()
    for messages in read(settings, topic).values():
        for message in messages:
            key, value = message.key() or b"", message.value() or b""
            parts = [key, value, *(said for _, said in message.headers() or [] if isinstance(said, bytes))]
            assert not any(SECRET.encode() in part for part in parts)
            if any(MARK.encode() in part for part in parts):
                assert owner in key.split(b"/"), (topic, key)


@pytest.mark.requirement("K-07", "R-12")
def test_redis_logs_and_metrics_hold_no_secret_and_marks_only_under_their_tenant(
    pipeline: Pipeline, settings: Settings
) -> None:
    memory = Memory(settings.redis_url, settings.topic_prefix).dump()
    for name, value in memory.items():
        assert SECRET.encode() not in name + value
        if MARK.encode() in name + value:
            assert b"{%s}" % WATCHED.encode() in name
    assert any(MARK.encode() in value for value in memory.values())
    shown = [pipeline.log(name, lines=1_000_000) for name in pipeline.processes]
    ports = (settings.service_port, settings.worker_port, settings.materialiser_port)
    shown += [httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=WAIT_S).text for port in ports]
    for text in shown:
        assert SECRET not in text
        assert MARK not in text
