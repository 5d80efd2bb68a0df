"""Source rows: topic records as the audits hold them, with unreadable batches as the worker saw them.

The worker rejects a record batch that exceeds its decompression limit. The audit's client may still read such a batch,
so records that a dead letter calls unreadable are treated as unreadable here too.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from confluent_kafka import Message

from hmx_pipeline.audit.record_digests import origin_of
from hmx_pipeline.contracts.headers import LOG_TIME, REASON, header
from hmx_pipeline.contracts.rejections import UNREADABLE, Reason
from hmx_pipeline.kafka.clients import Cluster, Watermarks, headers_of, read_partition
from hmx_pipeline.stages.fold import Record

Row = Record


def row_of(message: Message) -> Row:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None, "a fetched record has an offset"
    key: Any = message.key()
    value: Any = message.value()
    return Row(partition, offset, message.timestamp()[1], key, value, headers_of(message))


class SourceRows:
    """Reads a stage's source together with its dead letters, which are read once per partition."""

    def __init__(self, cluster: Cluster, prefix: str) -> None:
        self._cluster = cluster
        self._prefix = prefix
        self._told: dict[tuple[str, int], dict[int, int]] = {}

    def rows(self, topic: str, dead_letters: str, partition: int, marks: Watermarks, **settings: Any) -> Iterator[Row]:
        """Yields committed records between the watermarks; `settings` go to the Kafka client."""
        if (dead_letters, partition) not in self._told:
            name = self._prefix + dead_letters
            ends = self._cluster.watermarks(name, partition)
            letters = map(row_of, read_partition(self._cluster.kafka, name, partition, ends, **settings))
            self._told[dead_letters, partition] = told_unreadable(letters)
        told = {n: at for n, at in self._told[dead_letters, partition].items() if marks.low <= n < marks.high}
        name = self._prefix + topic
        messages = read_partition(self._cluster.kafka, name, partition, marks, unreadable=told, **settings)
        return as_read(map(row_of, messages), partition, told)


def told_unreadable(letters: Iterable[Record]) -> dict[int, int]:
    """Returns offset → append time of the records that these dead letters call unreadable."""
    told = {}
    for letter in letters:
        if header(letter.headers, REASON) != Reason.UNREADABLE_BATCH.encode():
            continue
        origin, log_time = origin_of(letter), header(letter.headers, LOG_TIME) or b""
        if origin is not None and origin[0] == letter.partition and log_time.isdigit():
            told[origin[1]] = int(log_time)
    return told


def as_read(rows: Iterable[Row], partition: int, told: Mapping[int, int]) -> Iterator[Row]:
    """Yields rows in offset order; unreadable records are replaced by placeholders."""
    blank = [Row(partition, offset, told[offset], None, UNREADABLE, []) for offset in sorted(told, reverse=True)]
    for row in rows:
        while blank and blank[-1].offset <= row.offset:
            yield blank.pop()
        if row.offset not in told:
            yield row
    yield from reversed(blank)
