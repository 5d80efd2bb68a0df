"""What stands in the state topics, and whether what came of them is sound."""

from contextlib import closing

from hmx_pipeline.kafka.clients import Cluster, read_partition
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import Stage
from tests.verifier.check import check


def latest(settings: Settings, stage: Stage, partition: int) -> dict[str, bytes]:
    """By key, what a compaction would leave."""
    topic = settings.topic_prefix + stage.state
    found: dict[str, bytes] = {}
    with closing(Cluster(settings.kafka_bootstrap)) as cluster:
        marks = cluster.watermarks(topic, partition)
        for message in read_partition(settings.kafka_bootstrap, topic, partition, marks):
            key, value = (message.key() or b"").decode(), message.value()
            found.pop(key, None)
            if value is not None:
                found[key] = value
    return found


def sound(settings: Settings) -> None:
    """The independent verifier finds nothing lost, doubled or otherwise."""
    report = check(settings.kafka_bootstrap, settings.topic_prefix, settings.redis_url, settings.control_key)
    assert report.clean, [str(fault) for fault in report.faults[:20]]
    assert (report.lost, report.doubled) == (0, 0)
