"""What a run has come to: what the verifier finds in the topics, and whether Kafka kept what it had acknowledged.

Enters: settings of the pipeline at rest, and the traffic's acknowledgements. Leaves: a `Verdict`.
"""

from contextlib import closing
from dataclasses import dataclass, field

from hmx_pipeline.kafka.clients import Cluster, read_partition
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS
from tests.harness.producer import Acknowledged, Place, digest
from tests.verifier import check

SHOWN = 200


@dataclass
class Verdict:
    lost: int = 0
    doubled: int = 0
    differing: int = 0
    missing: int = 0
    """Acknowledged to the producer, and not in the log."""
    records: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    details: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.lost or self.doubled or self.differing or self.missing)


def judge(settings: Settings, acknowledged: Acknowledged) -> Verdict:
    report = check(settings.kafka_bootstrap, settings.topic_prefix, settings.redis_url, settings.control_key)
    missing = acknowledged.missing(_log(settings))
    return Verdict(
        lost=report.lost,
        doubled=report.doubled,
        differing=report.differing,
        missing=len(missing),
        records=report.records,
        outcomes=dict(sorted(report.outcomes.items())),
        details=[*map(str, report.faults[:SHOWN]), *(f"acknowledged and missing: {at}" for at in missing[:SHOWN])],
    )


def _log(settings: Settings) -> dict[Place, int]:
    topic = settings.topic_prefix + EVENTS
    held: dict[Place, int] = {}
    with closing(Cluster(settings.kafka_bootstrap)) as cluster:
        for partition in range(cluster.topic(topic).partitions):
            marks = cluster.watermarks(topic, partition)
            for message in read_partition(settings.kafka_bootstrap, topic, partition, marks):
                value: bytes | None = message.value()
                held[partition, message.offset() or 0] = digest(value)
    return held
