"""Topics as code against a real broker: what is applied is what is there, and what must not happen does not."""

import json
import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from click.testing import Result
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from typer.testing import CliRunner

from hmx_pipeline.cli.topics import group as app
from hmx_pipeline.kafka.topic_files import (
    PlanRefusedError,
    UnfitTopicError,
    apply,
    check_events_topic,
    connect,
    load_topics,
    read_cluster,
)
from hmx_pipeline.kafka.topic_plan import PlanVerdict, TopicPlan, TopicSpec, plan
from hmx_pipeline.topology import EPISODES, EVENTS

CLOSED = "127.0.0.1:1"


@pytest.fixture
def prefix() -> str:
    """A name space of the test's own on the shared broker."""
    return f"t{uuid.uuid4().hex[:8]}."


@pytest.fixture
def admin(kafka: str) -> AdminClient:
    return connect(kafka)


@pytest.fixture
def hmx(kafka: str, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`hmx topics …` on the test's own name space, in a terminal of 80 columns."""
    monkeypatch.setenv("HMX_KAFKA_BOOTSTRAP", kafka)
    monkeypatch.setenv("HMX_TOPIC_PREFIX", prefix)
    monkeypatch.setenv("COLUMNS", "80")
    return lambda *arguments, **options: CliRunner().invoke(app, arguments, **options)


def difference(admin: AdminClient, specs: Sequence[TopicSpec]) -> TopicPlan:
    return plan(specs, read_cluster(admin, [spec.topic for spec in specs]))


def edited(spec: TopicSpec, **config: Any) -> TopicSpec:
    return spec.model_copy(update={"config": spec.config.model_copy(update=config)})


def write_one_record(kafka: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": kafka, "log_level": 2})
    producer.produce(topic, b"value", b"key")
    assert producer.flush(20) == 0


def test_after_apply_the_cluster_is_as_the_files_want_it(admin: AdminClient, prefix: str) -> None:
    specs = load_topics(prefix=prefix)
    first = difference(admin, specs)
    assert {item.topic for item in first.creations} == {spec.topic for spec in specs}
    apply(admin, first)
    assert difference(admin, specs) == TopicPlan()
    brokers = read_cluster(admin, []).brokers
    for spec in specs:
        found = read_cluster(admin, [spec.topic]).topics[spec.topic]
        assert found.partitions == spec.partitions
        assert found.replicas == min(3, brokers)
        assert spec.config.entries().items() <= found.config.items()
        assert found.empty


def test_every_partition_answers_the_moment_apply_returns(admin: AdminClient, prefix: str) -> None:
    specs = load_topics(prefix=prefix)
    apply(admin, difference(admin, specs))
    asked = {TopicPartition(spec.topic, n): OffsetSpec.latest() for spec in specs for n in range(spec.partitions)}
    ends = {partition: end.result().offset for partition, end in admin.list_offsets(asked).items()}
    assert ends == dict.fromkeys(asked, 0)


def test_changed_settings_are_changed_and_forgotten_ones_go_back_to_the_default(
    admin: AdminClient, prefix: str
) -> None:
    (spec,) = [spec for spec in load_topics(prefix=prefix) if spec.topic == prefix + EPISODES]
    spec = spec.model_copy(update={"partitions_as": None})
    apply(admin, difference(admin, [edited(spec, retention_ms=1000, segment_ms=77_000)]))
    changes = {(item.setting, item.old, item.new) for item in difference(admin, [spec]).changes}
    assert changes == {("retention.ms", "1000", str(spec.config.retention_ms)), ("segment.ms", "77000", None)}
    apply(admin, difference(admin, [spec]))
    assert difference(admin, [spec]) == TopicPlan()
    assert "segment.ms" not in read_cluster(admin, [spec.topic]).topics[spec.topic].overridden


def test_a_topic_without_keys_grows(admin: AdminClient, prefix: str) -> None:
    (spec,) = [spec for spec in load_topics(prefix=prefix) if spec.topic == prefix + EVENTS]
    loose = spec.model_copy(update={"keyed": False, "partitions": 2})
    apply(admin, difference(admin, [loose]))
    apply(admin, difference(admin, [loose.model_copy(update={"partitions": 5})]))
    assert read_cluster(admin, [spec.topic]).topics[spec.topic].partitions == 5


def test_a_refused_plan_applies_nothing(admin: AdminClient, kafka: str, prefix: str) -> None:
    specs = load_topics(prefix=prefix)
    events = next(spec for spec in specs if spec.topic == prefix + EVENTS)
    apply(admin, difference(admin, [edited(events, message_timestamp_type="CreateTime")]))
    write_one_record(kafka, events.topic)
    found = difference(admin, specs)
    assert found.creations
    assert [refusal.change.setting for refusal in found.refusals] == ["message.timestamp.type"]
    with pytest.raises(PlanRefusedError):
        apply(admin, found)
    assert set(read_cluster(admin, [spec.topic for spec in specs]).topics) == {events.topic}


def test_a_topic_that_never_held_a_record_is_set_right(admin: AdminClient, prefix: str) -> None:
    (spec,) = [spec for spec in load_topics(prefix=prefix) if spec.topic == prefix + EVENTS]
    apply(admin, difference(admin, [edited(spec, message_timestamp_type="CreateTime", cleanup_policy="compact")]))
    assert difference(admin, [spec]).verdict is PlanVerdict.PENDING
    apply(admin, difference(admin, [spec]))
    assert difference(admin, [spec]) == TopicPlan()


def test_a_stage_s_source_must_exist_and_carry_the_append_time(admin: AdminClient, prefix: str) -> None:
    with pytest.raises(UnfitTopicError, match=rf"{prefix}{EVENTS} does not exist.*hmx topics apply"):
        check_events_topic(admin, prefix)
    specs = load_topics(prefix=prefix)
    apply(admin, difference(admin, specs))
    check_events_topic(admin, prefix)
    for spec in specs:
        if spec.dlq:
            wrong = edited(spec, message_timestamp_type="CreateTime")
            apply(admin, difference(admin, [wrong]))
            with pytest.raises(UnfitTopicError, match=f"{spec.topic} has message.timestamp.type=CreateTime"):
                check_events_topic(admin, prefix)
            apply(admin, difference(admin, [spec]))


def test_the_command_shows_asks_applies_and_then_finds_no_difference(hmx: Any, prefix: str) -> None:
    pending = hmx("plan")
    assert pending.exit_code == 2
    fits(pending)
    assert prefix + EVENTS in pending.stdout
    declined = hmx("apply", input="n\n")
    assert declined.exit_code == 1
    assert hmx("plan").exit_code == 2
    accepted = hmx("apply", input="y\n")
    assert accepted.exit_code == 0
    assert prefix + EVENTS in accepted.stdout
    clean = hmx("plan")
    assert (clean.exit_code, "no difference" in clean.stdout) == (0, True)
    assert hmx("apply").exit_code == 0


def test_the_command_refuses_and_says_why(hmx: Any, admin: AdminClient, prefix: str) -> None:
    future = admin.create_topics([NewTopic(prefix + EVENTS, num_partitions=3, replication_factor=1)])
    future[prefix + EVENTS].result()
    for arguments in (["plan"], ["apply", "--yes"]):
        refused = hmx(*arguments)
        assert refused.exit_code == 1
        fits(refused)
        assert "hmx topics grow" in " ".join(refused.stdout.split())
    found = json.loads(hmx("plan", "--json").stdout)
    assert found["verdict"] == "refused"
    assert [item["change"]["setting"] for item in found["refusals"]] == ["partitions"]


def test_json_is_all_that_json_output_holds(hmx: Any) -> None:
    planned, applied = hmx("plan", "--json"), hmx("apply", "--yes", "--json")
    assert (planned.exit_code, applied.exit_code) == (2, 0)
    assert json.loads(planned.stdout) == json.loads(applied.stdout)
    assert json.loads(hmx("plan", "--json").stdout)["verdict"] == "clean"
    asked = hmx("apply", "--json", input="n\n")
    assert json.loads(asked.stdout)["verdict"] == "clean"


def test_the_command_says_what_to_do_when_kafka_is_unreachable(hmx: Any) -> None:
    failed = hmx("apply", "--yes", "--bootstrap", CLOSED)
    assert failed.exit_code == 1
    assert f"does not answer at {CLOSED}: start one with `hmx up`" in str(failed.exception)
    assert not failed.stdout


def fits(result: Result) -> None:
    assert max(map(len, result.stdout.splitlines())) <= 80
