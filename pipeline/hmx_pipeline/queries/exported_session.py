"""The events of one session as they were sent, but without secrets, from the episodes topic; erased or forgotten ones
are left out.

Enters: a tenant and a session. Leaves: events as JSON objects, in the order of their release. Raises what reading Kafka
raises.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import orjson

from hmx_pipeline.contracts.episode import event_fields
from hmx_pipeline.contracts.keys import session_place
from hmx_pipeline.kafka.clients import Cluster, read_partition
from hmx_pipeline.kafka.erasure_marks import erasure_marks
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.erased_memory import Erasures
from hmx_pipeline.topology import EPISODES


def session_events(settings: Settings, tenant: str, session: str) -> Iterator[dict[str, Any]]:
    kafka, topic = settings.require_kafka(), settings.topic_prefix + EPISODES
    erasures = Erasures(erasure_marks(kafka, settings.topic_prefix))
    with closing(Cluster(kafka)) as cluster:
        _, key, number = session_place(tenant, session, cluster.topic(topic).partitions)
        for message in read_partition(kafka, topic, number, cluster.watermarks(topic, number)):
            fields = orjson.loads(message.value() or b"{}") if message.key() == key else {}
            if fields and not erasures.hides_episode(fields):
                yield event_fields(fields)
