"""Topics as code: loads topics/*.yaml, reads the cluster, applies a plan.

Enters: a folder of topic files, an AdminClient. Leaves: `TopicSpec`s, a `ClusterState`, changed topics. Raises:

    TopicsError
    ├── TopicFileError         a file is missing, misspelt, or names a topic without a file
    ├── KafkaUnreachableError  no broker answers
    ├── KafkaRefusedError      a broker answers with an error, or a change does not become visible
    ├── PlanRefusedError       the plan holds a refusal; nothing was applied
    └── UnfitTopicError        a stage's source is missing or has no LogAppendTime
"""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from pydantic import ValidationError

from hmx_pipeline.kafka import topic_plan
from hmx_pipeline.kafka.client_login import client_config, denied, refusal
from hmx_pipeline.kafka_profile import KafkaProfile
from hmx_pipeline.topology import STAGES

_PACKAGED: Final = Path(__file__).resolve().parents[1] / "topics"
FOLDER: Final = _PACKAGED if _PACKAGED.is_dir() else Path(__file__).resolve().parents[3] / "topics"
"""The topic files: a wheel carries them in the package, a checkout has them at its top."""
CONNECT_S: Final = 5.0
ANSWER_S: Final = 10.0
VISIBLE_S: Final = 60.0
POLL_S: Final = 0.1
_UNSETTLED: Final = {  # temporary: metadata or leadership is not known yet
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.OFFSET_NOT_AVAILABLE,  # a new leader does not know its followers' state yet
    KafkaError._NOENT,  # the client's codes for a missing leader and an unknown partition
    KafkaError._UNKNOWN_PARTITION,
}
_SILENCE: Final = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE}

K = TypeVar("K")
V = TypeVar("V")


class TopicsError(Exception):
    """Root of this module's errors; the message is for the operator."""


class TopicFileError(TopicsError):
    pass


class KafkaUnreachableError(TopicsError):
    pass


class KafkaRefusedError(TopicsError):
    pass


class PlanRefusedError(TopicsError):
    pass


class UnfitTopicError(TopicsError):
    pass


class MissingTopicError(UnfitTopicError):
    pass


def load_topics(folder: Path = FOLDER, prefix: str = "") -> tuple[topic_plan.TopicSpec, ...]:
    """Loads all topic files; `prefix` separates installations on one cluster."""
    files = sorted(folder.glob("*.yaml"), key=lambda file: file.stem)
    if not files:
        raise TopicFileError(f"no topic files in {folder}: reinstall the package")
    specs = {file.stem: _load(file) for file in files}
    for spec in specs.values():
        for link in (spec.dlq, spec.partitions_as):
            if link is not None and link not in specs:
                raise TopicFileError(f"{spec.topic}.yaml: {link} has no topic file")
        if spec.partitions_as and spec.partitions != specs[spec.partitions_as].partitions:
            raise TopicFileError(f"{spec.topic}.yaml: partitions differ from those of {spec.partitions_as}")
    return tuple(_prefixed(spec, prefix) for spec in specs.values())


def _load(file: Path) -> topic_plan.TopicSpec:
    try:
        spec = topic_plan.TopicSpec.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")))
    except (yaml.YAMLError, ValidationError) as error:
        raise TopicFileError(f"{file.name}: {error}") from error
    if spec.topic != file.stem:
        raise TopicFileError(f"{file.name}: topic is {spec.topic}, but the file name says {file.stem}")
    return spec


def _prefixed(spec: topic_plan.TopicSpec, prefix: str) -> topic_plan.TopicSpec:
    links = {"dlq": spec.dlq and prefix + spec.dlq, "partitions_as": spec.partitions_as and prefix + spec.partitions_as}
    return spec.model_copy(update={"topic": prefix + spec.topic, **links})


def connect(kafka: KafkaProfile) -> AdminClient:
    """Creates a client; keep it referenced, since a collected client never resolves its futures."""
    return AdminClient(client_config(kafka))


def read_cluster(admin: AdminClient, names: Iterable[str]) -> topic_plan.ClusterState:
    """Reads the named topics; missing ones are absent from the result."""
    names = set(names)
    known = metadata(admin)
    found = {name: topic for name, topic in known.topics.items() if name in names and topic.partitions}
    for topic in found.values():
        if topic.error is not None and topic.error.code() not in _UNSETTLED:
            raise explained(KafkaException(topic.error))
    configs = _configs(admin, found)
    written = _written(admin, {name: len(topic.partitions) for name, topic in found.items()})
    topics = {
        name: topic_plan.TopicState(
            partitions=len(topic.partitions),
            replicas=min(len(partition.replicas) for partition in topic.partitions.values()),
            config={entry.name: entry.value or "" for entry in configs[name].values()},
            overridden=frozenset(entry.name for entry in configs[name].values() if _is_override(entry)),
            empty=name not in written,
        )
        for name, topic in found.items()
    }
    return topic_plan.ClusterState(len(known.brokers), topics, frozenset(known.topics) - names)


