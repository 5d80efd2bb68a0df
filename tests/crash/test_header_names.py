"""A header's name is any bytes to Kafka: a record with one that is no text passes, and its outcome is proven."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import CorruptRecordException
from aiokafka.producer import message_accumulator, producer
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy

from hmx_pipeline.audit.pipeline_conservation import verify
from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EPISODES, EVENTS
from hmx_pipeline.worker.fetched_records import TolerantBatch
from tests.support.events import encoded, event
from tests.support.pipeline import new_settings, running
from tests.support.topics import values

BAD = (b"\xff", b"trac\xe9-id", b"half \xed\xa0\x80", b"n\x00\xff\x00", b"\xff" * 300)
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


class Raw(str):
    """A header's name of bytes that are no text, for the one builder that asks a name for its bytes."""

    __slots__ = ("raw",)
    raw: bytes

    def __new__(cls, raw: bytes) -> "Raw":
        made = super().__new__(cls, "raw")
        made.raw = raw
        return made

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return self.raw


Sent = Sequence[tuple[str, bytes | None]]


def batch(*records: Sent, codec: int = 0) -> bytes:
    builder = _DefaultRecordBatchBuilderPy(2, codec, 0, -1, -1, -1, 1 << 20)
    for offset, headers in enumerate(records):
        builder.append(offset, 1_000 + offset, b"key %d" % offset, b"value" * 100, list(headers))
    return bytes(builder.build())


def parsed(data: bytes) -> list[tuple[Any, ...]]:
    return [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in TolerantBatch(memoryview(data))]


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_a_batch_with_unreadable_names_gives_every_record_once(codec: int) -> None:
    good: Sent = [("gr\u00fcn", b"1"), ("\\xff", None), ("", b"")]
    headers: list[Sent] = [good, *([("a", b"1"), (Raw(name), b"2"), ("b", None)] for name in BAD), good, []]
    found = parsed(batch(*headers, codec=codec))
    assert [record[:4] for record in found] == [
        (n, 1_000 + n, b"key %d" % n, b"value" * 100) for n in range(len(headers))
    ]
    cut = [("a", b"1"), ("n", b"2"), ("b", None)]  # to its NUL, as librdkafka reads it
    none: Sent = []
    assert [record[4] for record in found] == [good, none, none, none, cut, none, good, none]


def test_a_batch_that_is_damaged_otherwise_still_raises() -> None:
    data = bytearray(batch([], [(Raw(b"\xff"), b"1")], []))
    data[-1] = 2  # one header more than there is
    with pytest.raises(CorruptRecordException):
        parsed(bytes(data))


async def send(settings: Settings, records: Sequence[tuple[bytes, Sent]]) -> None:
    """In one batch, so that records before and after a bad one are in it."""
    client = AIOKafkaProducer(bootstrap_servers=settings.kafka_bootstrap, linger_ms=100)
    await client.start()
    try:
        topic = settings.topic_prefix + EVENTS
        for value, headers in records:
            await client.send(topic, value, headers=list(headers), partition=0)
        await client.flush()
    finally:
        await client.stop()


def test_records_with_unreadable_names_are_released_rejected_rerouted_and_proven(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    for module in (message_accumulator, producer):
        monkeypatch.setattr(module, "DefaultRecordBatchBuilder", _DefaultRecordBatchBuilderPy)
    settings = new_settings(kafka, redis_url, window_ms=500)
    with running(settings, tmp_path, "worker", "materialiser") as pipeline:
        records: list[tuple[bytes, Sent]] = []
        for number, name in enumerate(BAD):
            headers: Sent = [("a", b"1"), (Raw(name), b"2")]
            records += [
                (encoded(event(session_id=f"s{other}", event_id=f"{number}-{other}", sequence=number)), headers)
                for other in range(6)
            ]
            records += [(b"no JSON", headers), (b"no JSON", [("fine", b"1")])]
        asyncio.run(send(settings, records))
        wait_for_all(settings)
        assert pipeline.processes["worker"].poll() is None
        report = verify(settings)
    assert report.conserved, report.violations
    assert report.outcomes["rejected"] == 2 * len(BAD)
    assert report.outcomes["rerouted"] > 0
    assert len(values(settings, EPISODES)) == 6 * len(BAD)
