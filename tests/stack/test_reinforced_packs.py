"""What packs have shown is reinforced where the reader asks for it: one event a pack, felt in one profile alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.ledger import memory_hash
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS
from tests.support.memory import Memory
from tests.support.pipeline import new_settings, running
from tests.support.records import START_MS, event
from tests.support.service import is_problem, serving
from tests.support.topics import read

SAID = ("The staging cluster is in Frankfurt.", "The backup cluster is in Dublin.", "The test cluster is in Oslo.")
QUESTION = {"query": "Where is the cluster?", "fill": "budget"}
Json = dict[str, Any]


@pytest.fixture
def settings(kafka: str, redis_url: str, tmp_path: Path) -> Iterator[Settings]:
    made = new_settings(kafka, redis_url)
    lines = [
        orjson.dumps(event("s", n, at=START_MS + n, event_type="message", content={"role": "user", "text": text}))
        for n, text in enumerate(SAID)
    ]
    with running(made, tmp_path, "worker", "materialiser", partitions=2):
        assert publish(lines, made).complete
        wait_for_all(made)
        yield made


def pack(client: httpx.Client, **asked: Any) -> list[tuple[str, str, float]]:
    answer = client.post("/v1/hmx/context-packs", json=QUESTION | asked)
    assert answer.status_code == 200, answer.text
    return [(e["section"], e["source_id"], e["relevance_score"]) for e in answer.json()["entries"]]


def ledger(settings: Settings, redis_url: str) -> dict[str, Json]:
    store = Memory(redis_url, settings.topic_prefix).store
    records = store.knowledge_records("acme", list(store.knowledge_ids("acme")))
    return {
        r["body"]["name"]: r["body"]["properties"] for r in records if r["body"].get("entity_type") == "reinforcement"
    }


@pytest.mark.requirement("R-05", "R-06", "X27")
def test_a_pack_reinforces_what_it_shows_by_one_event_that_only_one_profile_feels(
    settings: Settings, redis_url: str
) -> None:
    with serving(settings) as client:
        client.headers.update({"X-HMX-Tenant": "acme"})
        before, cognitive = pack(client), pack(client, profile="cognitive")
        wait_for_all(settings)
        assert ledger(settings, redis_url) == {}, "a plain read appends nothing"
        chosen = next(name for section, name, _ in reversed(before) if section == "facts")
        for _ in range(3):
            shown = pack(
                client, sections=["facts"], query=f"Where is the {named(client, chosen)} cluster?", surfaces=True
            )
        wait_for_all(settings)
        events = [orjson.loads(m.value() or b"{}") for own in read(settings, EVENTS).values() for m in own]
        surfaced = [one["content"] for one in events if one.get("event_type") == "memory.reinforcement"]
        assert [(one["kind"], len(one["targets"])) for one in surfaced] == [("surfaced", len(shown))] * 3
        found = ledger(settings, redis_url)
        assert found.keys() == {memory_hash(name) for _, name, _ in shown}
        assert found[memory_hash(chosen)]["surfaced"] == 3
        assert pack(client) == before
        felt = [name for _, name, _ in pack(client, profile="cognitive")]
        assert sorted(felt) == sorted(name for _, name, _ in cognitive)
        is_problem(client.post("/v1/hmx/context-packs", json=QUESTION | {"surfaces": 1}), 422, "invalid_request")


@pytest.mark.requirement("R-07")
def test_an_append_that_is_tagged_redundant_is_still_stored(settings: Settings) -> None:
    with serving(settings) as client:
        client.headers.update({"X-HMX-Tenant": "acme"})

        def stored(text: str, **asked: Any) -> Json:
            said = {"type": "message", "sessionId": "t", "payload": {"role": "user", "text": text}}
            answer = client.post("/v1/capture", json=said, params=asked)
            assert answer.json()["data"]["status"] == "ingested", answer.text
            wait_for_all(settings)
            found = client.get(f"/v1/hmx/events/{answer.json()['data']['eventId']}")
            assert found.status_code == 200
            content: Json = found.json()["content"]
            return content

        assert stored(SAID[0], encoding=True) == {"role": "user", "text": SAID[0], "encoding": "redundant"}
        assert stored("Invoices go out on Mondays.", encoding=True)["encoding"] == "novel"
        assert "encoding" not in stored(SAID[0])


def named(client: httpx.Client, record_id: str) -> str:
    records = client.get("/v1/hmx/knowledge").json()["records"]
    return str(next(r["text"] for r in records if r["record_id"] == record_id)).split()[1]
