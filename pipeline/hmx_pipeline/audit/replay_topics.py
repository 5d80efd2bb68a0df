"""Shadow topics of a replay, and the cut: the offsets up to which a running pipeline is compared.

Enters: settings, partition counts. Leaves: a `Cut`, and topics without retention or compaction that are deleted at the
end. Raises TopicsError, KafkaException.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from hmx_pipeline.contracts.limits import KB
from hmx_pipeline.kafka.clients import Cluster, Watermarks, plain_producer, produce
from hmx_pipeline.kafka.topic_files import UnfitTopicError, apply, connect, load_topics, read_cluster
from hmx_pipeline.kafka.topic_plan import ClusterState, TopicSpec, plan
from hmx_pipeline.kafka_profile import KafkaProfile
from hmx_pipeline.runtime.stored_positions import stored_positions
from hmx_pipeline.settings import Settings
from hmx_pipeline.stages.executor import StagePosition
from hmx_pipeline.stages.fold import Output
from hmx_pipeline.topology import (
    ARTIFACTS,
    EPISODES,
    ERASURES,
    EVENTS_DLQ,
    EVIDENCE,
    EVIDENCE_DLQ,
    KNOWLEDGE,
    PATTERNS,
    SESSIONS,
    Stage,
)

ANSWER_S: Final = 30.0
QUEUED_KB: Final = 64 * KB
OF_SESSIONS: Final = (EPISODES, EVIDENCE, ERASURES, EVENTS_DLQ)
OF_PATTERNS: Final = (ARTIFACTS, KNOWLEDGE, EVIDENCE_DLQ)


class OutputRange(NamedTuple):
    """Offsets of an output partition."""

    low: int
    settled: int
    """All records below come from sources below the cut."""
    high: int
    """All outputs of sources below the cut are below this offset."""


class Cut(NamedTuple):
    """Matching offsets of all topics of a running pipeline."""

    sources: Mapping[str, list[Watermarks]]
    """Source topic → per partition, the range that its stage has processed."""
    outputs: Mapping[str, list[OutputRange]]


def take_cut(cluster: Cluster, settings: Settings, partitions: Mapping[str, int]) -> Cut:
    """Reads ends, then positions, then ends again: `settled` is read before the positions and `high` after them."""
    admin = connect(settings.require_kafka())
    prefix = settings.topic_prefix
    settled = {topic: _stable_ends(admin, prefix, topic, partitions[topic]) for topic in OF_PATTERNS}
    evidence = _processed(cluster, prefix, PATTERNS)
    settled |= {topic: _stable_ends(admin, prefix, topic, partitions[topic]) for topic in OF_SESSIONS}
    events = _processed(cluster, prefix, SESSIONS)
    outputs = {}
    for topic in (*OF_PATTERNS, *OF_SESSIONS):
        marks = [cluster.watermarks(prefix + topic, partition) for partition in range(partitions[topic])]
        outputs[topic] = [OutputRange(m.low, end, m.high) for m, end in zip(marks, settled[topic], strict=True)]
    return Cut({SESSIONS.source: events, PATTERNS.source: evidence}, outputs)


def _stable_ends(admin: AdminClient, prefix: str, topic: str, partitions: int) -> list[int]:
    """Returns the last stable offsets: all transactions below have ended."""
    asked = [TopicPartition(prefix + topic, partition) for partition in range(partitions)]
    found = admin.list_offsets(
        dict.fromkeys(asked, OffsetSpec.latest()),
        isolation_level=IsolationLevel.READ_COMMITTED,
        request_timeout=ANSWER_S,
    )
    ends = {where.partition: future.result().offset for where, future in found.items()}
    return [ends[partition] for partition in range(partitions)]


def _processed(cluster: Cluster, prefix: str, stage: Stage) -> list[Watermarks]:
    """Raises UnfitTopicError if the state belongs to an earlier topic of the same name."""
    source = prefix + stage.source
    topic_id = cluster.topic(source).topic_id
    found = []
    for partition, stored in enumerate(stored_positions(cluster, stage, prefix)):
        low = cluster.watermarks(source, partition).low
        if stored is not None and stored.topic_id != topic_id:
            raise UnfitTopicError(f"{source} was deleted and created again: its records are not those processed before")
        found.append(Watermarks(low, max(low, _position(stored))))
    return found


def _position(stored: StagePosition | None) -> int:
    return stored.position if stored is not None else 0


class Shadow:
    """Topics with the pipeline's partition counts, under the name prefix `prefix`."""

    def __init__(self, kafka: KafkaProfile, prefix: str) -> None:
        self.prefix = prefix
        self._producer: Producer = plain_producer(kafka, **{"linger.ms": 20, "queue.buffering.max.kbytes": QUEUED_KB})
        self._failures: list[str] = []

    def write(self, outputs: Iterable[Output]) -> None:
        """Raises KafkaException if Kafka refused an earlier record."""
        for output in outputs:
            self._send(output)
        self._producer.poll(0)
        self._check()

    def flush(self) -> None:
        while self._producer.flush(0.2):
            self._check()
        self._check()

    def close(self) -> None:
        self._producer.purge()
        self._producer.close()

    def _send(self, output: Output) -> None:
        topic = self.prefix + output.topic
        produce(self._producer, topic, output.value, output.key, output.headers, output.partition, self._delivered)

    def _delivered(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self._failures.append(error.str())

    def _check(self) -> None:
        if self._failures:
            raise KafkaException(KafkaError(KafkaError._FAIL, f"{self.prefix}…: {self._failures[0]}"))


@contextmanager
def shadow_topics(settings: Settings, prefix: str, partitions: Mapping[str, int], *, keep: bool) -> Iterator[Shadow]:
    """Creates shadow topics, and deletes them at the end unless `keep` is set."""
    admin = connect(settings.require_kafka())
    specs = [_shadow_of(spec, prefix, partitions[spec.topic]) for spec in load_topics() if spec.topic in partitions]
    names = [spec.topic for spec in specs]
    brokers = read_cluster(admin, []).brokers
    shadow = Shadow(settings.require_kafka(), prefix)
    try:
        apply(admin, plan(specs, ClusterState(brokers, {})))
        yield shadow
    finally:
        shadow.close()
        if not keep:
            for future in admin.delete_topics(names, operation_timeout=ANSWER_S).values():
                _deleted(future)


def _shadow_of(spec: TopicSpec, prefix: str, partitions: int) -> TopicSpec:
    """Copies a spec without retention and compaction, so that every record can be compared."""
    config = spec.config.model_copy(
        update={"cleanup_policy": "delete", "retention_ms": -1, "retention_bytes": -1, "max_compaction_lag_ms": None}
    )
    links = {"dlq": None, "partitions_as": None}
    return spec.model_copy(update={"topic": prefix + spec.topic, "partitions": partitions, "config": config, **links})


def _deleted(future: Any) -> None:
    try:
        future.result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:  # it was never created
            raise
