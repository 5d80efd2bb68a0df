"""Old episodes leave Redis by the policy `hot`, and not the archive: they are found there by id and as of their time,
a refill leaves them there, and an erasure takes them from there."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.headers import ORIGIN_OFFSET
from hmx_pipeline.contracts.retention import DAY_MS
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.settings import Settings
from tests.stack.test_archive import archived, delete_heads, is_archived, remembered
from tests.stack.test_erase import in_redis, session
from tests.support.memory import Memory
from tests.support.own_command import hmx
from tests.support.pipeline import Pipeline, new_settings, running
from tests.support.records import START_MS
from tests.support.service import is_problem, serving
from tests.support.waiting import until
from tests.verifier.check import check

Json = dict[str, Any]
NOW = int(time.time() * 1000) - START_MS
ADA = session(
    "ada-old",
    "ada",
    "Good day.",
    "My zebrawood desk is in room four.",
    "The zebrawood lamp is in room five.",
    at=NOW - 90 * DAY_MS,
)
BOB = session("bob-old", "bob", "Hello there.", "The ebony piano was sold to Vienna.", at=NOW - 80 * DAY_MS)
NEW = session("new", "bob", "The staging cluster is in Frankfurt.", "Never deploy on a Friday.", at=NOW - DAY_MS)
PAST = format_ms(START_MS + NOW - 60 * DAY_MS)
ASKED = (("Where is the zebrawood desk?", "ada"), ("Who bought the ebony piano?", "bob"), ("the zebrawood lamp", "bob"))


@pytest.fixture(scope="module")
def pipeline(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    pytest.importorskip("pyarrow", reason="the extra `archive` is not installed")
    made = new_settings(kafka, redis_url, archive=str(tmp_path_factory.mktemp("archive")), archive_s=1)
    with running(made, tmp_path_factory.mktemp("logs"), "worker", "materialiser", partitions=2) as started:
        assert publish([*ADA, *BOB, *NEW], made).complete
        wait_for_all(made)
        yield started


@pytest.fixture
def settings(pipeline: Pipeline) -> Settings:
    return pipeline.settings


@pytest.fixture
def client(settings: Settings) -> Iterator[httpx.Client]:
    with serving(settings) as made:
        made.headers["X-HMX-Tenant"] = "acme"
        yield made


def event_ids(lines: list[bytes]) -> list[str]:
    return [orjson.loads(line)["event_id"] for line in lines]


def read(client: httpx.Client) -> list[tuple[int, Json, str | None]]:
    """Every event, each as its owner sees it, and as somebody else does."""
    found = []
    for lines, who in ((ADA, "ada"), (BOB, "bob"), (NEW, "bob")):
        for event_id in event_ids(lines):
            for subject in (who, "carol"):
                path = f"/v1/hmx/events/{event_id}"
                answer = client.get(path, params={"subject": subject, "session": orjson.loads(lines[0])["session_id"]})
                told = answer.json() if answer.status_code == 200 else {}
                found.append((answer.status_code, told, answer.headers.get(ORIGIN_OFFSET)))
    return found


def past_packs(client: httpx.Client) -> list[Json]:
    asked = [{"query": query, "subject_id": who, "as_of": PAST, "fill": "budget"} for query, who in ASKED]
    answers = [client.post("/v1/hmx/context-packs", json=one).json() for one in asked]
    return [{name: pack[name] for name in ("entries", "pack_id")} for pack in answers]


def test_without_an_archive_the_policy_is_refused_and_says_what_to_set(settings: Settings) -> None:
    answer = hmx(replace(settings, archive=""), "tenant", "set", "acme", "retention=hot:30d")
    assert answer.exit_code == 2
    assert "HMX_ARCHIVE" in answer.output


def test_old_episodes_leave_redis_and_are_served_as_before(
    settings: Settings, client: httpx.Client, redis_url: str
) -> None:
    until(lambda: is_archived(settings), "all is archived")
    served, packs = read(client), past_packs(client)
    knowledge = client.get("/v1/hmx/knowledge").json()
    assert [one[0] for one in served] == [200, 404] * len([*ADA, *BOB, *NEW])
    assert ["zebrawood" in json.dumps(pack) for pack in packs] == [True, False, False]
    assert "Vienna" in json.dumps(packs[1])
    shown = hmx(settings, "retention", "plan", "acme", "hot:30d", "--json")
    rows = {(row["policy"], row["kind"]): row["count"] for row in json.loads(shown.stdout)["leaves"]}
    assert rows == {("cold", "message"): len(ADA) + len(BOB)}

    assert hmx(settings, "tenant", "set", "acme", "retention=hot:30d").exit_code == 0
    wait_for_all(settings)
    memory = Memory(redis_url, settings.topic_prefix)

    def hot() -> list[str]:
        return [
            one for one in event_ids([*ADA, *BOB, *NEW]) if memory.client.exists(memory.keys.tenant("acme").event(one))
        ]

    until(lambda: hot() == event_ids(NEW), "what is old has left Redis")
    assert not any(":term:" in key for key in in_redis(settings, "vienna"))
    report = check(settings.kafka_bootstrap, settings.topic_prefix, settings.redis_url, settings.control_key)
    assert not report.faults, "Redis is what its topics and the policy make it"
    assert read(client) == served
    assert past_packs(client) == packs
    assert client.get("/v1/hmx/knowledge").json() == knowledge, "what was learnt stays"
    wrong = {"query": "the ebony piano", "subject_id": "bob"}
    told = client.post("/v1/hmx/context-packs", json=wrong).json()["metadata"]["cold"]
    assert told["searched"] is False
    assert told["because"]
    told = client.post("/v1/hmx/context-packs", json=wrong | {"as_of": PAST}).json()["metadata"]["cold"]
    assert (told["searched"], told.get("because")) == (True, None)


def test_a_refill_leaves_them_where_they_are(settings: Settings, client: httpx.Client, redis_url: str) -> None:
    memory = Memory(redis_url, settings.topic_prefix)
    before, served, packs = remembered(memory), read(client), past_packs(client)
    delete_heads(settings)
    memory.wipe()
    until(lambda: memory.store.completeness().complete, "Redis is filled again")
    assert remembered(memory) == before
    assert read(client) == served
    assert past_packs(client) == packs


def test_what_is_old_when_it_comes_is_found_once_it_is_archived(settings: Settings, client: httpx.Client) -> None:
    late = session("late", "bob", "Hello.", "The walnut shelf was sold to Prague.", at=NOW - 70 * DAY_MS)
    assert publish(late, settings).complete
    wait_for_all(settings)
    until(lambda: is_archived(settings), "it is archived")
    path = f"/v1/hmx/events/{event_ids(late)[1]}"
    assert "Prague" in client.get(path).text
    today = time.strftime("%Y-%m-%d", time.gmtime())
    assert "Prague" in client.get(path, params={"day": today}).text
    is_problem(client.get(path, params={"day": "2020-01-01"}), 404, "not_found")
    assert not [key for key in in_redis(settings, "walnut") if ":event:" in key or ":documents" in key]


def test_an_archive_that_cannot_be_read_is_told(settings: Settings, tmp_path: Path) -> None:
    with serving(replace(settings, archive="")) as client:
        client.headers["X-HMX-Tenant"] = "acme"
        is_problem(client.get(f"/v1/hmx/events/{event_ids(ADA)[0]}"), 503, "archive_unavailable")
        asked = {"query": ASKED[0][0], "subject_id": "ada", "as_of": PAST}
        told = client.post("/v1/hmx/context-packs", json=asked).json()["metadata"]["cold"]
        assert told["searched"] is False
        assert "HMX_ARCHIVE" in told["because"]
    elsewhere = replace(settings, archive=str(tmp_path))
    with serving(elsewhere) as client:
        client.headers["X-HMX-Tenant"] = "acme"
        told = client.post("/v1/hmx/context-packs", json=asked).json()["metadata"]["cold"]
        assert told["searched"] is False, "it finds nothing there, and does not say that there is nothing"
    for lacking in (replace(settings, archive=""), elsewhere):
        refused = hmx(lacking, "erase", "--tenant", "acme", "--subject", "ada")
        assert refused.exit_code == 1
        assert "HMX_ARCHIVE" in refused.output


def test_verify_and_a_replay_miss_nothing(settings: Settings) -> None:
    answer = hmx(settings, "verify", "--json")
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["erased"] == 0


@pytest.mark.requirement("Y23")
def test_an_erasure_takes_cold_episodes_from_the_archive(
    settings: Settings, client: httpx.Client, redis_url: str
) -> None:
    answer = hmx(settings, "erase", "--tenant", "acme", "--subject", "ada", "--json")
    assert answer.exit_code == 0, answer.output
    receipt: Json = json.loads(answer.stdout)
    assert receipt["gone"]["events"] == len(ADA), "the first names nobody, and is hers all the same"
    for event_id in event_ids(ADA):
        until(lambda one=event_id: client.get(f"/v1/hmx/events/{one}").status_code == 404, "nobody is served it")
    assert "zebrawood" not in json.dumps(past_packs(client))
    until(lambda: not any("zebrawood" in row[3] for row in archived(settings)), "the archive is without it")
    assert any("Vienna" in row[3] for row in archived(settings))
    memory = Memory(redis_url, settings.topic_prefix)
    wait_for_all(settings)
    memory.client.delete(memory.keys.tenant("acme").erasing(receipt["erasure_id"]))  # the service's own, of no topic
    before = remembered(memory)
    delete_heads(settings)
    memory.wipe()
    until(lambda: memory.store.completeness().complete, "Redis is filled again")
    assert remembered(memory) == before
    assert in_redis(settings, "zebrawood") == []
    assert "Vienna" in json.dumps(past_packs(client))
    assert hmx(settings, "verify").exit_code == 0
