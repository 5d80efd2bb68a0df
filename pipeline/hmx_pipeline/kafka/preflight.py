"""Preflight check of commands: Kafka answers and the topics exist.

Enters: settings, topic names. Leaves: partition counts. Raises SettingsError, KafkaUnreachableError, UnfitTopicError,
each with the next step in its message.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from hmx_pipeline.kafka.client_login import refusal
from hmx_pipeline.kafka.topic_files import KafkaUnreachableError, connect, lacking, metadata
from hmx_pipeline.kafka_profile import KafkaProfile
from hmx_pipeline.settings import Settings


@contextmanager
def reaching(kafka: KafkaProfile) -> Iterator[None]:
    """Says where no Kafka answers, and what to do."""
    try:
        yield
    except KafkaUnreachableError as error:
        if refusal():
            raise
        raise KafkaUnreachableError(
            f"Kafka does not answer at {kafka}: start one with `hmx up`, or check HMX_KAFKA_BOOTSTRAP, and"
            f" HMX_KAFKA_CONFIG where the cluster is secured ({error})"
        ) from error


def existing_topics(settings: Settings, *names: str) -> dict[str, int]:
    """Returns topic name without prefix → number of partitions."""
    address = settings.require_kafka()
    full = {settings.topic_prefix + name: name for name in names}
    admin = connect(address)
    with reaching(address):
        found = metadata(admin).topics
    for topic in full:
        if topic not in found:
            raise lacking(admin, topic)
    return {name: len(found[topic].partitions) for topic, name in full.items()}
