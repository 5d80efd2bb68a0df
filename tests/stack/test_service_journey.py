"""Events in over HTTP, a pack out over HTTP, on the whole pipeline: and everything named on the way resolves."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import jsonschema
import orjson
import pytest

from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.schemas import documents
from hmx_pipeline.local.ports import free_ports
from hmx_pipeline.local.samples import QUESTION, SECRETS, TENANT, sample_events
from hmx_pipeline.store.atomic_blocks import connect
from tests.harness.clocks import Clocks
from tests.support.pipeline import Pipeline, new_settings, running
from tests.support.waiting import until

WAIT_S = 120.0
SCHEMAS = documents()
SOURCES = {"episode": ("events", "event.json"), "artifact": ("artifacts", "artifact.json")}
KNOWN = ("knowledge", "knowledge.json")


@pytest.fixture(scope="module")
def pipeline(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    settings = new_settings(kafka, redis_url)
    with running(settings, tmp_path_factory.mktemp("logs"), "worker", "materialiser", "service") as made:
        yield made


def asking(url: str) -> httpx.Client:
    return httpx.Client(base_url=url, headers={"X-HMX-Tenant": TENANT}, timeout=WAIT_S)


@pytest.fixture(scope="module")
def client(pipeline: Pipeline) -> Iterator[httpx.Client]:
    """A service whose memory holds what the sample sessions say."""
    with asking(pipeline.settings.service_url) as made:
        lines = [value.replace(b"\n", b" ") for value in sample_events()]
        for part in (lines[: len(lines) // 2], lines[len(lines) // 2 :]):  # what is learnt twice has versions
            body = b"\n".join(part)
            answer = made.post("/v1/hmx/events", content=body, headers={"Content-Type": "application/x-ndjson"})
            assert answer.status_code == 202, answer.text
            assert answer.json()["summary"]["accepted"] > 250
            wait_for_all(pipeline.settings, WAIT_S)
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


QUESTIONS: tuple[dict[str, Any], ...] = (
    {"query": QUESTION, "token_budget": 2_000},
    {"query": QUESTION, "token_budget": 600, "explain": True, "strategy": "breadth_first"},
    {"query": "what failed since last week", "strategy": "recency_biased", "include": ["superseded", "archived"]},
    {"query": "deploy to staging", "as_of": "2026-02-10T00:00:00Z", "strategy": "depth_first"},
    {"query": "deploy to staging", "vocabulary": "overview", "weights": {"salience": 1.0}},
)


def packs(client: httpx.Client) -> list[Any]:
    """All that the questions are answered with, but how long it took."""
    made = [client.post("/v1/hmx/context-packs", json=asked).json() for asked in QUESTIONS]
    for one in made:
        del one["assembly_metadata"]["assembly_duration_ms"]
    return made


@pytest.mark.requirement("C-23", "X19")
def test_a_pack_is_the_same_from_another_process_forty_days_later_and_after_redis_was_emptied(
    client: httpx.Client, pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = packs(client)
    assert [len(one["entries"]) > 0 for one in before] == [True] * len(before)
    assert before == packs(client)
    clocks = Clocks(tmp_path)
    for name, value in clocks.environment("later").items():
        monkeypatch.setenv(name, value)
    clocks.shift("later", 40 * 24 * 3600)
    (port,) = free_ports(1)
    pipeline.start("service-2", service_port=port)
    with asking(f"http://127.0.0.1:{port}") as later:
        if clocks.available:
            told = parsedate_to_datetime(later.get("/livez").headers["date"])
            assert told - datetime.now(UTC) > timedelta(days=39)
        assert packs(later) == before
        redis = connect(pipeline.settings.redis_url)
        held = list(redis.scan_iter(match=f"{pipeline.settings.topic_prefix}*", count=1_000))
        assert held
        redis.delete(*held)
        wait_for_all(pipeline.settings, WAIT_S)
        for service in (client, later):
            until(lambda service=service: packs(service) == before)  # type: ignore[misc]
    assert pipeline.stop("service-2") == 0


def test_events_that_held_a_secret_are_answered_without_it(client: httpx.Client) -> None:
    for secret in SECRETS:
        held = [orjson.loads(value) for value in sample_events() if secret.encode() in value]
        assert held
        for event in held:
            found = get(client, "events", event["event_id"], "event.json", session=event["session_id"])
            assert secret not in str(found)
