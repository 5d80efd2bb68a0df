"""What is erased is in no answer any more, comes back by no refill, and leaves a receipt that anybody can verify."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import redis

from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.receipt import Receipt, is_genuine
from hmx_pipeline.contracts.retention import DAY_MS
from hmx_pipeline.contracts.timestamps import format_ms, milliseconds
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import ARTIFACTS, KNOWLEDGE, PATTERN_STATE, SESSION_STATE
from tests.support.memory import Memory, empty
from tests.support.own_command import hmx
from tests.support.pipeline import Pipeline, new_settings, running
from tests.support.records import START_MS, event
from tests.support.service import is_problem, serving
from tests.support.topics import read
from tests.support.waiting import until

CANARY = "zebrawood"
"""Stands in everything that is erased, and in nothing else."""
Json = dict[str, Any]


def session(name: str, subject: str, *texts: str, at: int = 0) -> list[bytes]:
    """The first event names no subject: it belongs to the session's first all the same."""
    told = []
    for n, text in enumerate(texts):
        one = event(name, n, at=START_MS + at + n, event_type="message", content={"role": "user", "text": text})
        told.append(orjson.dumps(one | {"metadata": {"subject_id": subject} if n else {}}))
    return told


MINE = session(
    "mine",
    "ada",
    f"My {CANARY} desk is in room four.",
    f"The {CANARY} bucket is called nightly-dump.",
    f"Never sell the {CANARY} chair.",
)
OTHERS = session("others", "bob", "The staging cluster is in Frankfurt.", "Never deploy on a Friday.", at=60_000)


