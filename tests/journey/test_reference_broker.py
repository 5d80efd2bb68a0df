"""The sessions stage on the real broker against the reference: generated traffic, paced in real time.

Producers of every codec, with the right key, another or none, with partitioners that agree with ours and that don't,
while the worker is killed. What was really appended, in which order and when, is read back from the events topic; the
reference says what must have become of it, offset by offset, and in which order the episodes stand.
"""

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest
from confluent_kafka import Producer

from hmx_pipeline.audit.pipeline_conservation import verify
from hmx_pipeline.contracts.headers import REROUTED_FROM
from hmx_pipeline.contracts.keys import partition_of
from hmx_pipeline.kafka.clients import Cluster, plain_producer
from hmx_pipeline.runtime.barriers import wait_for_stages
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS
from tests.support.pipeline import Pipeline, new_settings, running
from tests.support.traffic import Sent, traffic
from tests.verifier import check as check_topics

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONERS = ("murmur2_random", "random")
FORGED = (REROUTED_FROM, b"0:0:0123456789abcdef")


@pytest.mark.slow
@pytest.mark.parametrize(("ordering", "sessions", "seconds"), [("eager", 15_000, 130), ("strict", 3_000, 30)])
def test_much_traffic_has_the_outcomes_and_the_order_of_the_specification(
    kafka: str, tmp_path: Path, ordering: str, sessions: int, seconds: int
) -> None:
    settings = new_settings(kafka, ordering=ordering)
    sent = [record for record in traffic(2, sessions, seconds, long=20) if record.at < (seconds + 20) * 1_000]
    check(settings, tmp_path, sent, kills=2)


def check(settings: Settings, logs: Path, sent: Sequence[Sent], kills: int) -> None:
    started = time.monotonic()
    with running(settings, logs, "worker", partitions=None) as pipeline:
        publish(settings, pipeline, sent, kills)
        paced = time.monotonic() - started
        wait_for_stages(settings, timeout=240, on_progress=lambda _: alive(pipeline))
        settled = time.monotonic() - started
        assert pipeline.stop("worker") == 0
    strict = settings.ordering == "strict"
    found = check_topics(settings.kafka_bootstrap, settings.topic_prefix, "", settings.control_key, strict=strict)
    assert not found.faults, found.faults[:5]
    outcomes = found.outcomes
    assert {"released", "released_late", "duplicate", "rerouted", "control"} <= outcomes.keys()
    assert {"rejected.event_id_reused", "rejected.forged_origin", "rejected.reserved"} <= outcomes.keys()
    report = verify(settings)
    assert report.conserved, report.violations[:5]
    print(
        f"\n{len(sent)} events sent in {paced:.0f} s, settled after {settled:.0f} s, killed {kills} times: {outcomes}"
    )


def alive(pipeline: Pipeline) -> None:
    assert pipeline.processes["worker"].poll() is None, pipeline.log("worker")


def publish(settings: Settings, pipeline: Pipeline, sent: Sequence[Sent], kills: int) -> None:
    """Each record at its time; the worker is killed in between, and started again at once."""
    topic, dice = settings.topic_prefix + EVENTS, random.Random(5)
    with closing(Cluster(settings.kafka_bootstrap)) as cluster:
        partitions = cluster.topic(topic).partitions
    producers = {
        (codec, partitioner): plain_producer(
            settings.kafka_bootstrap, **{"compression.type": codec, "partitioner": partitioner}
        )
        for codec, partitioner in product(CODECS, PARTITIONERS)
    }
    deadly = {len(sent) * (n + 1) // (kills + 1) for n in range(kills)}
    began = time.monotonic()
    for n, record in enumerate(sent):
        while (ahead := record.at / 1_000 - (time.monotonic() - began)) > 0:
            time.sleep(min(ahead, 0.02))
        if n in deadly:
            pipeline.kill("worker")
            pipeline.start("worker", ready=False)
        _send(producers, topic, record, partitions, dice)
    for producer in producers.values():
        assert producer.flush(60) == 0
        producer.close()


def _send(
    producers: Mapping[tuple[str, str], Producer], topic: str, record: Sent, partitions: int, dice: random.Random
) -> None:
    right = record.key if record.event is not None else f"bad/{record.at}"
    home = partition_of(right, partitions)
    wrong = (home + dice.randrange(1, partitions)) % partitions
    key, partition, partitioner = dice.choices(
        [
            (right, -1, "murmur2_random"),
            (None, home, "murmur2_random"),
            ("any", home, "murmur2_random"),
            ("any", wrong, "murmur2_random"),
            (right, -1, "random"),
            (None, -1, "murmur2_random"),
            ("any", -1, "murmur2_random"),
        ],
        [70, 10, 8, 4, 4, 2, 2],
    )[0]
    headers = [FORGED] if record.event is not None and dice.random() < 0.003 else []
    producer = producers[dice.choice(CODECS), partitioner]
    producer.produce(topic, record.value, key, partition, headers=list(headers))
    producer.poll(0)
