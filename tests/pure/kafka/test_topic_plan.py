"""The plan: what is created and changed, and each difference that is refused."""

from collections.abc import Sequence
from typing import Any

import pytest

from hmx_pipeline.kafka.topic_plan import (
    ClusterState,
    PlanVerdict,
    SettingChange,
    TopicPlan,
    TopicSpec,
    TopicState,
    plan,
    sized,
)
from hmx_pipeline.topology import EVENTS, EVENTS_DLQ

CONFIG: dict[str, Any] = {
    "cleanup.policy": "delete",
    "retention.ms": 1000,
    "retention.bytes": -1,
    "compression.type": "producer",
    "max.message.bytes": 2097152,
    "message.timestamp.type": "LogAppendTime",
}
COMPACT = {"cleanup.policy": "compact"}
CREATE_TIME = {"message.timestamp.type": "CreateTime"}
NAME = "hmx.things.v1"


def spec(config: dict[str, Any] | None = None, **changed: Any) -> TopicSpec:
    fields = {
        "topic": NAME,
        "description": "things",
        "key": "thing",
        "value": {"schema": "thing", "version": "v1", "compatibility": "backward"},
        "producers": ["a"],
        "consumers": ["b"],
        "partitions": 8,
        "keyed": True,
        "config": CONFIG | (config or {}),
    }
    return TopicSpec.model_validate(fields | changed)


def state(
    config: dict[str, Any] | None = None, partitions: int = 8, replicas: int = 3, empty: bool = False
) -> TopicState:
    on_topic = {"min.insync.replicas": "2" if replicas >= 3 else "1"} | CONFIG | (config or {})
    effective = {"segment.ms": "604800000"} | {name: str(value) for name, value in on_topic.items()}
    return TopicState(partitions, replicas, effective, frozenset(on_topic), empty)


def planned(wanted: Sequence[TopicSpec], cluster: ClusterState, partitions: int = 0) -> TopicPlan:
    return plan(sized(wanted, cluster, partitions), cluster)


def compared(wanted: TopicSpec, found: TopicState, **options: Any) -> TopicPlan:
    return plan([wanted], ClusterState(3, {NAME: found}), **options)


def test_a_topic_that_is_as_its_file_wants_needs_nothing() -> None:
    found = compared(spec(), state())
    assert found == TopicPlan()
    assert found.verdict is PlanVerdict.CLEAN


@pytest.mark.parametrize(("brokers", "replicas", "insync"), [(1, 1, "1"), (2, 2, "1"), (3, 3, "2"), (5, 3, "2")])
def test_replicas_follow_from_the_size_of_the_cluster(brokers: int, replicas: int, insync: str) -> None:
    found = plan([spec()], ClusterState(brokers, {}))
    assert found.verdict is PlanVerdict.PENDING
    (creation,) = found.creations
    assert (creation.topic, creation.partitions, creation.replicas) == (NAME, 8, replicas)
    assert creation.config == {name: str(value) for name, value in CONFIG.items()} | {"min.insync.replicas": insync}


def test_a_topic_with_one_replica_stays_writable_when_the_cluster_has_grown() -> None:
    found = compared(spec(), state(replicas=1))
    assert found.changes == ()
    assert [(note.topic, note.text) for note in found.notes] == [(NAME, "has 1 of 3 replicas: reassign it")]
    assert found.verdict is PlanVerdict.CLEAN


def test_harmless_differences_are_changes_from_old_to_new() -> None:
    found = compared(spec(), state({"max.message.bytes": 1048588, "retention.ms": 500}))
    assert set(found.changes) == {
        SettingChange(NAME, "max.message.bytes", "1048588", "2097152"),
        SettingChange(NAME, "retention.ms", "500", "1000"),
    }
    assert found.verdict is PlanVerdict.PENDING
    assert found.topics == {NAME}


def test_an_owned_setting_that_the_file_does_not_name_goes_back_to_the_default() -> None:
    assert compared(spec(), state({"segment.ms": 5})).changes == (SettingChange(NAME, "segment.ms", "5", None),)


def test_a_setting_that_files_do_not_own_is_left_alone() -> None:
    assert compared(spec(), state({"follower.replication.throttled.replicas": "*"})) == TopicPlan()


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("found", [4, 16])
@pytest.mark.parametrize("pinned", [{"keyed": True}, {"keyed": False, "partitions_as": "hmx.others.v1"}])
def test_the_partitions_of_a_keyed_topic_are_never_changed(pinned: dict[str, Any], found: int, empty: bool) -> None:
    refused(compared(spec(**pinned), state(partitions=found, empty=empty)), "partitions", "hmx topics grow")


@pytest.mark.parametrize("prefix", ["", "g2."])
def test_where_the_log_has_grown_all_topics_have_its_multiple(prefix: str) -> None:
    names = [prefix + name for name in (EVENTS, EVENTS_DLQ, NAME)]
    wanted = [spec(topic=name, partitions_as=None) for name in names]

    def found(*partitions: int) -> TopicPlan:
        there = zip(names, partitions, strict=False)
        return planned(wanted, ClusterState(3, {name: state(partitions=count) for name, count in there}))

    assert found(24, 24, 24).verdict is PlanVerdict.CLEAN
    assert [(new.topic, new.partitions) for new in found(24, 24).creations] == [(prefix + NAME, 24)]
    refused(found(24, 24, 8), "partitions", "hmx topics grow")
    assert found(12, 8, 8).verdict is PlanVerdict.REFUSED


