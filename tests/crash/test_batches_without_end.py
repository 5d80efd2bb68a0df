"""A few kilobytes that unpack to more than a process has: no fetch may die of them, and nothing around them is lost."""

from pathlib import Path
from typing import Any

import pytest
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy
from confluent_kafka import Producer

from hmx_pipeline.audit.pipeline_conservation import explain, verify
from hmx_pipeline.audit.replay import replay
from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.limits import MB, UNPACKED_BYTES
from hmx_pipeline.contracts.rejections import UNREADABLE
from hmx_pipeline.runtime.barriers import wait_for_stages
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EPISODES, EVENTS
from hmx_pipeline.worker.fetched_records import TolerantBatch
from tests.support.events import encoded, event
from tests.support.pipeline import new_settings, running
from tests.support.topics import values

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
COMPRESSED = {name: codec for name, codec in CODECS.items() if codec}


def batch(codec: int, *values: bytes) -> bytes:
    builder = _DefaultRecordBatchBuilderPy(2, codec, 0, -1, -1, -1, 1 << 30)
    for offset, value in enumerate(values):
        builder.append(offset, 1_000 + offset, b"key", value, [])
    return bytes(builder.build())


def parsed(data: bytes) -> list[tuple[int, int, Any]]:
    found = TolerantBatch(memoryview(data))
    assert found.validate_crc()
    return [(record.offset, record.timestamp, record.value) for record in found]


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_a_batch_is_read_up_to_the_bound(codec: int) -> None:
    large = bytes(UNPACKED_BYTES - MB)
    assert parsed(batch(codec, b"before", large, b"after")) == [
        (0, 1_000, b"before"),
        (1, 1_001, large),
        (2, 1_002, b"after"),
    ]


@pytest.mark.parametrize("codec", COMPRESSED.values(), ids=COMPRESSED)
def test_a_batch_that_unpacks_to_too_much_gives_every_record_its_place_and_nothing_else(codec: int) -> None:
    found = parsed(batch(codec, b"before", bytes(UNPACKED_BYTES), b"after"))
    assert [record[:2] for record in found] == [(0, 1_002), (1, 1_002), (2, 1_002)]
    assert all(value is UNREADABLE for _, _, value in found)


@pytest.mark.parametrize("codec", COMPRESSED.values(), ids=COMPRESSED)
def test_so_does_a_batch_that_is_not_what_its_codec_says(codec: int) -> None:
    data = bytearray(batch(codec, b"one" * 100, b"two" * 100))
    data[70:] = bytes(len(data) - 70)
    assert [value is UNREADABLE for _, _, value in _unchecked(bytes(data))] == [True, True]


def _unchecked(data: bytes) -> list[tuple[int, int, Any]]:
    return [(record.offset, record.timestamp, record.value) for record in TolerantBatch(memoryview(data))]


def send(settings: Settings, codec: str, *records: bytes) -> None:
    producer = Producer(
        {
            "bootstrap.servers": settings.kafka_bootstrap,
            "message.max.bytes": 1_000_000_000,
            "batch.size": 1_000_000_000,
            "queue.buffering.max.kbytes": 2_000_000,
            "linger.ms": 100,
            "compression.type": codec,
        }
    )
    failed: list[Any] = []
    for value in records:
        topic = settings.topic_prefix + EVENTS
        producer.produce(topic, value, b"tenant/session", 0, on_delivery=lambda error, _: failed.append(error))
    producer.flush(60)
    assert failed == [None] * len(records)


def send_together(settings: Settings, codec: str, count: int) -> None:
    """In one batch of so many megabytes."""
    large = {"message.max.bytes": 1_000_000_000, "batch.size": 1_000_000_000, "queue.buffering.max.kbytes": 2_000_000}
    producer = Producer(
        {"bootstrap.servers": settings.kafka_bootstrap, **large, "linger.ms": 10_000, "compression.type": codec}
    )
    for _ in range(count):
        producer.produce(settings.topic_prefix + EVENTS, bytes(15 * MB), b"tenant/session", 0)
    assert producer.flush(60) == 0


def peak_bytes(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="a process' peak is read from /proc")
def test_a_worker_outlives_a_batch_of_hundreds_of_megabytes_and_rejects_its_records(
    kafka: str, tmp_path: Path, redis_url: str
) -> None:
    settings = new_settings(kafka, redis_url, window_ms=500)
    good = [encoded(event(event_id=f"e-{n}", sequence=n)) for n in range(4)]
    with running(settings, tmp_path, "worker", "materialiser", partitions=1) as pipeline:
        worker = pipeline.processes["worker"]
        before = peak_bytes(worker.pid)
        send(settings, "zstd", *good[:2])
        send(settings, "zstd", bytes(300 * MB))
        send(settings, "gzip", bytes(100 * MB))
        send(settings, "lz4", *good[2:])
        wait_for_all(settings)
        assert worker.poll() is None
        assert peak_bytes(worker.pid) < before + 4 * UNPACKED_BYTES
        report = verify(settings)
    assert report.conserved, report.violations
    again = replay(settings)
    assert again.identical, [stream.examples for stream in again.streams]
    assert report.rejections == {"unreadable_batch": 2}
    assert [episode["id"] for episode in values(settings, EPISODES)] == ["e-0", "e-1", "e-2", "e-3"]


def test_every_record_inside_such_a_batch_is_explained_and_also_before_a_worker_has_read_it(
    kafka: str, tmp_path: Path, redis_url: str
) -> None:
    """The audit's client names the batch by its first offset, wherever in it one begins to read. No user states
    anything, so no tick comes in between."""
    settings = new_settings(kafka, redis_url, window_ms=500)
    said = {"role": "assistant", "text": "Done."}
    good = [encoded(event(event_id=f"e-{n}", sequence=n, content=said)) for n in range(4)]

    def outcomes(*offsets: int) -> list[str]:
        return [explain(settings, (0, offset)).outcome for offset in offsets]

    with running(settings, tmp_path, "worker", partitions=1):
        send(settings, "lz4", *good[:2])
        send_together(settings, "zstd", 20)
        send(settings, "lz4", *good[2:])
        wait_for_stages(settings)
    assert outcomes(1, 2, 12, 21, 22) == ["released", "rejected", "rejected", "rejected", "released"]
    found = explain(settings, (0, 12))
    assert (found.because["reason"], found.in_order) == ("unreadable_batch", True)
    read = verify(settings)
    assert (read.conserved, read.rejections) == (True, {"unreadable_batch": 20})
    send_together(settings, "zstd", 20)
    (first,) = (part.position for part in read.partitions)
    assert outcomes(first, first + 10, 12) == ["pending", "pending", "rejected"]
    report = verify(settings)
    assert (report.conserved, report.rejections) == (True, read.rejections)
    assert report.partitions[0].pending == read.partitions[0].pending + 20
