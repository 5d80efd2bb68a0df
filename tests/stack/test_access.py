"""Keys on a real port: every route but those that tell of nobody wants one, and it opens its own tenant alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from hmx_pipeline.service.api_keys import USUAL, Grant, Scope, add, revoke
from hmx_pipeline.settings import Settings
from tests.support.pipeline import create_topics, new_settings
from tests.support.records import event
from tests.support.service import is_problem, serving

OPEN_TO_ALL = {
    "/livez", "/startupz", "/readyz", "/metrics", "/v1/hmx", "/v1/health", "/schemas/hmx-1.0/{name}", "/",
    "/openapi.json", "/page/{name}",
}  # fmt: skip
"""Whoever can reach the service may ask for these: they tell of no tenant."""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys") / "keys"


@pytest.fixture(scope="module")
def settings(kafka: str, redis_url: str, file: Path) -> Settings:
    add(file, Grant("acme", USUAL))
    made = new_settings(kafka, redis_url, api_keys=str(file))
    create_topics(made, partitions=1)
    return made


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def key_for(file: Path, tenant: str, *scopes: Scope) -> dict[str, str]:
    return bearer(add(file, Grant(tenant, frozenset(scopes))))


def routes(service: httpx.Client) -> list[tuple[str, str]]:
    paths: dict[str, Any] = service.get("/openapi.json").json()["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


@pytest.mark.requirement("O-10", "K-07")
def test_no_route_of_a_tenant_or_of_all_answers_without_a_key(service: httpx.Client) -> None:
    guarded = [(method, path) for method, path in routes(service) if path not in OPEN_TO_ALL]
    assert len(guarded) > 15
    for headers in ({}, {"X-HMX-Tenant": "acme"}, bearer("hx_test_acme"), {"Authorization": "Basic YTpi"}):
        for method, path in guarded:
            answer = service.request(method, path.replace("{", "").replace("}", ""), headers=headers)
            assert (path, answer.status_code) == (path, 401)
            assert answer.headers["www-authenticate"] == "Bearer"


def test_every_route_that_takes_a_body_bounds_it(service: httpx.Client, file: Path) -> None:
    """But for those that read none."""
    headers = {**key_for(file, "acme", *Scope), "Content-Type": "application/json"}
    bounded = [
        path for method, path in routes(service) if method == "POST" and not {"vault", "replay"} & {*path.split("/")}
    ]
    assert len(bounded) >= 6
    for path in bounded:
        answer = service.post(path, content=b" " * (16 * 2**20 + 1), headers=headers)
        assert (path, answer.status_code) == (path, 413)


def test_a_key_reads_and_writes_as_its_scopes_say(service: httpx.Client, file: Path) -> None:
    reads, writes = key_for(file, "acme", Scope.READ), key_for(file, "acme", Scope.WRITE)
    ask = {"query": "deploy"}
    assert service.post("/v1/hmx/context-packs", json=ask, headers=reads).status_code == 200
    is_problem(service.post("/v1/hmx/context-packs", json=ask, headers=writes), 403, "forbidden")
    assert service.post("/v1/hmx/events", json=event(), headers=writes).status_code == 202
    is_problem(service.post("/v1/hmx/events", json=event(), headers=reads), 403, "forbidden")
    captured = {"type": "message", "sessionId": "s", "payload": {}}
    assert service.post("/v1/capture", json=captured, headers=writes).status_code == 200
    refused = service.post("/v1/capture", json=captured, headers=reads)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")


def test_only_an_operators_key_learns_who_the_tenants_are(service: httpx.Client, file: Path) -> None:
    is_problem(service.get("/v1/hmx/tenants", headers=key_for(file, "acme", *USUAL)), 403, "forbidden")
    assert service.get("/v1/hmx/tenants", headers=key_for(file, "ops", Scope.ADMIN)).status_code == 200
    is_problem(service.get("/v1/hmx/artifacts", headers=key_for(file, "ops", Scope.ADMIN)), 403, "forbidden")


def test_only_an_operators_key_imports(service: httpx.Client, file: Path) -> None:
    path = "/v1/hmx/fingerprints/import"
    is_problem(service.post(path, json={}, headers=key_for(file, "acme", *USUAL)), 403, "forbidden")
    is_problem(service.post(path, json={}, headers=key_for(file, "acme", Scope.ADMIN)), 422, "invalid_request")


def test_an_event_of_another_tenant_than_the_keys_is_left_out_by_name(service: httpx.Client, file: Path) -> None:
    sent = [event("s", 0), event("s", 1, tenant_id="globex"), event("s", 2)]
    answer = service.post("/v1/hmx/events", json=sent, headers=key_for(file, "acme", Scope.WRITE))
    results = answer.json()["results"]
    assert [one["status"] for one in results] == ["accepted", "rejected", "accepted"]
    assert (results[1]["reason"], results[1]["path"]) == ("tenant_mismatch", "$.tenant_id")


def test_a_revoked_key_opens_nothing_from_the_next_request_on(service: httpx.Client, file: Path) -> None:
    key = add(file, Grant("acme", USUAL))
    assert service.get("/v1/hmx/artifacts", headers=bearer(key)).status_code == 200
    revoke(file, key)
    is_problem(service.get("/v1/hmx/artifacts", headers=bearer(key)), 401, "unauthorized")


@pytest.mark.requirement("O-10")
def test_every_answer_to_a_tenant_tells_of_its_limit(settings: Settings, file: Path) -> None:
    headers = key_for(file, "acme", *USUAL)
    with serving(replace(settings, rate_limit=4)) as service:
        answers = [
            service.get("/v1/hmx/artifacts", headers=headers),
            service.get("/v1/hmx/artifacts/none", headers=headers),
            service.get("/v1/artifacts/none", headers=headers),
            service.get("/v1/artifacts", headers=headers),
        ]
        assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == ["3", "2", "1", "0"]
        beyond = [service.get(path, headers=headers) for path in ("/v1/hmx/artifacts", "/v1/artifacts")]
        is_problem(beyond[0], 429, "rate_limited")
        for answer in beyond:
            assert answer.status_code == 429
            assert (answer.headers["x-ratelimit-remaining"], int(answer.headers["retry-after"]) > 0) == ("0", True)
        assert service.get("/livez").status_code == 200
