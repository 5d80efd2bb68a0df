"""Which worker owns which partition, as Kafka's group says.

Enters: settings. Leaves: (topic without the installation's prefix, partition) → the worker's name, or its client and
host where it has none. Nothing where no worker has ever been. Fails with KafkaException.
"""

from pipeline.kafka.topics import connect
from pipeline.kafka.unread import Place
from pipeline.settings import Settings
from pipeline.topology import GROUP

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
