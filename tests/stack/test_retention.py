"""A tenant's retention on real servers: what is too old leaves memory and compacted topics, and stays away."""

import json
import time
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from confluent_kafka import OFFSET_END, TopicPartition

from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.retention import DAY_MS
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.kafka.topic_files import connect
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import ARTIFACTS, EVENTS, KNOWLEDGE, PATTERN_STATE
from tests.stack.test_erase import in_redis, latest_in, session
from tests.support.events import event
from tests.support.memory import Memory
from tests.support.own_command import hmx
from tests.support.pipeline import Pipeline, new_settings, running
from tests.support.records import START_MS
from tests.support.service import is_problem, serving
from tests.support.waiting import until

Json = dict[str, Any]
CANARY = "zebrawood"
NOW = int(time.time() * 1000) - START_MS
OLD = session(
    "old", "ada", f"My {CANARY} desk is in room four.", f"Never sell the {CANARY} chair.", at=NOW - 90 * DAY_MS
)
NEW = session("new", "ada", "The staging cluster is in Frankfurt.", "Never deploy on a Friday.", at=NOW - DAY_MS)


@pytest.fixture(scope="module")
def pipeline(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    made = new_settings(kafka, redis_url)
    with running(made, tmp_path_factory.mktemp("logs"), "worker", "materialiser", partitions=2) as started:
        yield started


def planned(settings: Settings, *policy: str) -> Json:
    answer = hmx(settings, "retention", "plan", "acme", *policy, "--json")
    assert answer.exit_code == 0, answer.output
    found: Json = json.loads(answer.stdout)
    return {(row["policy"], row["kind"]): row["count"] for row in found["leaves"]}


def test_what_a_policy_takes_is_shown_before_and_gone_afterwards(pipeline: Pipeline, redis_url: str) -> None:
    settings = pipeline.settings
    assert hmx(settings, "retention", "plan", "acme").exit_code == 1
    assert publish([*OLD, *NEW], settings).complete
    wait_for_all(settings)
    assert planned(settings, "sessions:2") == {}
    assert planned(settings, "sessions:1")["count", "message"] == len(OLD)
    assert planned(settings, "message:30d") == {("class", "message"): 1}  # the second tells whose the first is
    shown = planned(settings, "all:30d")
    assert shown["age", "message"] == len(OLD)
    assert shown["age", "policy"] > 0
    kept = in_redis(settings, "frankfurt")

    assert hmx(settings, "tenant", "set", "acme", "retention=all:30d,sessions:7").exit_code == 0
    wait_for_all(settings)

    def left() -> list[Any]:
        topics = (KNOWLEDGE, ARTIFACTS, PATTERN_STATE)
        return [key for topic in topics for key in latest_in(settings, topic, CANARY)] + in_redis(settings, CANARY)

    until(lambda: left() == [], "what is too old is gone")
    assert in_redis(settings, "frankfurt") == kept
    assert planned(settings) == {}
    assert hmx(settings, "retention", "apply", "acme").stdout.strip() == "acme: no session is too many"
    Memory(redis_url, settings.topic_prefix).wipe()
    until(lambda: in_redis(settings, "frankfurt"), "Redis is filled again")
    wait_for_all(settings)
    assert left() == []


def test_the_plan_is_there_over_http_and_bad_policies_are_refused(pipeline: Pipeline) -> None:
    with serving(pipeline.settings) as client:
        client.headers["X-HMX-Tenant"] = "acme"
        told = client.get("/v1/hmx/retention", params={"policy": "sessions:1"}).json()
        assert told["policy"] == "sessions:1"
        assert client.get("/v1/hmx/retention").json()["policy"] == "all:30d,sessions:7"
        is_problem(client.get("/v1/hmx/retention", params={"policy": "all:soon"}), 422, "invalid_request")
        client.headers["X-HMX-Tenant"] = "another"
        is_problem(client.get("/v1/hmx/retention"), 404, "not_found")
        assert client.get("/v1/hmx/retention", params={"policy": "all:1d"}).json()["leaves"] == []


def test_more_sessions_than_are_kept_leave_by_an_event_in_the_log(pipeline: Pipeline) -> None:
    settings = pipeline.settings
    later = session("later", "ada", "The lamp is made of brass.", "Hello again.", at=NOW - DAY_MS // 2)
    assert publish(later, settings).complete
    assert hmx(settings, "tenant", "set", "acme", "retention=sessions:1").exit_code == 0
    wait_for_all(settings)
    assert in_redis(settings, "frankfurt")
    applied = hmx(settings, "retention", "apply")
    assert applied.exit_code == 0
    assert applied.stdout.startswith("acme: what was before 20"), "of each tenant that has a policy by count"
    assert applied.stdout.count("\n") == 1
    wait_for_all(settings)
    until(lambda: not in_redis(settings, "frankfurt"), "only the latest session is left")
    assert in_redis(settings, "brass")


def test_what_was_said_before_its_subject_was_named_stays_private_after_a_refill(
    pipeline: Pipeline, redis_url: str
) -> None:
    """Although a policy covers the event that named it."""
    settings, at = pipeline.settings, NOW - 5 * DAY_MS
    said = [orjson.loads(one) for one in session("lockers", "ann", "Hello.", "The locker code is heron.", at=at)]
    named = {**said[1], "event_id": "named", "sequence": 2, "event_type": "tool_result", "content": {"success": True}}
    said[1]["metadata"] = {}
    lines = [orjson.dumps({**one, "tenant_id": "lockers"}) for one in (*said, named)]
    assert publish(lines, settings).complete
    assert hmx(settings, "tenant", "set", "lockers", "retention=tool_result:1d").exit_code == 0
    wait_for_all(settings)
    memory = Memory(redis_url, settings.topic_prefix)
    memory.wipe()
    until(lambda: in_redis(settings, "heron"), "Redis is filled again")
    wait_for_all(settings)
    for subject, seen in (("ann", True), ("bob", False), (None, False)):
        pack = memory.pack("What is the locker code?", tenant="lockers", subject_id=subject)
        assert ("heron" in pack.to_json().decode()) == seen, subject


def test_verify_and_a_replay_honour_what_has_left(pipeline: Pipeline) -> None:
    answer = hmx(pipeline.settings, "verify", "--json")
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["erased"] == len(OLD) + len(NEW)
    answer = hmx(pipeline.settings, "replay", "--from-start", "--compare")
    assert answer.exit_code == 0, answer.output


@pytest.mark.requirement("A-04", "C-03")
def test_a_source_that_a_class_policy_took_is_told_from_one_that_never_was(pipeline: Pipeline) -> None:
    settings = pipeline.settings
    said = event(
        session_id="classed",
        event_id="e-classed",
        tenant_id="classed",
        timestamp=format_ms(START_MS + NOW - 90 * DAY_MS),
        content={"role": "user", "text": "The ledger service runs on Nomad."},
    )
    assert publish([orjson.dumps(said)], settings).complete
    wait_for_all(settings)
    with serving(settings) as client:
        client.headers["X-HMX-Tenant"] = "classed"
        assert client.get("/v1/hmx/events/e-classed").status_code == 200
        assert "forgotten" not in is_problem(client.get("/v1/hmx/events/e-never"), 404, "not_found")
        assert hmx(settings, "tenant", "set", "classed", "retention=message:30d").exit_code == 0
        wait_for_all(settings)
        until(lambda: client.get("/v1/hmx/events/e-classed").status_code == 404, "the message is forgotten")

        def marked() -> bool:
            told = is_problem(client.get("/v1/hmx/events/e-classed"), 404, "not_found")
            return [one.split(" before ")[0] for one in told.get("forgotten", ())] == ["message"]

        until(marked, "the answer says which policy takes events")
        records = client.get("/v1/hmx/knowledge").json()["records"]
        assert [one["source_events"] for one in records if "ledger" in one["text"]] == [["e-classed"]]
        client.headers["X-HMX-Tenant"] = "another"
        assert "forgotten" not in is_problem(client.get("/v1/hmx/events/e-classed"), 404, "not_found")


def test_what_is_set_is_shown_with_when_and_by_whom_and_still_once_the_log_has_lost_it(pipeline: Pipeline) -> None:
    settings = pipeline.settings

    def shown() -> dict[str, tuple[str, bool, bool]]:
        answer = hmx(settings, "tenant", "show", "shown", "--json")
        assert answer.exit_code == 0, answer.output
        rows = json.loads(answer.stdout)
        return {row["setting"]: (row["value"], bool(row["set_at"]), "@" in row["set_by"]) for row in rows}

    unset = {"sharing": ("subjects", False, False), "trusted_agents": ("", False, False)}
    assert shown() == {**unset, "retention": ("", False, False)}
    for given in ("sharing=subjects", "sharing=team", "trusted_agents=ci,deployer", "retention=sessions:9,all:30d"):
        assert hmx(settings, "tenant", "set", "shown", given).exit_code == 0
    wanted = {"sharing": "team", "trusted_agents": "ci,deployer", "retention": "all:30d,sessions:9"}
    assert shown() == {name: (value, True, True) for name, value in wanted.items()}
    assert "all:30d,sessions:9" in hmx(settings, "tenant", "show", "shown").stdout
    wait_for_all(settings)
    admin = connect(settings.require_kafka())
    ends = [TopicPartition(settings.topic_prefix + EVENTS, number, OFFSET_END) for number in range(2)]
    for done in admin.delete_records(ends).values():
        done.result()
    assert shown() == {name: (value, False, False) for name, value in wanted.items()}
