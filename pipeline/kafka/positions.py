"""Where the stages stand: the position records of their state topics, without reading the state.

Enters: a stage. Leaves: its `Position` per partition, None where nothing has been processed. Fails as
reading Kafka does.
"""

from typing import Final

import msgspec

from pipeline.kafka.clients import Cluster, Watermarks, read_partition
from pipeline.stages.executor import Position
from pipeline.stages.fold import POSITION_KEY
from pipeline.topology import Stage

FIRST_LOOK: Final = 1_000


def stored_positions(cluster: Cluster, stage: Stage, prefix: str) -> list[Position | None]:
    """By partition. Every transaction ends with a position record, so the last one is near the end of its partition."""
    topic = prefix + stage.state
    return [_last_position(cluster, topic, partition) for partition in range(cluster.topic(topic).partitions)]


def _last_position(cluster: Cluster, topic: str, partition: int) -> Position | None:
    low, high = cluster.watermarks(topic, partition)
    look = FIRST_LOOK
    while True:
        start = max(low, high - look)
        found: bytes | None = None
        for message in read_partition(cluster.bootstrap, topic, partition, Watermarks(start, high)):
            if message.key() == POSITION_KEY.encode():
                found = message.value()
        if found is not None:
            return msgspec.json.decode(found, type=Position)
        if start == low:
            return None
        look *= 10