@pytest.fixture(scope="module")
def pipeline(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    made = new_settings(kafka, redis_url)
    with running(made, tmp_path_factory.mktemp("logs"), "worker", "materialiser", partitions=2) as started:
        yield started


@pytest.fixture
def settings(pipeline: Pipeline) -> Settings:
    return pipeline.settings


def in_redis(settings: Settings, text: str) -> list[str]:
    """The keys whose name or value holds the text. Redis lists keys in an order that changes."""
    client = redis.Redis.from_url(settings.redis_url)
    found = []
    for key in client.scan_iter(match=f"{settings.topic_prefix}*"):
        value: Any = b""
        match client.type(key):
            case b"string":
                value = client.get(key)
            case b"hash":
                value = client.hgetall(key)
            case b"list":
                value = client.lrange(key, 0, -1)
            case b"zset":
                value = client.zrange(key, 0, -1)
        if text in repr(key).casefold() or text in repr(value).casefold():
            found.append(key.decode(errors="replace"))
    return sorted(found)


def latest_in(settings: Settings, topic: str, text: str) -> list[bytes]:
    """The keys of a compacted topic's records that hold the text, themselves or in their value."""
    last: dict[bytes, bytes | None] = {}
    for messages in read(settings, topic).values():
        last |= {message.key() or b"": message.value() for message in messages}
    return [key for key, value in last.items() if value is not None and text.encode() in (key + value).lower()]


def test_what_is_erased_is_gone_from_memory_state_and_compacted_topics(
    settings: Settings, tmp_path: Path, redis_url: str
) -> None:
    assert publish([*MINE, *OTHERS], settings).complete
    wait_for_all(settings)
    memory = Memory(redis_url, settings.topic_prefix)
    assert in_redis(settings, CANARY)
    assert latest_in(settings, KNOWLEDGE, CANARY)
    kept = in_redis(settings, "frankfurt")

    file = tmp_path / "receipt.json"
    answer = hmx(settings, "erase", "--tenant", "acme", "--subject", "ada", "--receipt", str(file), "--json")
    assert answer.exit_code == 0, answer.output
    receipt: Json = json.loads(answer.stdout)
    assert receipt["gone"]["events"] == len(MINE)
    assert receipt["gone"]["contributions"] > 0
    assert receipt["gone"]["knowledge"] > 0
    assert sorted(receipt["positions"]) == ["hmx.events.v1/0", "hmx.events.v1/1"]
    month = format_ms(milliseconds(receipt["at"]) + 40 * DAY_MS)  # a month, and a segment's week
    assert all(receipt["at"] < at < month for at in receipt["last_copy"].values()), receipt["last_copy"]

    def left() -> list[Any]:
        topics = (KNOWLEDGE, ARTIFACTS, SESSION_STATE, PATTERN_STATE)
        return [key for topic in topics for key in latest_in(settings, topic, CANARY)] + in_redis(settings, CANARY)

    assert left() == []
    assert in_redis(settings, "frankfurt") == kept
    memory.wipe()
    until(lambda: in_redis(settings, "frankfurt"), "Redis is filled again")
    wait_for_all(settings)
    assert left() == []

    assert hmx(settings, "receipt", "verify", str(file)).exit_code == 0
    key = hmx(settings, "receipt", "key").stdout.strip()
    assert hmx(settings, "receipt", "verify", str(file), "--key", key).exit_code == 0
    assert hmx(settings, "receipt", "verify", str(file), "--key", "00" * 32).exit_code == 1
    file.write_bytes(file.read_bytes().replace(b'"subject"', b'"session"'))
    assert hmx(settings, "receipt", "verify", str(file)).exit_code == 1


def test_late_events_of_the_erased_past_stay_out_and_a_new_session_is_kept(settings: Settings) -> None:
    late = session("mine", "ada", *["x"] * 3, f"One more {CANARY} thing.")[3:]
    future = 4_000_000_000_000 - START_MS
    fresh = session("new", "ada", "Hello again.", "The new desk is made of teak.", at=future)
    assert publish([*late, *fresh], settings).complete
    wait_for_all(settings)
    assert not in_redis(settings, CANARY)
    assert in_redis(settings, "teak")
    answer = hmx(settings, "verify", "--json")
    assert answer.exit_code == 0, answer.output


def test_what_cannot_be_erased_is_refused_and_changes_nothing(settings: Settings) -> None:
    for arguments, code in (
        (("--tenant", "acme", "--subject", "nobody"), 1),
        (("--tenant", "acme", "--session", "nothing"), 1),
        (("--tenant", "nobody", "--all"), 1),
        (("--tenant", "acme"), 2),
        (("--tenant", "acme", "--all", "--session", "mine"), 2),
    ):
        assert hmx(settings, "erase", *arguments).exit_code == code


def test_a_session_is_erased_over_http_with_a_receipt(settings: Settings) -> None:
    assert publish(session("brief", "cy", "Hello.", "The parrot is called Polynesia."), settings).complete
    wait_for_all(settings)
    assert in_redis(settings, "polynesia")
    with serving(settings) as client:
        client.headers["X-HMX-Tenant"] = "acme"
        for wrong in (
            {},
            {"subject": "cy", "session": "brief"},
            {"sessions": "brief"},
            {"all": False},
            {"subject": ""},
        ):
            is_problem(client.post("/v1/hmx/erasures", json=wrong), 422, "invalid_request")
        is_problem(client.post("/v1/hmx/erasures", json={"session": "nothing"}), 404, "not_found")
        for path in ("events", "sessions/brief"):
            assert "Polynesia" in client.get(f"/v1/hmx/{path}").text
        answer = client.post("/v1/hmx/erasures", json={"session": "brief"})
        assert answer.status_code == 200, answer.text
        until(lambda: "Polynesia" not in client.get("/v1/hmx/events").text, "the export has heard of the erasure")
        is_problem(client.get("/v1/hmx/sessions/brief"), 404, "not_found")
        export = client.get("/v1/hmx/events").text
        assert CANARY not in export
        assert "Frankfurt" in export
        where = f"/v1/hmx/erasures/{answer.json()['erasure_id']}"
        again = client.get(where, params={"session": "brief"})
        assert again.status_code == 200, again.text
        is_problem(client.get(where, params={"session": "mine"}), 404, "not_found")
        is_problem(client.get(where, params={"subject": "cy"}), 404, "not_found")
        is_problem(client.get(where), 422, "invalid_request")
        assert is_genuine(Receipt.model_validate_json(again.content))
        changing = {"issued_at", "signature"}
        assert {k: v for k, v in again.json().items() if k not in changing} == {
            k: v for k, v in answer.json().items() if k not in changing
        }
    receipt = Receipt.model_validate_json(answer.content)
    assert is_genuine(receipt)
    assert receipt.gone["events"] == 2
    assert not in_redis(settings, "polynesia")


def test_a_correction_goes_with_the_session_that_it_was_made_from_and_with_no_other(settings: Settings) -> None:
    told = session("parrot", "dee", "Hello.", "The parrot is called Polynesia.")
    assert publish([*told, *session("aside", "dee", "Hello.", "The finch is called Archibald.")], settings).complete
    wait_for_all(settings)
    listed = hmx(settings, "knowledge", "list", "--tenant", "acme", "--text", "polynesia", "--json")
    (record,) = json.loads(listed.stdout)["records"]
    corrected = hmx(settings, "knowledge", "correct", record["record_id"], "--tenant", "acme", "--value", "Kraken")
    assert corrected.exit_code == 0, corrected.output
    for erased, left in (("aside", True), ("parrot", False)):
        answer = hmx(settings, "erase", "--tenant", "acme", "--session", erased, "--json")
        assert answer.exit_code == 0, answer.output
        assert bool(in_redis(settings, "kraken")) is left
        assert bool(latest_in(settings, PATTERN_STATE, "kraken")) is left


def test_verify_and_a_replay_honour_what_was_erased_and_ruled(settings: Settings) -> None:
    """What is erased is neither lost nor wrong: it is counted. Rulings stand in a replay as they stand here."""
    listed = hmx(settings, "knowledge", "list", "--tenant", "acme", "--subject", "bob", "--json")
    records = json.loads(listed.stdout)["records"]
    decided = (("retract",), ("correct", "It is in Oslo.", "--value", "Oslo"))
    for (verb, *said), record in zip(decided, records, strict=True):
        ruled = hmx(settings, "knowledge", verb, record["record_id"], "--tenant", "acme", *said)
        assert ruled.exit_code == 0, ruled.output
    wait_for_all(settings)
    answer = hmx(settings, "verify", "--json")
    assert answer.exit_code == 0, answer.output
    told: Json = json.loads(answer.stdout)
    assert told["erased"] == len(MINE) + 2 + 4
    assert told["rejections"] == {"erased": 1}
    answer = hmx(settings, "verify")
    assert f"{told['erased']} events are erased" in answer.output
    answer = hmx(settings, "replay", "--from-start", "--compare")
    assert answer.exit_code == 0, answer.output


def test_an_erasure_waits_for_a_memory_that_was_emptied(settings: Settings) -> None:
    """Only memory tells that the first event is the subject's too."""
    assert publish(session("hasty", "dan", f"The {CANARY} shed is red.", "Hello again."), settings).complete
    wait_for_all(settings)
    empty(settings)
    answer = hmx(settings, "erase", "--tenant", "acme", "--subject", "dan", "--json")
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["gone"]["events"] == 2
    assert not in_redis(settings, CANARY)


def test_a_whole_tenant_is_erased_and_begins_anew(pipeline: Pipeline) -> None:
    settings = pipeline.settings
    answer = hmx(settings, "erase", "--tenant", "acme", "--all", "--json")
    assert answer.exit_code == 0, answer.output
    assert not in_redis(settings, "frankfurt")
    for topic in (KNOWLEDGE, ARTIFACTS, SESSION_STATE, PATTERN_STATE):
        assert not latest_in(settings, topic, "frankfurt")
    future = 4_000_000_000_000 - START_MS
    assert publish(session("again", "dee", "Hello.", "The lamp is made of brass.", at=future), settings).complete
    wait_for_all(settings)
    assert in_redis(settings, "brass")
    assert "damaged" not in pipeline.log("materialiser", 10_000)
