"""Erasure marks: reads all records of `hmx.erasures.v1`, which are few.

Enters: a `KafkaProfile`, the topics' prefix. Leaves: `ErasureMark`s, of erasures and of retentions (with policy and
cuts), without what is no mark. Raises what reading Kafka raises.
"""

from collections.abc import Iterator
from contextlib import closing

from pydantic import ValidationError

from hmx_pipeline.contracts.erasure import ErasureMark
from hmx_pipeline.kafka.clients import Cluster, read_partition
from hmx_pipeline.kafka_profile import KafkaProfile
from hmx_pipeline.topology import ERASURES


def erasure_marks(kafka: KafkaProfile, prefix: str) -> Iterator[ErasureMark]:
    topic = prefix + ERASURES
    with closing(Cluster(kafka)) as cluster:
        for number in range(cluster.topic(topic).partitions):
            for message in read_partition(kafka, topic, number, cluster.watermarks(topic, number)):
                mark = mark_in(message.value())
                if mark is not None:
                    yield mark


def mark_in(value: bytes | None) -> ErasureMark | None:
    try:
        return ErasureMark.model_validate_json(value or b"")
    except ValidationError:
        return None
