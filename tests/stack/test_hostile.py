"""What tenants write, and how they name things, is data in every answer of the service, its headers too."""

import re
from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest

from hmx_pipeline.contracts.options import ENTRY_MARK
from hmx_pipeline.contracts.safe_text import INDENT
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.projection import TopicRecord
from tests.support.hostile import ALL
from tests.support.memory import T0, artifact, artifact_as_read, episode, episode_as_read, procedure
from tests.support.pipeline import new_settings
from tests.support.service import is_problem, remembering

ACME = {"X-HMX-Tenant": "acme"}
STRUCTURE = re.compile(
    r"<(?:[/!?|]|script|img|svg|iframe|style|system)|!\[|\]\(javascript|[\x00-\x08\x0b-\x1f\x7f-\x9f]", re.IGNORECASE
)


def records() -> list[TopicRecord]:
    said = [
        episode(text, f"deploy {i} {text}", at=T0 + i * 1000, index=i, session=text)
        for i, text in enumerate(ALL)
    ]  # fmt: skip
    compiled = [
        artifact(f"a{i}{text}", f"Deploy {i} {text}", content=procedure(f"deploy {text}", text), tags=[text])
        for i, text in enumerate(ALL)
    ]
    return [
        *(episode_as_read(item, offset) for offset, item in enumerate(said)),
        *(artifact_as_read(item, offset) for offset, item in enumerate(compiled)),
    ]


@pytest.fixture(scope="module")
def settings(redis_url: str) -> Iterator[Settings]:
    made = new_settings("127.0.0.1:1", redis_url)
    with remembering(made, records()) as filled:
        yield filled


def is_data(content: str) -> None:
    assert content.startswith(ENTRY_MARK)
    assert content.casefold().count(ENTRY_MARK) == 1
    assert not STRUCTURE.search(content)
    own = [line for line in content.split("\n")[1:] if not line.startswith(INDENT)]
    assert all(re.match(r"\d+\. ", line) for line in own)


def test_the_entries_of_a_pack_are_data(service: httpx.Client) -> None:
    asked = {"query": "deploy", "token_budget": 100_000, "fill": "budget"}
    pack = service.post("/v1/hmx/context-packs", json=asked, headers=ACME).json()
    assert len(pack["entries"]) > 40
    for entry in pack["entries"]:
        is_data(entry["content"])
    for step in (pack.get("workflow_hints") or {"suggested_next_steps": ()})["suggested_next_steps"]:
        assert not STRUCTURE.search(step["description"])


def test_what_the_clients_dialect_says_is_data_too(service: httpx.Client) -> None:
    asked = {"query": "deploy", "options": {"maxTokens": 100_000, "fill": "budget"}}
    answer = service.post("/v1/synthesize", json=asked, headers=ACME).json()
    assert len(answer["data"]["entries"]) > 40
    for entry in answer["data"]["entries"]:
        is_data(entry["content"])


@pytest.mark.parametrize("text", ALL)
def test_an_id_is_answered_as_it_is_and_a_problem_is_json(service: httpx.Client, text: str) -> None:
    found = service.get(f"/v1/hmx/events/{quote(text, safe='')}", headers=ACME)
    assert (found.status_code, found.json()["event_id"]) == (200, text)
    missing = service.get(f"/v1/hmx/artifacts/{quote('no' + text, safe='')}", headers=ACME)
    is_problem(missing, 404, "not_found")
    wrong = service.get("/v1/hmx/artifacts", headers=ACME, params={"status": text, "limit": text})
    is_problem(wrong, 422, "invalid_request")
    for answer in (found, missing, wrong):
        said = answer.headers.multi_items()
        assert "set-cookie" not in dict(said)
        assert all(value.isprintable() and value.isascii() for _, value in said)


@pytest.mark.parametrize("text", ALL)
def test_a_tenants_name_stands_in_no_header_of_the_answer(service: httpx.Client, text: str) -> None:
    name = " ".join(text.split()).encode(errors="ignore").translate(None, bytes(range(32)) + b"\x7f")
    answer = service.get("/v1/hmx/artifacts", headers=[(b"X-HMX-Tenant", name)])
    assert answer.headers["content-type"] in ("application/json", "application/problem+json")
    assert all(value.isprintable() and value.isascii() for value in answer.headers.values())


def test_metrics_name_nothing_that_tenants_wrote(service: httpx.Client) -> None:
    told = service.get("/metrics").text
    assert all(re.fullmatch(r"#.*|[a-z_]+(?:\{[^\n]*\})? \S+", line) for line in told.splitlines())
    assert [text for text in ALL if len(text) > 3 and text in told] == []
