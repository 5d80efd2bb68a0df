"""Stage positions: reads the position records at the end of the state topics.

Leaves: a `StagePosition` per partition, or None if nothing was processed. Raises what reading Kafka raises, and
UnfitTopicError for an unreadable position record.
"""

from typing import Final

from hmx_pipeline.kafka.clients import Cluster, Watermarks, read_partition
from hmx_pipeline.kafka.topic_files import UnfitTopicError
from hmx_pipeline.stages.executor import StagePosition, read_position
from hmx_pipeline.stages.fold import POSITION_KEY
from hmx_pipeline.topology import Stage

FIRST_LOOK: Final = 1_000


def stored_positions(cluster: Cluster, stage: Stage, prefix: str) -> list[StagePosition | None]:
    """Returns the positions by partition."""
    partitions = cluster.topic(prefix + stage.state).partitions
    return [stored_position(cluster, stage, prefix, partition) for partition in range(partitions)]


def stored_position(cluster: Cluster, stage: Stage, prefix: str, partition: int) -> StagePosition | None:
    """Searches backwards: every transaction ends with a position record, so the last one is near the end."""
    topic = prefix + stage.state
    low, high = cluster.watermarks(topic, partition)
    look = FIRST_LOOK
    while True:
        start = max(low, high - look)
        found: bytes | None = None
        for message in read_partition(cluster.kafka, topic, partition, Watermarks(start, high)):
            if message.key() == POSITION_KEY.encode():
                found = message.value()
        if found is not None:
            try:
                return read_position(found)
            except ValueError as error:
                raise UnfitTopicError(
                    f"{topic}/{partition}: the position record can't be read: run"
                    f" `hmx state rebuild {partition} --stage {stage.name}`"
                ) from error
        if start == low:
            return None
        look *= 10