def apply(admin: AdminClient, wanted: topic_plan.TopicPlan) -> None:
    """Applies the whole plan, or nothing if it holds a refusal. Returns once the result is visible."""
    if wanted.refusals:
        raise PlanRefusedError(
            f"{len(wanted.refusals)} changes are refused; nothing was applied: see `hmx topics plan`"
        )
    created = [
        NewTopic(item.topic, num_partitions=item.partitions, replication_factor=item.replicas, config=dict(item.config))
        for item in wanted.creations
    ]
    grown: list[NewPartitions] = []
    entries: dict[str, list[ConfigEntry]] = {}
    for change in wanted.changes:
        if change.setting == topic_plan.PARTITIONS:
            grown.append(NewPartitions(change.topic, int(change.new or 0)))
        else:
            operation = AlterConfigOpType.DELETE if change.new is None else AlterConfigOpType.SET
            entry = ConfigEntry(change.setting, change.new, incremental_operation=operation)
            entries.setdefault(change.topic, []).append(entry)
    altered = [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=e) for topic, e in entries.items()]
    requests: tuple[tuple[Any, list[Any]], ...] = (
        (admin.create_topics, created),
        (admin.create_partitions, grown),
        (admin.incremental_alter_configs, altered),
    )
    for request, changes in requests:
        if changes:
            _answers(partial(request, changes, request_timeout=ANSWER_S))
    deadline, names = time.monotonic() + VISIBLE_S, [spec.topic for spec in wanted.specs]
    while left := topic_plan.plan(wanted.specs, read_cluster(admin, names)).topics:
        if time.monotonic() > deadline:
            raise KafkaRefusedError(f"applied, but not visible after {VISIBLE_S:.0f} s: {', '.join(sorted(left))}")
        time.sleep(POLL_S)


def check_events_topic(admin: AdminClient, prefix: str = "") -> None:
    """Checks that stage sources exist and have LogAppendTime, since append times are the stages' clock.

    Asks no partition leader: after a restart of all brokers some have none for a while, and a worker can wait.
    """
    names = [prefix + stage.source for stage in STAGES]
    known = metadata(admin).topics
    for name in names:
        if name not in known:
            raise lacking(admin, name)
    configs = _configs(admin, names)
    for name in names:
        kind = configs[name]["message.timestamp.type"].value
        if kind != "LogAppendTime":
            raise UnfitTopicError(
                f"topic {name} has message.timestamp.type={kind} and needs LogAppendTime: see `hmx topics plan`"
            )


def lacking(admin: AdminClient, topic: str) -> TopicsError:
    """Why this topic is not among those that are seen: a user who may not describe it is not told of it."""
    error = metadata(admin, topic).topics[topic].error
    if error is not None and (refused := denied(error, f"topic {topic}")):
        return KafkaRefusedError(refused)
    return MissingTopicError(f"topic {topic} does not exist: create it with `hmx topics apply`")


def metadata(admin: AdminClient, topic: str | None = None) -> Any:
    """Of all topics that this user may see, or of this one."""
    try:
        return admin.list_topics(topic, timeout=CONNECT_S)
    except KafkaException as error:
        admin.poll(0)  # it may have been told that it is not let in
        raise explained(error) from error


def _configs(admin: AdminClient, names: Iterable[str]) -> dict[str, dict[str, ConfigEntry]]:
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    if not resources:
        return {}
    answers = _answers(lambda: admin.describe_configs(resources, request_timeout=ANSWER_S), patiently=True)
    return {resource.name: entries for resource, entries in answers.items()}


def _written(admin: AdminClient, counts: Mapping[str, int]) -> set[str]:
    """Returns the topics that ever held a record (end offset above 0). Every partition's leader must answer."""
    asked = {TopicPartition(name, n): OffsetSpec.latest() for name, count in counts.items() for n in range(count)}
    if not asked:
        return set()
    ends = _answers(lambda: admin.list_offsets(asked, request_timeout=ANSWER_S), patiently=True)
    return {partition.topic for partition, end in ends.items() if end.offset > 0}


def settled(ask: Callable[[], V]) -> V:
    """Repeats a request while partitions or leaders are still unsettled."""
    deadline = time.monotonic() + VISIBLE_S
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in _UNSETTLED or time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)


def _is_override(entry: ConfigEntry) -> bool:
    return ConfigSource(entry.source) is ConfigSource.DYNAMIC_TOPIC_CONFIG


def _answers(ask: Callable[[], Mapping[K, "Future[V]"]], *, patiently: bool = False) -> dict[K, V]:
    """Asks, and waits for all answers; `patiently` as in `settled`."""

    def answers() -> dict[K, V]:
        return {key: future.result() for key, future in ask().items()}

    try:
        return settled(answers) if patiently else answers()
    except KafkaException as error:
        raise explained(error) from error


def explained(error: KafkaException) -> TopicsError:
    cause: KafkaError = error.args[0]
    if cause.code() in _SILENCE:
        return KafkaUnreachableError(refusal() or cause.str())
    if cause.code() in _UNSETTLED:
        return KafkaRefusedError(f"a partition has no leader: {cause.str()}")
    return KafkaRefusedError(denied(cause) or f"Kafka refused the request: {cause.str()}")