def test_the_log_of_a_small_stack_has_fewer_partitions_and_so_have_all_topics_ever_after() -> None:
    wanted = [spec(topic=name, partitions_as=None) for name in (EVENTS, EVENTS_DLQ, NAME)]

    def found(*there: int, partitions: int = 0) -> TopicPlan:
        topics = {one.topic: state(partitions=count) for one, count in zip(wanted, there, strict=False)}
        return planned(wanted, ClusterState(1, topics), partitions)

    assert {new.partitions for new in found(partitions=2).creations} == {2}
    assert {new.partitions for new in found(2, partitions=2).creations} == {2}
    assert {new.partitions for new in found(2, 2).creations} == {2}
    assert found(2, 2, 2, partitions=4).verdict is PlanVerdict.CLEAN
    assert {new.partitions for new in found(8, 8, partitions=2).creations} == {8}
    refused(found(2, 8, 2), "partitions", "hmx topics grow")


@pytest.mark.parametrize("others", [[], [NAME]])
def test_topics_that_a_broker_has_made_by_itself_are_refused(others: list[str]) -> None:
    """One that a producer wrote to, and perhaps one that a reader asked for: neither has a setting of its file."""
    wanted = [spec(topic=name, partitions_as=None) for name in (EVENTS, EVENTS_DLQ, NAME)]
    made = TopicState(1, 1, state(replicas=1).config, frozenset(), empty=False)
    found = planned(wanted, ClusterState(1, dict.fromkeys([EVENTS, *others], made)))
    assert {(one.change.topic, one.change.setting) for one in found.refusals} == {
        (name, "partitions") for name in (EVENTS, *others)
    }


def test_what_has_grown_from_a_small_stack_is_as_its_files_want() -> None:
    """`hmx topics grow` takes any multiple of the two that there are."""
    wanted = [spec(topic=name, partitions_as=None) for name in (EVENTS, EVENTS_DLQ)]
    for count in (4, 6, 8, 12, 16):
        found = planned(wanted, ClusterState(1, {one.topic: state(partitions=count, replicas=1) for one in wanted}))
        assert found.verdict is PlanVerdict.CLEAN, count


def test_a_number_of_partitions_that_a_new_log_cannot_have_is_not_passed_over() -> None:
    wanted = [spec(topic=name, partitions_as=None) for name in (EVENTS, EVENTS_DLQ)]
    found = planned(wanted, ClusterState(1, {}), 3)
    assert found.verdict is PlanVerdict.REFUSED or {new.partitions for new in found.creations} == {3}


def test_a_topic_without_keys_may_grow_but_not_shrink() -> None:
    grown = compared(spec(keyed=False), state(partitions=4))
    assert grown.changes == (SettingChange(NAME, "partitions", "4", "8"),)
    refused(compared(spec(keyed=False), state(partitions=16)), "partitions", "cannot remove partitions")


@pytest.mark.parametrize(
    ("wanted", "found"), [(COMPACT, {}), ({}, COMPACT), ({}, {"cleanup.policy": "compact,delete"})]
)
def test_compaction_is_not_switched_where_records_are(wanted: dict[str, Any], found: dict[str, Any]) -> None:
    refused(compared(spec(wanted), state(found)), "cleanup.policy", "new topic version")
    assert compared(spec(wanted), state(found, empty=True)).verdict is PlanVerdict.PENDING


@pytest.mark.parametrize(("wanted", "found"), [(CREATE_TIME, {}), ({}, CREATE_TIME)])
def test_the_clock_is_not_switched_where_records_are(wanted: dict[str, Any], found: dict[str, Any]) -> None:
    refused(compared(spec(wanted), state(found)), "message.timestamp.type", "the other timestamp")
    assert compared(spec(wanted), state(found, empty=True)).verdict is PlanVerdict.PENDING


@pytest.mark.parametrize("setting", ["retention.ms", "retention.bytes"])
@pytest.mark.parametrize(("old", "new"), [(2000, 1000), (-1, 1000)])
def test_retention_gets_shorter_only_if_that_is_said(setting: str, old: int, new: int) -> None:
    wanted, found = spec({setting: new}), state({setting: old})
    refused(compared(wanted, found), setting, "--allow-shrink")
    assert compared(wanted, found, allow_shrink=True).changes == (SettingChange(NAME, setting, str(old), str(new)),)
    assert compared(wanted, state({setting: old}, empty=True)).verdict is PlanVerdict.PENDING


@pytest.mark.parametrize("setting", ["retention.ms", "retention.bytes"])
@pytest.mark.parametrize(("old", "new"), [(1000, 2000), (1000, -1)])
def test_retention_may_get_longer(setting: str, old: int, new: int) -> None:
    assert compared(spec({setting: new}), state({setting: old})).verdict is PlanVerdict.PENDING


def test_one_refusal_makes_the_verdict_whatever_else_is_pending() -> None:
    found = plan([spec(), spec(topic="hmx.new.v1")], ClusterState(1, {NAME: state(partitions=4, replicas=1)}))
    assert found.creations
    assert found.verdict is PlanVerdict.REFUSED


def test_a_topic_of_ours_without_a_file_is_named_and_stays() -> None:
    others = frozenset({"hmx.old.v1", "t.hmx.events.v1", "theirs"})
    found = plan([spec()], ClusterState(3, {NAME: state()}, others))
    assert [note.topic for note in found.notes] == ["hmx.old.v1"]
    assert found.verdict is PlanVerdict.CLEAN


def refused(found: TopicPlan, setting: str, reason: str) -> None:
    assert found.verdict is PlanVerdict.REFUSED
    assert found.changes == ()
    (refusal,) = found.refusals
    assert refusal.change.setting == setting
    assert reason in refusal.reason
