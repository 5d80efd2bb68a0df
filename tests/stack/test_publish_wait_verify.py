"""`hmx publish`, `wait`, `verify` on a real broker with the real worker and materialiser."""

import gzip
import json
import re
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from hmx_pipeline.audit.partition_report import ViolationKind
from hmx_pipeline.audit.pipeline_conservation import verify
from hmx_pipeline.cli.app import main
from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.headers import CE_ID, CE_SOURCE, JSON, REASON, TRACEPARENT, event_headers, header
from hmx_pipeline.contracts.keys import join_key, partition_of, session_key
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.kafka.clients import Cluster, plain_producer, read_partition
from hmx_pipeline.kafka.publisher import RECORD_BYTES, key_of, publish
from hmx_pipeline.kafka.topic_files import load_topics
from hmx_pipeline.kafka.topic_plan import TopicSpec
from hmx_pipeline.runtime.barriers import LackingError, wait_for_reader, wait_for_stages
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.fetch import Store
from hmx_pipeline.topology import EPISODES, EVENTS, EVENTS_DLQ, SESSION_STATE
from tests.support.events import event
from tests.support.own_command import hmx
from tests.support.pipeline import PARTITIONS, Pipeline, create_topics, environment, new_settings, running

CLOSED = "127.0.0.1:1"
TIMEOUT_S = 120.0


