"""The house rules of topics/*.yaml, and that a file which breaks the model's form does not load."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.canonical import canonical_json
from hmx_pipeline.contracts.episode import Episode, event_fields
from hmx_pipeline.contracts.event import Event
from hmx_pipeline.contracts.evidence import Contribution, evidence_key
from hmx_pipeline.contracts.keys import join_key, session_key
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.limits import EVENT_BYTES, MB, OUTPUT_BYTES
from hmx_pipeline.contracts.rejections import Reason
from hmx_pipeline.kafka.topic_files import FOLDER, TopicFileError, load_topics
from hmx_pipeline.kafka.topic_plan import TopicExample, TopicSpec
from hmx_pipeline.topology import ARTIFACTS, EPISODES, ERASURES, EVENTS, EVIDENCE, KNOWLEDGE, MATERIALISED, STAGES

DAY = 86_400_000
NAME = re.compile(r"hmx\.[a-z]+(-[a-z]+)*\.v[1-9][0-9]*(\.dlq)?")
SPECS = {spec.topic: spec for spec in load_topics()}
DLQS = {spec.dlq: spec for spec in SPECS.values() if spec.dlq}
COMPACTED = {ARTIFACTS, ERASURES, KNOWLEDGE} | {stage.state for stage in STAGES}
every_topic = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())


@every_topic
def test_a_topic_is_named_by_domain_entity_and_version(spec: TopicSpec) -> None:
    assert NAME.fullmatch(spec.topic)


@every_topic
def test_only_topics_read_as_tables_are_compacted(spec: TopicSpec) -> None:
    assert spec.config.cleanup_policy == ("compact" if spec.topic in COMPACTED else "delete")


@every_topic
def test_records_of_a_log_are_kept_by_age_alone(spec: TopicSpec) -> None:
    assert spec.config.retention_bytes == -1
    if spec.topic in COMPACTED:
        assert spec.config.retention_ms == -1
    else:
        assert spec.config.retention_ms >= 7 * DAY


@every_topic
def test_the_producers_choice_of_compression_is_kept(spec: TopicSpec) -> None:
    assert spec.config.compression_type == "producer"


@every_topic
def test_sizes_leave_room_for_what_is_allowed_and_for_what_exceeds_it(spec: TopicSpec) -> None:
    assert spec.config.max_message_bytes == (2 * EVENT_BYTES if spec.topic == EVENTS else OUTPUT_BYTES)


@pytest.mark.parametrize("topic", sorted(COMPACTED))
def test_compaction_reaches_recent_records_and_tombstones_outlive_a_restart(topic: str) -> None:
    config = SPECS[topic].config
    assert config.delete_retention_ms is not None
    assert config.delete_retention_ms >= DAY
    assert config.min_cleanable_dirty_ratio is not None
    assert config.min_cleanable_dirty_ratio <= 0.5
    assert config.segment_bytes is not None
    assert config.max_message_bytes < config.segment_bytes <= 128 * MB
    assert config.segment_ms is not None
    assert config.segment_ms <= DAY
    assert config.max_compaction_lag_ms is not None, "what was erased has a day on which its last copy goes"
    assert config.max_compaction_lag_ms <= DAY


def test_a_record_may_carry_any_time_where_the_writer_sets_it() -> None:
    """Brokers refuse records an hour ahead of their own clock by default: one skewed leader would stop a stage."""
    configs = [spec.config for spec in SPECS.values() if spec.config.message_timestamp_type == "CreateTime"]
    assert {config.message_timestamp_after_max_ms for config in configs} == {2**63 - 1}


def test_the_sources_of_stages_carry_the_log_s_clock() -> None:
    assert {SPECS[stage.source].config.message_timestamp_type for stage in STAGES} == {"LogAppendTime"}


def test_a_rebuild_finds_episodes_and_evidence_as_long_as_their_events() -> None:
    assert SPECS[EPISODES].config.retention_ms == SPECS[EVENTS].config.retention_ms
    assert SPECS[EVIDENCE].config.retention_ms >= SPECS[EVENTS].config.retention_ms


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_dead_letters_are_as_large_as_their_parent_and_kept_at_least_as_long(stage: Any) -> None:
    parent, dlq = SPECS[stage.source], SPECS[stage.dead_letters]
    assert parent.dlq == dlq.topic == f"{parent.topic}.dlq"
    assert dlq.config.max_message_bytes >= parent.config.max_message_bytes
    assert dlq.config.retention_ms >= max(7 * DAY, parent.config.retention_ms)
    assert dlq.config.message_timestamp_type == "LogAppendTime"


def test_every_dead_letter_topic_has_a_parent() -> None:
    assert {name for name in SPECS if name.endswith(".dlq")} == set(DLQS)


def test_topics_that_share_keys_share_partition_numbers() -> None:
    same = {EPISODES: EVENTS, ERASURES: EVENTS, ARTIFACTS: EVIDENCE, KNOWLEDGE: EVIDENCE}
    for stage in STAGES:
        same |= {stage.state: stage.source, stage.dead_letters: stage.source}
    assert {spec.topic: spec.partitions_as for spec in SPECS.values() if spec.partitions_as} == same
    assert all(SPECS[topic].partitions == SPECS[source].partitions for topic, source in same.items())


def test_the_partition_follows_from_the_key_everywhere_but_among_dead_letters() -> None:
    assert {spec.topic for spec in SPECS.values() if not spec.keyed} == set(DLQS)


def test_the_files_are_the_topics_of_the_topology() -> None:
    wired = set(MATERIALISED)
    for stage in STAGES:
        wired |= {stage.source, stage.state, stage.dead_letters, *stage.outputs}
    assert set(SPECS) == wired


def test_producers_and_consumers_are_those_of_the_topology() -> None:
    for stage in STAGES:
        assert stage.name in SPECS[stage.source].consumers
        for topic in (stage.state, stage.dead_letters, *stage.outputs):
            assert stage.name in SPECS[topic].producers
    assert {spec.topic for spec in SPECS.values() if "materialiser" in spec.consumers} == set(MATERIALISED)


def test_only_a_stage_s_own_table_has_no_example() -> None:
    assert {spec.topic for spec in SPECS.values() if spec.example is None} == {stage.state for stage in STAGES}


def test_an_event_s_example_is_an_event_under_its_key() -> None:
    example, value = _example(EVENTS)
    event = Event.model_validate_json(value)
    assert example.key == session_key(event.tenant_id, event.session_id)


def test_an_episode_s_example_is_the_event_s_example_released() -> None:
    example, value = _example(EPISODES)
    episode = Episode.model_validate_json(value)
    assert example.key == session_key(episode.tenant_id, episode.session_id)
    assert isinstance(example.value, dict)
    assert event_fields(example.value) == _example(EVENTS)[0].value
    origin = {"hmx-origin-partition": str(episode.origin.partition), "hmx-origin-offset": str(episode.origin.offset)}
    assert origin.items() <= example.headers.items()


def test_an_evidence_example_is_a_contribution_under_its_key() -> None:
    example, value = _example(EVIDENCE)
    assert example.key == evidence_key(Contribution.model_validate_json(value))


def test_an_artifact_s_example_is_an_artifact_under_its_key() -> None:
    example, value = _example(ARTIFACTS)
    artifact = Artifact.model_validate_json(value)
    assert artifact.tenant_id is not None
    assert example.key == join_key(artifact.tenant_id, artifact.artifact_id)


def test_a_knowledge_example_is_a_knowledge_record_under_its_key() -> None:
    example, value = _example(KNOWLEDGE)
    record = KnowledgeRecord.model_validate_json(value)
    assert example.key == join_key(record.tenant_id, record.record_id)


@pytest.mark.parametrize("topic", DLQS)
def test_a_dead_letter_s_example_has_a_reason_and_its_step(topic: str) -> None:
    example = SPECS[topic].example
    assert example is not None
    assert isinstance(example.value, str)
    assert Reason(example.headers["hmx-reason"]).step == example.headers["hmx-step"]


def test_a_prefix_is_put_before_every_name_and_link() -> None:
    prefixed = {spec.topic: spec for spec in load_topics(prefix="t.")}
    assert set(prefixed) == {f"t.{name}" for name in SPECS}
    assert prefixed[f"t.{EVENTS}"].dlq == f"t.{EVENTS}.dlq"
    assert prefixed[f"t.{EPISODES}"].partitions_as == f"t.{EVENTS}"
    assert prefixed[f"t.{EVENTS}"].config == SPECS[EVENTS].config


def _misspelt_keyword(raw: dict[str, Any]) -> None:
    raw["partitons_as"] = EVIDENCE


def _misspelt_setting(raw: dict[str, Any]) -> None:
    raw["config"]["retention_ms"] = raw["config"]["retention.ms"]


def _no_retention(raw: dict[str, Any]) -> None:
    del raw["config"]["retention.ms"]


def _text_for_a_number(raw: dict[str, Any]) -> None:
    raw["config"]["max.message.bytes"] = "2097152"


def _unknown_policy(raw: dict[str, Any]) -> None:
    raw["config"]["cleanup.policy"] = "compact,delete"


def _orphan_dlq(raw: dict[str, Any]) -> None:
    raw["dlq"] = "hmx.nothing.v1.dlq"


def _other_count(raw: dict[str, Any]) -> None:
    raw["partitions"] = 7


def _other_name(raw: dict[str, Any]) -> None:
    raw["topic"] = "hmx.other.v1"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_misspelt_keyword, "partitons_as"),
        (_misspelt_setting, "retention_ms"),
        (_no_retention, "retention.ms"),
        (_text_for_a_number, "max.message.bytes"),
        (_unknown_policy, "cleanup.policy"),
        (_orphan_dlq, "hmx.nothing.v1.dlq has no topic file"),
        (_other_count, "partitions differ"),
        (_other_name, "the file name says"),
    ],
)
def test_a_spoilt_file_does_not_load_and_the_error_names_file_and_cause(tmp_path: Path, spoil: Any, said: str) -> None:
    for file in FOLDER.glob("*.yaml"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert len(load_topics(tmp_path)) == len(SPECS)
    file = tmp_path / f"{ARTIFACTS}.yaml"
    raw = yaml.safe_load(file.read_text())
    spoil(raw)
    file.write_text(yaml.safe_dump(raw))
    with pytest.raises(TopicFileError, match=rf"{ARTIFACTS}\.yaml") as caught:
        load_topics(tmp_path)
    assert said in str(caught.value)


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TopicFileError, match="no topic files"):
        load_topics(tmp_path)


def _example(topic: str) -> tuple[TopicExample, bytes]:
    example = SPECS[topic].example
    assert example is not None
    assert example.headers["content-type"] == "application/json"
    return example, canonical_json(example.value)
