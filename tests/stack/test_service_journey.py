"""Events in over HTTP, a pack out over HTTP, on the whole pipeline: and everything named on the way resolves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import jsonschema
import orjson
import pytest

from pipeline.cli.wait import wait_for_all
from pipeline.contracts.schemas import documents
from pipeline.local.samples import QUESTION, SECRETS, TENANT, sample_events
from tests.support.pipeline import new_settings, running

WAIT_S = 120.0
SCHEMAS = documents()
SOURCES = {"episode": ("events", "event.json"), "artifact": ("artifacts", "artifact.json")}
KNOWN = ("knowledge", "knowledge.json")


@pytest.fixture(scope="module")
def client(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service whose memory holds what the sample sessions say."""
    settings = new_settings(kafka, redis_url)
    headers = {"X-HMX-Tenant": TENANT}
    with (
        running(settings, tmp_path_factory.mktemp("logs"), "worker", "materialiser", "service"),
        httpx.Client(base_url=settings.service_url, headers=headers, timeout=WAIT_S) as made,
    ):
        body = b"\n".join(value.replace(b"\n", b" ") for value in sample_events())
        answer = made.post("/v1/hmx/events", content=body, headers={"Content-Type": "application/x-ndjson"})
        assert answer.status_code == 202, answer.text
        assert answer.json()["summary"]["accepted"] > 500
        wait_for_all(settings, WAIT_S)
        yield made


def get(client: httpx.Client, where: str, name: str, schema: str, **params: Any) -> Any:
    answer = client.get(f"/v1/hmx/{where}/{quote(name, safe='')}", params=params)
    assert answer.status_code == 200, f"{where} {name}: {answer.text}"
    jsonschema.validate(answer.json(), SCHEMAS[schema])
    return answer.json()


def pack(client: httpx.Client) -> Any:
    return client.post("/v1/hmx/context-packs", json={"query": QUESTION, "token_budget": 2_000}).json()


@pytest.mark.requirement("C-03", "K-05")
def test_every_id_that_a_pack_and_its_sources_name_resolves(client: httpx.Client) -> None:
    made = pack(client)
    jsonschema.validate(made, SCHEMAS["context-pack.json"])
    assert {"procedures", "episodes", "evidence"} <= {entry["section"] for entry in made["entries"]}
    for entry in made["entries"]:
        where, schema = SOURCES.get(entry["source_type"], KNOWN)
        known = made["metadata"]["sources"].get(entry["source_id"])
        session = {"session": known["session_id"]} if known else {}
        found = get(client, where, entry["source_id"], schema, **session)
        if entry["source_type"] == "artifact":
            named = found["source_memory_ids"]
            assert named
            assert entry["provenance"]["evidence_count"] == found["observed_count"]
            said = [get(client, "contributions", name, "contribution.json") for name in named]
            rests_on = {event for contribution in said for event in contribution["source_events"]}
            for event in found["source_events"]:
                get(client, "events", event, "event.json")
                assert event in rests_on


def test_the_chain_of_versions_is_walked_back_to_its_first(client: httpx.Client) -> None:
    listed = client.get("/v1/hmx/artifacts", params={"limit": 100}).json()["artifacts"]
    walked = 0
    for newest in listed:
        one = newest
        while "supersedes" in one:
            before = get(client, "artifacts", one["supersedes"], "artifact.json")
            assert (before["status"], before["superseded_by"]) == ("superseded", one["artifact_id"])
            assert before["version"] == one["version"] - 1
            one, walked = before, walked + 1
        assert one["version"] == 1
    assert walked


def test_the_same_question_to_the_same_memory_has_the_same_answer(client: httpx.Client) -> None:
    packs = [pack(client) for _ in range(2)]
    for made in packs:
        del made["assembly_metadata"]["assembly_duration_ms"]
    assert packs[0] == packs[1]


def test_events_that_held_a_secret_are_answered_without_it(client: httpx.Client) -> None:
    for secret in SECRETS:
        held = [orjson.loads(value) for value in sample_events() if secret.encode() in value]
        assert held
        for event in held:
            found = get(client, "events", event["event_id"], "event.json", session=event["session_id"])
            assert secret not in str(found)