@pytest.fixture(scope="module")
def pipeline(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """One worker and one materialiser for the tests that leave it as they found it."""
    settings = new_settings(kafka, redis_url, window_ms=2_000)
    with running(settings, tmp_path_factory.mktemp("logs"), "worker", "materialiser") as started:
        yield started


@pytest.fixture
def topics(kafka: str, redis_url: str) -> Settings:
    """Topics of the test's own that no worker reads."""
    settings = new_settings(kafka, redis_url)
    create_topics(settings)
    return settings


def lines_of(*events: dict[str, Any]) -> list[bytes]:
    return [orjson.dumps(item) for item in events]


def session(count: int, **fields: Any) -> list[bytes]:
    name = uuid.uuid4().hex
    return lines_of(*(event(session_id=name, sequence=n, event_id=f"{name}-{n}", **fields) for n in range(count)))


def records(settings: Settings, topic: str) -> list[Any]:
    cluster, name = Cluster(settings.kafka_bootstrap), settings.topic_prefix + topic
    found = [
        message
        for partition in range(cluster.topic(name).partitions)
        for message in read_partition(cluster.kafka, name, partition, cluster.watermarks(name, partition))
    ]
    cluster.close()
    return found


def events_spec() -> TopicSpec:
    return next(spec for spec in load_topics() if spec.topic == EVENTS)


# publish


@pytest.mark.requirement("E-30")
def test_every_line_is_a_record_as_it_was_written(topics: Settings, tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.ndjson", tmp_path / "b.ndjson.gz"
    valid = orjson.dumps(event())
    large = orjson.dumps(event(content={"text": "x" * MB}))
    plain.write_bytes(b"\n".join([valid, b"", b"  ", b"no JSON \xff", b'{"a": 1}\r', large]))
    packed.write_bytes(gzip.compress(b"packed\n"))
    done = hmx(topics, "publish", "--json", plain, packed, "-", input=b"from standard input\n")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["events"] == 6
    sent = [b"no JSON \xff", b'{"a": 1}\r', b"from standard input", b"packed", large, valid]
    assert sorted(message.value() for message in records(topics, EVENTS)) == sorted(sent)
    written = {message.value(): message.headers() for message in records(topics, EVENTS)}
    assert written[valid] == written[large] == event_headers("tenant", "session", "e-1")
    assert written[b"no JSON \xff"] == [JSON]


@pytest.mark.requirement("Y17")
def test_records_are_keyed_and_placed_by_their_session(topics: Settings) -> None:
    items = [event(tenant_id=f"ten/ant {n}", session_id=f"sitzung-ü{n}") for n in range(20)]
    assert publish(lines_of(*items), topics).complete
    for message in records(topics, EVENTS):
        sent = orjson.loads(message.value())
        key = session_key(sent["tenant_id"], sent["session_id"])
        assert message.key() == key.encode()
        assert message.partition() == partition_of(key, PARTITIONS)


@pytest.mark.parametrize(
    "line",
    [b"", b"no JSON", b"[]", b'{"tenant_id": "t"}', b'{"tenant_id": 1, "session_id": "s"}', b"[" * 100_000, b"\xff"],
)
def test_a_line_whose_session_cannot_be_read_has_no_key(line: bytes) -> None:
    assert key_of(line) is None


def test_a_session_is_read_wherever_it_stands_in_the_line() -> None:
    line = b'{"content": {"tenant_id": "x"}, "session_id": "s/1", "n": [1, {"a": null}], "tenant_id": "t"}'
    assert key_of(line) == join_key("t", "s/1").encode()


def test_what_the_topic_does_not_take_is_counted_and_fails_the_command(topics: Settings) -> None:
    limit = events_spec().config.max_message_bytes
    assert limit > RECORD_BYTES
    fits, too_large = b"x" * RECORD_BYTES, b"x" * (RECORD_BYTES + 1)
    done = hmx(topics, "publish", "--json", "-", input=b"\n".join([fits, too_large, b"after"]))
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert (found["events"], found["too_large"], found["failed"]) == (2, 1, {})
    assert "1 line above the record limit" in done.stderr
    assert len(records(topics, EVENTS)) == 2


def test_without_kafka_or_topics_the_message_says_what_to_do(kafka: str, redis_url: str, tmp_path: Path) -> None:
    file = tmp_path / "a.ndjson"
    file.write_bytes(b"{}\n")
    away, missing = new_settings(CLOSED), new_settings(kafka, redis_url)
    failed = hmx(away, "publish", file)
    assert failed.exit_code == 1
    assert CLOSED in str(failed.exception)
    assert "hmx up" in str(failed.exception)
    for command in (["publish", file], ["wait"], ["verify"]):
        assert "hmx topics apply" in str(hmx(missing, *command).exception)
    assert "is not a file" in hmx(missing, "publish", tmp_path / "none").stderr


# wait


def test_after_wait_all_that_was_published_can_be_read(pipeline: Pipeline) -> None:
    lines = session(5, tenant_id="wait")
    publish([*lines, b"no JSON"], pipeline.settings)
    wait_for_all(pipeline.settings, TIMEOUT_S)
    store = Store.open(pipeline.settings)
    for line in lines:
        assert store.get_event("wait", orjson.loads(line)["event_id"]) is not None
    dead = [m for m in records(pipeline.settings, EVENTS_DLQ) if m.value() == b"no JSON"]
    assert [header(m.headers(), REASON) for m in dead] == [b"not_json"]


def test_wait_says_that_all_is_there_and_what_became_of_it(pipeline: Pipeline) -> None:
    publish([*session(2, tenant_id="told"), b"no JSON"], pipeline.settings)
    shown, as_json = hmx(pipeline.settings, "wait"), hmx(pipeline.settings, "wait", "--json")
    assert (shown.exit_code, as_json.exit_code) == (0, 0)
    assert "everything published is" in shown.stdout
    told = json.loads(as_json.stdout)
    assert told["seconds"] >= 0
    rejected = {row["name"]: row["count"] for row in told["rejections"]}
    assert rejected["not_json"] >= 1
    assert f"{sum(rejected.values())} rejected ({rejected['not_json']} not_json" in shown.stdout
    assert "`hmx dlq`" in shown.stdout


def test_publish_tells_what_became_of_what_it_sent_alone(pipeline: Pipeline) -> None:
    lines = b"\n".join([*session(3, tenant_id="alone"), b"no JSON"])
    first, again = (hmx(pipeline.settings, "publish", "--wait", "-", input=lines) for _ in range(2))
    assert "events: 4 since then: 3 released, 1 rejected (1 not_json)" in first.stdout
    assert "events: 4 since then: 3 duplicate, 1 rejected (1 not_json)" in again.stdout
    assert "`hmx dlq`" in again.stdout


def test_without_a_command_it_says_where_things_stand_and_what_to_do_next(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(settings: Settings) -> str:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["hmx"])
            for name, value in environment(settings).items():
                if name.startswith("HMX_"):
                    patch.setenv(name, value)
            main()
        return capsys.readouterr().out

    publish([*session(2, tenant_id="home"), b"no JSON"], pipeline.settings)
    wait_for_all(pipeline.settings, TIMEOUT_S)
    here = told(pipeline.settings)
    assert "not_json" in here
    assert "up to date" in here
    assert "hmx dlq" in here
    assert "--tenant" in here
    away = told(replace(pipeline.settings, kafka_bootstrap=CLOSED))
    assert CLOSED in away
    assert "hmx status" in away
    nothing = told(replace(pipeline.settings, kafka_bootstrap="", state=tmp_path))
    assert "Nothing runs in this folder" in nothing
    assert "hmx up" in nothing


def test_wait_outlasts_the_window_of_what_stands_behind_a_gap(pipeline: Pipeline) -> None:
    behind = session(3, tenant_id="gap")[2]
    publish([behind], pipeline.settings)
    wait_for_all(pipeline.settings, TIMEOUT_S)
    assert Store.open(pipeline.settings).get_event("gap", orjson.loads(behind)["event_id"]) is not None


def test_a_trace_passes_to_episodes_and_no_two_outputs_have_the_same_name(pipeline: Pipeline) -> None:
    trace = b"00-%s-b7ad6b7169203331-01" % uuid.uuid4().hex.encode()
    lines = session(3, tenant_id="traced")
    producer = plain_producer(pipeline.settings.kafka_bootstrap)
    for line in lines:
        headers: Any = [("mine", b"1"), (TRACEPARENT, trace)]
        producer.produce(pipeline.settings.topic_prefix + EVENTS, line, key_of(line), headers=headers)
    assert producer.flush(20) == 0
    publish([b"no JSON"], pipeline.settings)
    wait_for_stages(pipeline.settings, TIMEOUT_S)
    episodes = records(pipeline.settings, EPISODES)
    assert [header(m.headers(), TRACEPARENT) for m in episodes].count(trace) == len(lines)
    written = [m.headers() for m in [*episodes, *records(pipeline.settings, EVENTS_DLQ)]]
    names = [(header(said, CE_SOURCE), header(said, CE_ID)) for said in written]
    assert all(source and own for source, own in names)
    assert len(set(names)) == len(names)


def test_wait_says_which_stage_is_lacking_where(topics: Settings) -> None:
    with pytest.raises(LackingError, match=r"waiting for sessions: hmx.events.v1 partitions 0, 1"):
        wait_for_stages(topics, timeout=0.5)
    failed = hmx(topics, "wait", "--timeout", "0.5")
    assert failed.exit_code == 1
    assert "waiting for sessions" in failed.stderr
    assert "hmx status" in " ".join(failed.stderr.split())


def test_wait_says_that_redis_is_lacking(pipeline: Pipeline) -> None:
    pipeline.pause("materialiser")
    try:
        publish(session(2), pipeline.settings)
        ends = wait_for_stages(pipeline.settings, TIMEOUT_S)
        positions = Store.open(pipeline.settings).positions
        with pytest.raises(LackingError, match="Redis has not read"):
            wait_for_reader(ends, positions, timeout=0.3)
    finally:
        pipeline.resume("materialiser")
    wait_for_reader(ends, positions, TIMEOUT_S)


# verify


@pytest.mark.slow
def test_what_went_through_the_pipeline_is_conserved(pipeline: Pipeline) -> None:
    before = verify(pipeline.settings).outcomes
    lines = session(4)
    late = session(3, tenant_id="late")
    publish([*lines, lines[0], late[0], late[2], b"", b"no JSON", b"null"], pipeline.settings)
    wait_for_stages(pipeline.settings, TIMEOUT_S)
    publish([late[1]], pipeline.settings)
    wait_for_stages(pipeline.settings, TIMEOUT_S)
    report = verify(pipeline.settings)
    assert report.violations == []
    assert report.conserved
    found = report.outcomes - before
    assert {name: found[name] for name in (Outcome.RELEASED, Outcome.RELEASED_LATE)} == {
        "released": 6,
        "released_late": 1,
    }
    assert {name: found[name] for name in (Outcome.DUPLICATE, Outcome.REJECTED)} == {"duplicate": 1, "rejected": 2}
    shown, as_json = hmx(pipeline.settings, "verify"), hmx(pipeline.settings, "verify", "--json")
    assert (shown.exit_code, as_json.exit_code) == (0, 0)
    assert "conserved" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert re.search(r"^partition +released +late +duplicate +rejected .*pending$", shown.stdout, re.MULTILINE)
    assert json.loads(as_json.stdout)["conserved"] is True


def test_verify_names_what_is_planted_into_the_topics(kafka: str, tmp_path: Path) -> None:
    settings = new_settings(kafka)
    with running(settings, tmp_path, "worker"):
        publish([*session(3), b"no JSON"], settings)
        wait_for_stages(settings, TIMEOUT_S)
    again = records(settings, EPISODES)[0]
    letter = records(settings, EVENTS_DLQ)[0]
    producer = plain_producer(kafka)

    def plant(topic: str, message: Any, headers: list[tuple[str, bytes]]) -> None:
        name = settings.topic_prefix + topic
        producer.produce(name, message.value(), message.key(), message.partition(), headers=headers)

    plant(EPISODES, again, again.headers())
    plant(EPISODES, again, [])
    plant(EVENTS_DLQ, letter, letter.headers())
    assert producer.flush(20) == 0
    report = verify(settings)
    assert dict(report.faults) == {ViolationKind.DOUBLED: 2, ViolationKind.NAMELESS: 1}
    shown = hmx(settings, "verify")
    assert shown.exit_code == 1
    for word in (ViolationKind.DOUBLED, ViolationKind.NAMELESS, "not conserved"):
        assert word in shown.stdout


def test_an_event_is_found_by_its_id_with_all_that_became_of_it(kafka: str, tmp_path: Path) -> None:
    settings, lines = new_settings(kafka), session(2)
    with running(settings, tmp_path, "worker"):
        wrong = {**orjson.loads(lines[1]), "sequence": -1, "event_id": 'a/b "é"'}
        publish([*lines, lines[1], json.dumps(wrong).encode(), b"no JSON"], settings)
        wait_for_stages(settings, TIMEOUT_S)
    told = orjson.loads(lines[1])["event_id"]
    found = json.loads(hmx(settings, "verify", "--event", told, "--json").stdout)
    assert [each["outcome"] for each in found["records"]] == [Outcome.RELEASED, Outcome.DUPLICATE]
    shown = hmx(settings, "verify", "--event", wrong["event_id"])
    assert (shown.exit_code, "bad_sequence" in shown.stdout) == (0, True)
    absent = hmx(settings, "verify", "--event", "nosuch")
    assert absent.exit_code == 1
    assert "the log has no event nosuch" in absent.stderr
    assert hmx(settings, "verify", "--event", "x", "--offset", "0:0").exit_code == 2


def test_what_no_worker_has_read_is_pending(topics: Settings) -> None:
    publish(session(3), topics)
    report = verify(topics)
    assert (report.conserved, sum(part.pending for part in report.partitions)) == (True, 3)
    assert records(topics, SESSION_STATE) == []
