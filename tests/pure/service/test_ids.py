"""Wherever a request names an id, one beyond 512 bytes is a problem with its path; nothing is asked of Redis for it."""

import asyncio
from urllib.parse import quote

import httpx
import orjson
import pytest

from hmx_pipeline.contracts.limits import ID_BYTES
from hmx_pipeline.service.api_keys import USUAL, Grant
from hmx_pipeline.service.app import create_app
from hmx_pipeline.service.events import Refused
from hmx_pipeline.service.hippocortex.capture import _completed, said_path
from hmx_pipeline.settings import Settings
from tests.support.bad_input import id_of

AT, BEYOND = id_of(ID_BYTES), id_of(ID_BYTES + 1)
TENANT = {"X-HMX-Tenant": "acme"}
PACK = {"query": "deploy"}
CASES = {
    "event": ("GET", "/v1/hmx/events/{id}", None, "$.event_id"),
    "session of an event": ("GET", "/v1/hmx/events/e?session={id}", None, "$.session"),
    "session of an export": ("GET", "/v1/hmx/events?session={id}", None, "$.session"),
    "knowledge": ("GET", "/v1/hmx/knowledge/{id}", None, "$.record_id"),
    "artifact": ("GET", "/v1/hmx/artifacts/{id}", None, "$.artifact_id"),
    "source, to the clients": ("GET", "/v1/artifacts/{id}", None, "$.source_id"),
    "session of a pack": ("POST", "/v1/hmx/context-packs", {**PACK, "session_id": "{id}"}, "$.session_id"),
    "agent of a pack": ("POST", "/v1/hmx/context-packs", {**PACK, "agent_id": "{id}"}, "$.agent_id"),
    "agent of a fingerprint": ("POST", "/v1/hmx/fingerprints", {"agent_id": "{id}"}, "$.agent_id"),
    "agent, to the clients": ("POST", "/v1/fingerprints", {"agentId": "{id}"}, "$.agentId"),
    "agent of an import": ("POST", "/v1/hmx/fingerprints/import?agent={id}", {}, "$.agent"),
}
CAPTURES = {
    "session": ({"type": "message", "sessionId": "{id}", "payload": {}}, "$.sessionId"),
    "agent": (
        {"type": "message", "sessionId": "s", "payload": {}, "metadata": {"agentId": "{id}"}}, "$.metadata.agentId",
    ),
    "call": ({"type": "tool_call", "sessionId": "s", "payload": {"call_id": "{id}"}}, "$.payload.call_id"),
}  # fmt: skip


def asked(method: str, path: str, body: object, name: str, headers: dict[str, str]) -> httpx.Response:
    """Of a service that reaches neither Kafka nor Redis."""

    async def ask() -> httpx.Response:
        app = create_app(Settings(kafka_bootstrap="127.0.0.1:1", redis_url="redis://127.0.0.1:1"))
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        content = b"" if body is None else orjson.dumps(body).replace(b"{id}", orjson.dumps(name)[1:-1])
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            sent = {**headers, "Content-Type": "application/json"}
            return await client.request(
                method, path.replace("{id}", quote(name, safe="")), content=content, headers=sent
            )

    return asyncio.run(ask())


@pytest.mark.requirement("Y20")
@pytest.mark.parametrize("case", CASES)
def test_an_id_of_a_request(case: str) -> None:
    method, path, body, place = CASES[case]
    answer = asked(method, path, body, BEYOND, TENANT)
    assert answer.status_code == 422
    if path.startswith("/v1/hmx"):
        assert (answer.json()["reason"], answer.json()["path"]) == ("id_too_long", place)
    else:
        error = answer.json()["error"]
        assert (error["code"], error["details"][0]["path"]) == ("validation_error", place)
    assert BEYOND not in answer.text
    assert "at most 512" not in asked(method, path, body, AT, TENANT).text


@pytest.mark.parametrize("case", CAPTURES)
def test_an_id_of_a_capture(case: str) -> None:
    body, place = CAPTURES[case]

    def refused(name: str) -> Refused | None:
        return _completed(orjson.dumps(body).replace(b"{id}", orjson.dumps(name)[1:-1]), Grant("acme", USUAL)).refused

    found = refused(BEYOND)
    assert found is not None
    assert (found.reason, said_path(found.path)) == ("id_too_long", place)
    assert refused(AT) is None


@pytest.mark.parametrize("path", ["/v1/hmx/artifacts", "/v1/artifacts"])
@pytest.mark.parametrize("header", ["X-HMX-Tenant", "Authorization"])
def test_a_tenant(path: str, header: str) -> None:
    def answer(size: int) -> httpx.Response:
        tenant = "t" * size
        shown = f"Bearer hx_test_{tenant}" if header == "Authorization" else tenant
        return asked("GET", path, None, "", {header: shown})

    assert answer(ID_BYTES + 1).status_code == 422
    assert "$.tenant_id" in answer(ID_BYTES + 1).text
    assert "$.tenant_id" not in answer(ID_BYTES).text
