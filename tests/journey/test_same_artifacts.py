"""Real sessions on the real broker: conserved, and the same artifacts whatever happens on the way.

The same file is published twice: as it is; and with its sessions interleaved otherwise, in other batches, with
duplicates, while the worker is killed and started again.
"""

import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from hmx_pipeline.audit.pipeline_conservation import verify
from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.contracts.pack import ContextPack
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.runtime.barriers import wait_for_stages
from hmx_pipeline.settings import Settings
from tests.support import data
from tests.support.pipeline import new_settings, running
from tests.support.topics import active_artifacts, counts, episodes_by_session


def interleaved(lines: list[bytes], seed: int) -> list[bytes]:
    """Sessions mixed otherwise, each in its own order; one event in twenty twice, the copy somewhat later."""
    dice = random.Random(seed)
    sessions: dict[str, list[bytes]] = defaultdict(list)
    for line in lines:
        sessions[orjson.loads(line)["session_id"]].append(line)
    waiting = [events[::-1] for events in sessions.values()]
    mixed: list[tuple[float, int, bytes]] = []
    while waiting:
        at = dice.randrange(len(waiting))
        line = waiting[at].pop()
        mixed.append((len(mixed), len(mixed), line))
        if dice.random() < 0.05:
            mixed.append((len(mixed) + dice.random() * 300, len(mixed), line))
        if not waiting[at]:
            waiting[at] = waiting[-1]
            waiting.pop()
    return [line for *_, line in sorted(mixed)]


def publish_in_chunks(settings: Settings, lines: list[bytes], chunks: int, pause_s: float) -> None:
    size = -(-len(lines) // chunks)
    for start in range(0, len(lines), size):
        assert publish(lines[start : start + size], settings).complete
        time.sleep(pause_s)


@pytest.fixture(scope="module")
def tau() -> list[bytes]:
    return data.lines("tau")


@pytest.fixture(scope="module")
def as_it_is(
    kafka: str, redis_url: str, tau: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    settings = new_settings(kafka, redis_url)
    with running(settings, tmp_path_factory.mktemp("logs"), "worker", "materialiser", "service"):
        assert publish(tau, settings).complete
        wait_for_all(settings)
        yield settings


def test_everything_published_is_conserved_and_in_order(as_it_is: Settings, tau: list[bytes]) -> None:
    report = verify(as_it_is)
    assert report.conserved, report.faults
    sent: dict[str, list[str]] = defaultdict(list)
    for line in tau:
        event = orjson.loads(line)
        sent[event["session_id"]].append(event["event_id"])
    assert episodes_by_session(as_it_is) == sent


def test_what_was_learnt_is_active(as_it_is: Settings) -> None:
    found = Counter((tenant, kind) for tenant, kind, *_ in active_artifacts(as_it_is))
    assert found["tau-retail", "failure_playbook"] > 0
    assert found["tau-airline", "failure_playbook"] == 0  # each of its retries changed something else
    assert found["tau-retail", "task_schema"] > 0


@pytest.mark.requirement("C-03", "Y03")
def test_a_real_question_gets_a_valid_pack_within_budget_whose_every_id_resolves(
    as_it_is: Settings, tau: list[bytes]
) -> None:
    import httpx

    first = next(e for e in map(orjson.loads, tau) if e["content"].get("role") == "user" and "retail" in e["tenant_id"])
    tenant = {"X-HMX-Tenant": first["tenant_id"]}
    with httpx.Client(base_url=as_it_is.service_url, headers=tenant, timeout=30) as client:
        asked = {"query": first["content"]["text"], "token_budget": 1_500}
        answer = client.post("/v1/hmx/context-packs", json=asked)
        assert answer.status_code == 200, answer.text
        pack = ContextPack.model_validate_json(answer.content)
        assert pack.entries
        assert sum(entry.token_estimate for entry in pack.entries) == pack.token_budget.used <= 1_500
        for entry in pack.entries:
            kind = {"artifact": "artifacts", "episode": "events"}.get(entry.source_type, "knowledge")
            found = client.get(f"/v1/hmx/{kind}/{entry.source_id}")
            assert found.status_code == 200, (entry.source_id, found.text)
            if kind == "artifacts":
                assert_sources_resolve(client, found.json())
        twice = ContextPack.model_validate_json(client.post("/v1/hmx/context-packs", json=asked).content)
        assert twice.entries == pack.entries
        other = client.get(f"/v1/hmx/artifacts/{pack.entries[0].source_id}", headers={"X-HMX-Tenant": "tau-airline"})
        assert other.status_code == 404


def assert_sources_resolve(client: Any, artifact: dict[str, Any]) -> None:
    for event_id in artifact["source_events"][:20]:
        assert client.get(f"/v1/hmx/events/{event_id}").status_code == 200
    for memory_id in artifact["source_memory_ids"][:20]:
        assert client.get(f"/v1/hmx/contributions/{memory_id}").status_code == 200
    if "supersedes" in artifact:
        predecessor = client.get(f"/v1/hmx/artifacts/{artifact['supersedes']}").json()
        assert predecessor["superseded_by"] == artifact["artifact_id"]


@pytest.mark.requirement("E-27", "K-07")
def test_interleaved_doubled_and_with_the_worker_killed_the_same_artifacts_are_active(
    as_it_is: Settings, kafka: str, tau: list[bytes], tmp_path: Path
) -> None:
    settings = new_settings(kafka, worker_id="slot")
    mixed = interleaved(tau, seed=7)
    with running(settings, tmp_path, "worker") as pipeline:
        half = len(mixed) // 2
        publish_in_chunks(settings, mixed[:half], chunks=9, pause_s=0.1)
        pipeline.kill("worker")
        pipeline.start("worker", ready=False)
        publish_in_chunks(settings, mixed[half:], chunks=4, pause_s=0.3)
        wait_for_stages(settings)
        report = verify(settings)
    assert report.conserved, report.faults
    assert active_artifacts(settings) == active_artifacts(as_it_is)
    assert counts(settings)[Outcome.DUPLICATE] == len(mixed) - len(tau)
    assert episodes_by_session(settings) == episodes_by_session(as_it_is)
