"""Consumer group: which worker owns which partition.

Leaves: (topic without prefix, partition) → worker id, or client and host; empty without workers. Raises KafkaException.
"""

from hmx_pipeline.kafka.consumer_lag import Place
from hmx_pipeline.kafka.topic_files import connect
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import GROUP

ANSWER_S = 10.0


def owners(settings: Settings) -> dict[Place, str]:
    group, prefix = settings.topic_prefix + GROUP, settings.topic_prefix
    admin = connect(settings.require_kafka())
    found = admin.describe_consumer_groups([group], request_timeout=ANSWER_S)[group].result()
    return {
        (where.topic.removeprefix(prefix), where.partition): str(
            member.group_instance_id or f"{member.client_id}{member.host}"
        )
        for member in found.members
        if member.assignment is not None
        for where in member.assignment.topic_partitions
    }
