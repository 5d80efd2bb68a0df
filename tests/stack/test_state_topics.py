"""Reading the end of a state topic on a real Kafka: what is left out is told, and holes are not taken for records."""

import pytest
from confluent_kafka import Producer

from hmx_pipeline.kafka.clients import producer_config
from hmx_pipeline.runtime.state_topics import state_records
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import SESSION_STATE, SESSIONS
from tests.support.pipeline import create_topics, new_settings
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def settings(kafka: str) -> Settings:
    made = new_settings(kafka)
    create_topics(made, partitions=1)
    return made


def write(settings: Settings, first: int, count: int, commit: bool = True) -> None:
    config = producer_config(settings.kafka_bootstrap, **{"transactional.id": f"{settings.topic_prefix}test"})
    producer = Producer(config)
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    for n in range(first, first + count):
        producer.produce(settings.topic_prefix + SESSION_STATE, b"{}", f"s/{n}", 0)
    if commit:
        producer.commit_transaction(PATIENCE_S)
    else:
        producer.flush()
        producer.abort_transaction(PATIENCE_S)


def end_of(settings: Settings, newest: int | None) -> tuple[list[str], list[int]]:
    """The keys, and what was told to be left out."""
    told: list[int] = []
    records = state_records(settings, SESSIONS, newest=newest, on_left_out=told.append)
    return [record.key for record in records], told


def test_offsets_without_a_record_are_not_left_out(settings: Settings) -> None:
    write(settings, 0, 5)
    write(settings, 100, 300, commit=False)  # as compaction, it leaves offsets and no records
    write(settings, 5, 5)
    keys = [f"s/{n}" for n in range(10)]
    assert end_of(settings, 8) == end_of(settings, None) == (keys, [])


def test_where_more_is_before_the_end_than_is_read_at_most_so_much_is_left_out(settings: Settings) -> None:
    write(settings, 0, 50)
    write(settings, 50, 10)
    keys, told = end_of(settings, 20)
    assert keys == [f"s/{n}" for n in range(60 - len(keys), 60)]
    assert 10 <= len(keys) <= 20
    assert [60 - len(keys) <= count <= 62 - len(keys) for count in told] == [True]
