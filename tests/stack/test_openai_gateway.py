"""The gateway on a real Kafka and Redis, asked by the real `openai` package, before a stub of the model's server."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import openai
import orjson
import pytest

from hmx_pipeline.service import openai_routes
from hmx_pipeline.service.api_keys import USUAL, Grant, Scope, add
from hmx_pipeline.settings import Settings, SettingsError
from hmx_pipeline.topology import EVENTS
from tests.support.memory import artifact, artifact_as_read, procedure
from tests.support.model_server import Json, RefusedError, answering
from tests.support.pipeline import create_topics, logged, new_settings
from tests.support.service import remembering, serving
from tests.support.topics import read
from tests.support.waiting import until

UPSTREAM_KEY = "sk-upstream-0123456789abcdef"
CALL = {"id": "call_1", "type": "function", "function": {"name": "get_order", "arguments": '{"id": "A7"}'}}
ASKED: list[Any] = [{"role": "system", "content": "You are a clerk."}, {"role": "user", "content": "deploy staging"}]
CALLED: list[Any] = [*ASKED, {"role": "assistant", "tool_calls": [CALL]}]
RESULT: list[Any] = [*CALLED, {"role": "tool", "tool_call_id": "call_1", "content": '{"error": "no such order"}'}]
SEEN: list[tuple[Json, Json]] = []


def scripted(messages: list[Json]) -> Json:
    said = messages[-1].get("content")
    if said == "refuse":
        body = json.dumps({"error": {"message": f"slow down, {UPSTREAM_KEY}", "type": "rate_limit"}}).encode()
        raise RefusedError(429, body, **{"retry-after": "0", "x-request-id": "r1", "set-cookie": "a=b"})
    if said == "elsewhere":
        raise RefusedError(302, b"", location="http://127.0.0.1:1/v1/chat/completions")
    if said == "page":
        raise RefusedError(200, b"<script>", **{"content-type": "text/html"})
    if said == "too much":
        raise RefusedError(200, b"x" * (openai_routes.ANSWER_BYTES + 1))
    if messages[-1]["role"] == "tool":
        return {"content": f"There is none. {UPSTREAM_KEY}"}
    return {"content": None, "tool_calls": [CALL]} if said == "deploy staging" else {"content": "Hello."}


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with answering(scripted, SEEN) as url:
        yield url


@pytest.fixture(scope="module")
def settings(kafka: str, redis_url: str, model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.touch()
    made = new_settings(kafka, redis_url, api_keys=str(file), openai_upstream=model, openai_key=UPSTREAM_KEY)
    create_topics(made, partitions=1)
    known = artifact_as_read(artifact("a1", "Deploy staging", content=procedure("check namespace", "apply it")), 0)
    with remembering(made, [known]) as filled:
        yield filled


def client(service: httpx.Client, settings: Settings, grant: Grant, session: str = "") -> openai.OpenAI:
    shown, headers = add(Path(settings.api_keys), grant), {"X-HMX-Session": session} if session else {}
    return openai.OpenAI(api_key=shown, base_url=f"{service.base_url}/v1", default_headers=headers, max_retries=0)


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_is_passed_on_with_memory_in_it_and_what_was_done_is_appended(
    service: httpx.Client, settings: Settings, *, stream: bool
) -> None:
    session = f"orders-{stream}"
    with client(service, settings, Grant("acme", USUAL), session) as asking:
        calls = ask(asking, ASKED, stream=stream)[1]
        assert calls == [("call_1", "get_order", '{"id": "A7"}')]
        headers, sent = SEEN[-1]
        assert headers["authorization"] == f"Bearer {UPSTREAM_KEY}"
        assert not {name for name in headers if "hmx" in name or "stainless" in name}
        system, memory, user = sent["messages"]
        assert (system, user) == (ASKED[0], ASKED[1])
        assert memory["role"] == "system"
        assert "check namespace" in memory["content"]
        assert all(line.startswith("> ") for line in memory["content"].split("\n\n", 1)[1].split("\n") if line)
        text = ask(asking, RESULT, stream=stream)[0]
        assert "There is none." in text
        assert UPSTREAM_KEY not in text or stream
        ask(asking, RESULT, stream=stream)  # what was told stays told
    events = appended(settings, session, 4)
    assert [event["event_type"] for event in events] == ["message", "tool_call", "tool_result", "message"]
    assert events[0]["content"]["text"] == "deploy staging"
    assert events[1]["content"] == {"tool_name": "get_order", "call_id": "call_1", "arguments": {"id": "A7"}}
    assert (events[2]["content"]["success"], events[2]["content"]["result"]) == (False, {"error": "no such order"})
    assert {(event["tenant_id"], event["source"]) for event in events} == {("acme", "openai-gateway")}


def ask(asking: openai.OpenAI, messages: list[Any], *, stream: bool = False) -> tuple[str, list[Any]]:
    if not stream:
        message = asking.chat.completions.create(model="m", messages=messages).choices[0].message
        calls: Any = message.tool_calls or []
        return message.content or "", [(one.id, one.function.name, one.function.arguments) for one in calls]
    text, heard = "", list[Any]()
    for chunk in asking.chat.completions.create(model="m", messages=messages, stream=True):
        delta = chunk.choices[0].delta
        text += delta.content or ""
        for part in delta.tool_calls or ():
            assert part.function is not None
            if part.id:
                heard.append([part.id, part.function.name, ""])
            heard[-1][2] += part.function.arguments or ""
    return text, [tuple(one) for one in heard]


def all_logged(settings: Settings) -> list[Json]:
    records = read(settings, EVENTS)
    return [orjson.loads(one.value() or b"") for place in records for one in records[place]]


def appended(settings: Settings, session: str, at_least: int) -> list[Json]:
    """After a stream its events come a moment later."""
    until(lambda: len(logged(settings, session)) >= at_least)
    return logged(settings, session)


def test_a_bound_key_tells_of_its_subject_and_a_key_that_only_writes_gets_no_memory(
    service: httpx.Client, settings: Settings
) -> None:
    with client(service, settings, Grant("acme", USUAL, "ann"), "mine") as asking:
        ask(asking, [{"role": "user", "content": "hello"}])
    events = appended(settings, "ann/mine", 2)
    assert {event["metadata"]["subject_id"] for event in events} == {"ann"}
    with client(service, settings, Grant("acme", frozenset({Scope.WRITE}))) as asking:
        ask(asking, ASKED)
    assert SEEN[-1][1]["messages"] == ASKED
    reading = client(service, settings, Grant("acme", frozenset({Scope.READ})))
    with reading as asking, pytest.raises(openai.PermissionDeniedError):
        ask(asking, ASKED)
    unknown = openai.OpenAI(api_key="hx_live_none", base_url=f"{service.base_url}/v1", max_retries=0)
    with unknown as asking, pytest.raises(openai.AuthenticationError):
        ask(asking, ASKED)


def test_without_a_session_the_opening_of_a_conversation_names_one(service: httpx.Client, settings: Settings) -> None:
    opening: list[Any] = [{"role": "user", "content": "hello"}]
    more: list[Any] = [*opening, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "again"}]
    with client(service, settings, Grant("opened", USUAL)) as asking:
        for messages in (opening, more, [{"role": "user", "content": "hello, you"}]):
            ask(asking, messages)
        for again in (opening, more):
            ask(asking, again)
    told = [one for one in all_logged(settings) if one["tenant_id"] == "opened"]
    sessions = [event["session_id"] for event in told]
    assert [event["content"]["text"] for event in told] == [
        "hello",
        "Hello.",
        "again",
        "Hello.",
        "hello, you",
        "Hello.",
    ]
    assert sessions == [sessions[0]] * 4 + [sessions[4]] * 2
    assert sessions[0] != sessions[4]


def test_the_upstreams_errors_are_passed_on_without_its_key_and_tell_nothing(
    service: httpx.Client, settings: Settings
) -> None:
    with client(service, settings, Grant("acme", USUAL), "refused") as asking:
        for stream in (False, True):
            with pytest.raises(openai.RateLimitError) as refused:
                ask(asking, [{"role": "user", "content": "refuse"}], stream=stream)
            assert refused.value.response.headers["x-request-id"] == "r1"
            assert "set-cookie" not in refused.value.response.headers
            assert "slow down, [REDACTED]" in refused.value.response.text
        for said in ("elsewhere", "page"):
            headers = {"Authorization": f"Bearer {asking.api_key}", "X-HMX-Session": "refused"}
            messages = {"messages": [{"role": "user", "content": said}]}
            answer = service.post("/v1/chat/completions", json=messages, headers=headers)
            assert (answer.status_code, "location" in answer.headers) == (302 if said == "elsewhere" else 200, False)
            assert answer.headers["content-type"] in ("application/json", "application/octet-stream")
        with pytest.raises(openai.InternalServerError, match="more than"):
            ask(asking, [{"role": "user", "content": "too much"}])
    assert logged(settings, "refused") == []


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"messages": []}', b'{"messages": ["x"]}', b'{"messages": [{"a": ' + b"[" * 300]
)
def test_what_is_no_request_is_not_passed_on(service: httpx.Client, settings: Settings, body: bytes) -> None:
    before = len(SEEN)
    with client(service, settings, Grant("acme", USUAL)) as asking:
        headers = {"Authorization": f"Bearer {asking.api_key}", "Content-Type": "application/json"}
    answer = service.post("/v1/chat/completions", content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "validation_error")
    large = b'{"messages": [{"role": "user", "content": "' + b"x" * openai_routes.BODY_BYTES + b'"}]}'
    assert service.post("/v1/chat/completions", content=large, headers=headers).status_code == 413
    assert len(SEEN) == before


def test_without_kafka_redis_or_the_upstream_it_says_what_it_can(settings: Settings, model: str) -> None:
    away = replace(settings, kafka_bootstrap="127.0.0.1:1", redis_url="redis://127.0.0.1:1", api_keys="")
    hello = {"messages": [{"role": "user", "content": "hello"}]}
    with serving(away) as service:
        answer = service.post("/v1/chat/completions", json=hello, headers={"X-HMX-Tenant": "acme"})
    assert (answer.status_code, answer.headers["X-HMX-Appended"]) == (200, "failed")
    assert answer.json()["choices"][0]["message"]["content"] == "Hello."
    with serving(replace(away, openai_upstream="http://127.0.0.1:1/v1")) as service:
        answer = service.post("/v1/chat/completions", json=hello, headers={"X-HMX-Tenant": "acme"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_unavailable")


def test_the_route_is_there_only_if_an_upstream_is_set_and_its_address_is_held_to_be_safe(settings: Settings) -> None:
    with serving(replace(settings, openai_upstream="", openai_key="")) as service:
        assert service.post("/v1/chat/completions", json={}).status_code == 404
    for url in ("ftp://a/v1", "http://a.example/v1", "https://u:p@a.example/v1", "a.example", ""):
        with pytest.raises(SettingsError, match="HMX_OPENAI_UPSTREAM"):
            replace(settings, openai_upstream=url, openai_key="k")
    assert UPSTREAM_KEY not in repr(settings)
