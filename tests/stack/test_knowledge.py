"""What memory knows can be listed, confirmed, corrected and retracted over HTTP and by `hmx knowledge`."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import orjson
import pytest

from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.settings import Settings
from tests.support.memory import Memory
from tests.support.own_command import hmx
from tests.support.pipeline import new_settings, running
from tests.support.records import START_MS, event
from tests.support.service import is_problem, serving
from tests.support.waiting import until

HEADERS = {"X-HMX-Tenant": "acme"}
SAID = (
    "The staging cluster is in Frankfurt.",
    "The billing service is owned by Ada Lovelace.",
    "Never deploy on a Friday.",
    "The backup bucket is called nightly-dump.",
)
Json = dict[str, Any]


def lines(session: str, *texts: str, at: int = 0) -> list[bytes]:
    return [
        orjson.dumps(event(session, n, at=START_MS + at + n, event_type="message", content={"role": "user", "text": t}))
        for n, t in enumerate(texts)
    ]


@pytest.fixture(scope="module")
def settings(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    made = new_settings(kafka, redis_url)
    with running(made, tmp_path_factory.mktemp("logs"), "worker", "materialiser", partitions=2):
        assert publish([*lines("s-1", *SAID), *lines("s-2", "We use Grafana.", at=60_000)], made).complete
        wait_for_all(made)
        yield made


@pytest.fixture
def client(settings: Settings) -> Iterator[httpx.Client]:
    with serving(settings) as client:
        client.headers.update(HEADERS)
        yield client


def listed(client: httpx.Client, **asked: Any) -> list[Json]:
    found, cursor = [], ""
    while cursor is not None:
        answer = client.get("/v1/hmx/knowledge", params=asked | ({"cursor": cursor} if cursor else {}))
        assert answer.status_code == 200, answer.text
        found += answer.json()["records"]
        cursor = answer.json().get("cursor")
    return found


def texts(records: list[Json]) -> str:
    return " | ".join(record["text"] for record in records)


def test_the_list_is_filtered_and_comes_in_pages(client: httpx.Client) -> None:
    whole = listed(client)
    assert [r["record_id"] for r in listed(client, limit=1)] == [r["record_id"] for r in whole]
    assert "Frankfurt" in texts(listed(client, kind="memory", text="CLUSTER staging"))
    assert {r["kind"] for r in listed(client, kind="policy")} == {"policy"}
    assert listed(client, status="withdrawn") == []
    assert {r["session_id"] for r in listed(client, session="s-2")} == {"s-2"}
    assert listed(client, agent="nobody") == []
    late = listed(client, since="2026-03-14T03:00:30Z")
    assert {r["record_id"] for r in late} < {r["record_id"] for r in whole}
    is_problem(client.get("/v1/hmx/knowledge", params={"kind": "rumour"}), 422, "invalid_request")
    is_problem(client.get("/v1/hmx/knowledge", params={"since": "yesterday"}), 422, "invalid_request")


def test_a_ruling_over_http_reaches_every_pack_and_survives_a_refill(
    client: httpx.Client, settings: Settings, redis_url: str
) -> None:
    (fact,) = listed(client, text="staging cluster")
    path = f"/v1/hmx/knowledge/{fact['record_id']}"
    answer = client.post(f"{path}/correct", json={"value": "Dublin", "reason": "it moved"})
    assert answer.status_code == 202, answer.text
    assert answer.json()["record_id"] == fact["record_id"]
    assert "replaces" not in answer.json()
    wait_for_all(settings)
    memory = Memory(redis_url, settings.topic_prefix)
    question = {"query": "Where is the staging cluster?"}
    for _ in range(2):
        pack = client.post("/v1/hmx/context-packs", json=question).text
        assert "Dublin" in pack
        (one,) = listed(client, text="staging cluster")
        assert one["record_id"] == answer.json()["stated"]
        memory.wipe()
        until(lambda: listed(client, text="staging cluster"), "Redis is filled again")
        wait_for_all(settings)
    again = client.post(f"{path}/retract", json={}).json()
    assert again["replaces"] == "correct"


def test_what_makes_no_sense_changes_nothing(client: httpx.Client, settings: Settings) -> None:
    before = listed(client)
    is_problem(client.post("/v1/hmx/knowledge/unknown/retract"), 404, "not_found")
    path = f"/v1/hmx/knowledge/{before[0]['record_id']}"
    is_problem(client.post(f"{path}/correct", json={}), 422, "invalid_request")
    is_problem(client.post(f"{path}/retract", json={"txet": "x"}), 422, "invalid_request")
    is_problem(client.post(f"{path}/retract", content=b"x"), 415, "unsupported_media_type")
    assert client.post(f"{path}/forget").status_code in (404, 405)
    wait_for_all(settings)
    assert listed(client) == before


def test_the_command_line_lists_and_rules(settings: Settings) -> None:
    found = json.loads(hmx(settings, "knowledge", "list", "--kind", "policy", "--json").stdout)["records"]
    (rule,) = [record for record in found if "Friday" in record["text"]]
    away = hmx(settings, "knowledge", "retract", rule["record_id"][-10:], "--reason", "a joke", "--json")
    assert away.exit_code == 0, away.output
    assert json.loads(away.stdout)["record"]["status"] == "withdrawn"
    assert publish(lines("s-3", "Never deploy on a Friday.", at=120_000), settings).complete
    wait_for_all(settings)
    shown = hmx(settings, "knowledge", "list", "--text", "friday")
    assert "Friday" not in shown.stdout
    back = hmx(settings, "knowledge", "confirm", rule["record_id"], "--json")
    assert json.loads(back.stdout)["replaces"] == "retract"
    assert json.loads(back.stdout)["record"]["confidence"] == 1.0
    assert hmx(settings, "knowledge", "retract", "nothing").exit_code == 1
    assert hmx(settings, "knowledge", "list", "--since", "yesterday").exit_code == 2
