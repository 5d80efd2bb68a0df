"""Source rows: topic records as the audits hold them, with unreadable batches as the worker saw them.

Enters: a topic, a partition, two offsets, and the dead letters that name unreadable records. Leaves: its `Record`s in
offset order, with placeholders for unreadable ones where a stage's source is read. The worker rejects a record batch
that exceeds its decompression limit. The audit's client may still read such a batch, so records that a dead letter
calls unreadable are treated as unreadable here too.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hmx_pipeline.contracts.headers import LOG_TIME, REASON, header, origin_of
from hmx_pipeline.contracts.rejections import UNREADABLE, Reason
from hmx_pipeline.kafka.clients import Cluster, Watermarks, read_partition
from hmx_pipeline.queries.rejected_records import row_of
from hmx_pipeline.stages.fold import Record
from hmx_pipeline.topology import Stage

Row = Record


class TopicRows:
    """Reads an installation's topics; `reading` goes to the Kafka client. Dead letters are read once per partition."""

    def __init__(self, cluster: Cluster, prefix: str, **reading: Any) -> None:
        self._cluster = cluster
        self._prefix = prefix
        self._reading = reading
        self._told: dict[tuple[str, int], dict[int, int]] = {}

    def marks(self, topic: str, partition: int) -> Watermarks:
        return self._cluster.watermarks(self._prefix + topic, partition)

    def rows(self, topic: str, partition: int, marks: Watermarks | None = None, **reading: Any) -> Iterator[Row]:
        """Yields committed records between the watermarks; by default all."""
        marks = marks or self.marks(topic, partition)
        name, asked = self._prefix + topic, self._reading | reading
        return map(row_of, read_partition(self._cluster.kafka, name, partition, marks, **asked))

    def source(self, stage: Stage, partition: int, marks: Watermarks) -> Iterator[Row]:
        letters = (stage.dead_letters, partition)
        if letters not in self._told:
            self._told[letters] = told_unreadable(self.rows(*letters))
        told = {n: at for n, at in self._told[letters].items() if marks.low <= n < marks.high}
        return as_read(self.rows(stage.source, partition, marks, unreadable=told), partition, told)


def told_unreadable(letters: Iterable[Record]) -> dict[int, int]:
    """Returns offset → append time of the records that these dead letters call unreadable."""
    told = {}
    for letter in letters:
        if header(letter.headers, REASON) != Reason.UNREADABLE_BATCH.encode():
            continue
        origin, log_time = origin_of(letter.headers), header(letter.headers, LOG_TIME) or b""
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
