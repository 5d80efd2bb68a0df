"""Shadow topics of a replay, and the cut: the offsets up to which a running pipeline is compared.

Enters: a cluster, partition counts. Leaves: a `Cut`, and topics without retention or compaction that are deleted at the
end. Raises TopicsError, KafkaException.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from hmx_pipeline import topology
from hmx_pipeline.audit.source_rows import TopicRows
from hmx_pipeline.contracts.limits import KB
from hmx_pipeline.kafka.clients import Cluster, Watermarks, plain_producer
from hmx_pipeline.kafka.topic_files import UnfitTopicError, apply, connect, load_topics, read_cluster
from hmx_pipeline.kafka.topic_plan import ClusterState, TopicSpec, plan
from hmx_pipeline.runtime.stored_positions import stored_positions
from hmx_pipeline.runtime.transaction import send
from hmx_pipeline.stages.fold import Output

ANSWER_S: Final = 30.0
QUEUED_KB: Final = 64 * KB
OF_SESSIONS: Final = (topology.EPISODES, topology.EVIDENCE, topology.ERASURES, topology.EVENTS_DLQ)
OF_PATTERNS: Final = (topology.ARTIFACTS, topology.KNOWLEDGE, topology.EVIDENCE_DLQ)


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


def take_cut(cluster: Cluster, prefix: str, partitions: Mapping[str, int]) -> Cut:
    """Reads ends, then positions, then ends again: `settled` is read before the positions and `high` after them."""

    def stable_ends(topics: Iterable[str]) -> dict[str, list[int]]:
        return {t: [cluster.stable_end(prefix + t, n) for n in range(partitions[t])] for t in topics}

    settled = stable_ends(OF_PATTERNS)
    evidence = processed(cluster, prefix, topology.PATTERNS)
    settled |= stable_ends(OF_SESSIONS)
    events = processed(cluster, prefix, topology.SESSIONS)
    outputs = {}
    for topic, ends in settled.items():
        marks = (cluster.watermarks(prefix + topic, partition) for partition in range(partitions[topic]))
        outputs[topic] = [OutputRange(m.low, end, m.high) for m, end in zip(marks, ends, strict=True)]
    return Cut({topology.SESSIONS.source: events, topology.PATTERNS.source: evidence}, outputs)


def processed(cluster: Cluster, prefix: str, stage: topology.Stage) -> list[Watermarks]:
    """Returns the range of each partition of its source that a stage has processed. Raises UnfitTopicError if the state
    belongs to an earlier topic of the same name."""
    source = prefix + stage.source
    topic_id = cluster.topic(source).topic_id
    found = []
    for partition, stored in enumerate(stored_positions(cluster, stage, prefix)):
        low = cluster.watermarks(source, partition).low
        if stored is not None and stored.topic_id != topic_id:
            raise UnfitTopicError(f"{source} was deleted and created again: its records are not those processed before")
        found.append(Watermarks(low, max(low, stored.position if stored is not None else 0)))
    return found


class Shadow(TopicRows):
    """Topics with the pipeline's partition counts, under the name prefix `prefix`."""

    def __init__(self, cluster: Cluster, prefix: str) -> None:
        super().__init__(cluster, prefix)
        self.prefix = prefix
        self._failures: list[str] = []
        queues = {"linger.ms": 20, "queue.buffering.max.kbytes": QUEUED_KB}
        self._producer: Producer = plain_producer(cluster.kafka, on_delivery=self._delivered, **queues)

    def write(self, outputs: Iterable[Output]) -> None:
        """Raises KafkaException if Kafka refused an earlier record."""
        for output in outputs:
            send(self._producer, self.prefix + output.topic, output)
        self._producer.poll(0)
        self._check()

    def flush(self) -> None:
        while self._producer.flush(0.2):
            self._check()
        self._check()

    def close(self) -> None:
        self._producer.purge()
        self._producer.close()

    def _delivered(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self._failures.append(error.str())

    def _check(self) -> None:
        if self._failures:
            raise KafkaException(KafkaError(KafkaError._FAIL, f"{self.prefix}…: {self._failures[0]}"))


@contextmanager
def shadow_topics(cluster: Cluster, prefix: str, partitions: Mapping[str, int], *, keep: bool) -> Iterator[Shadow]:
    """Creates shadow topics, and deletes them at the end unless `keep` is set."""
    admin = connect(cluster.kafka)
    specs = [_shadow_of(spec, prefix, partitions[spec.topic]) for spec in load_topics() if spec.topic in partitions]
    brokers = read_cluster(admin, []).brokers
    shadow = Shadow(cluster, prefix)
    try:
        apply(admin, plan(specs, ClusterState(brokers, {})))
        yield shadow
    finally:
        shadow.close()
        if not keep:
            names = [spec.topic for spec in specs]
            for deleted in admin.delete_topics(names, operation_timeout=ANSWER_S).values():
                error = deleted.exception()
                if error is not None and error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:  # never created
                    raise error


def _shadow_of(spec: TopicSpec, prefix: str, partitions: int) -> TopicSpec:
    """Copies a spec without retention and compaction, so that every record can be compared."""
    config = spec.config.model_copy(
        update={"cleanup_policy": "delete", "retention_ms": -1, "retention_bytes": -1, "max_compaction_lag_ms": None}
    )
    links = {"dlq": None, "partitions_as": None}
    return spec.model_copy(update={"topic": prefix + spec.topic, "partitions": partitions, "config": config, **links})
