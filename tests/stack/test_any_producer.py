"""Events are published by any client, with any codec, key and partitioner, straight to the topic."""

import asyncio
import uuid
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

from hmx_pipeline.audit.pipeline_conservation import verify
from hmx_pipeline.runtime.barriers import wait_for_stages
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EPISODES, EVENTS
from tests.support.events import encoded, event
from tests.support.pipeline import new_settings, running
from tests.support.topics import values

EACH = 8


@pytest.fixture(scope="module")
def settings(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    made = new_settings(kafka, window_ms=60_000)
    with running(made, tmp_path_factory.mktemp("logs"), "worker"):
        yield made


def session(name: str) -> list[bytes]:
    return [encoded(event(tenant_id=name, sequence=n, event_id=f"{name}-{n}")) for n in range(EACH)]


def by_librdkafka(settings: Settings, sent: list[bytes], codec: str, partitioner: str, key: bytes | None) -> None:
    """What confluent-kafka and kcat are made of, as these are set where nobody sets them otherwise."""
    producer = Producer(
        {"bootstrap.servers": settings.kafka_bootstrap, "compression.type": codec, "partitioner": partitioner}
    )
    for value in sent:
        producer.produce(settings.topic_prefix + EVENTS, value, key)
    assert producer.flush(30) == 0
    producer.close()


async def by_python(settings: Settings, sent: list[bytes], codec: str, key: bytes | None) -> None:
    """A client that shares no code with librdkafka."""
    producer = AIOKafkaProducer(
        bootstrap_servers=settings.kafka_bootstrap, compression_type=None if codec == "none" else codec
    )
    await producer.start()
    try:
        for value in sent:
            await producer.send(settings.topic_prefix + EVENTS, value, key)
        await producer.flush()
    finally:
        await producer.stop()


@pytest.mark.requirement("K-01", "E-30")
def test_whoever_sends_them_however_every_event_is_released_once_and_in_order(settings: Settings) -> None:
    names = []
    for codec, key in product(("none", "gzip", "snappy", "lz4", "zstd"), (None, b"any key")):
        names += [uuid.uuid4().hex for _ in range(3)]
        default, scattered, python = names[-3:]
        by_librdkafka(settings, session(default), codec, "consistent_random", key)
        by_librdkafka(settings, session(scattered), codec, "random", key)
        asyncio.run(by_python(settings, session(python), codec, key))
    wait_for_stages(settings, 240)
    released: dict[str, list[Any]] = {name: [] for name in names}
    for episode in values(settings, EPISODES):
        own = episode["metadata"]["hmx"]
        assert own["release"]["late"] is False
        released[own["tenant_id"]].append(own["sequence"])
    assert released == {name: list(range(EACH)) for name in names}
    report = verify(settings)
    assert report.conserved
    assert report.outcomes["released"] == len(names) * EACH
    assert report.outcomes["rerouted"] > 0
