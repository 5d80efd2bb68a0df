"""The records of a fetch: what a fold wants to know and no more; whatever a producer packs, the fetch comes to its end.

Kafka takes any bytes for a header's name, aiokafka's parser raises for those that are no UTF-8: the fetch would fail at
that offset for ever. And Kafka bounds a batch as it is packed: a few kilobytes may become gigabytes here. Enters: the
bytes of a batch. Leaves: its records; one with such a name has no headers, which is what the audit sees of it too
(kafka.clients.headers_of); those of a batch that does not unpack within the bound have UNREADABLE for a value and
nothing else. Fails: CorruptRecordException, as aiokafka's own.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple, SupportsIndex

from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record import memory_records
from aiokafka.record.default_records import DefaultRecordBatch, _DefaultRecordBatchPy
from aiokafka.structs import TopicPartition

from pipeline.contracts.headers import Headers
from pipeline.contracts.rejections import UNREADABLE
from pipeline.stages.fold import Record
from pipeline.worker.unpacking import UnpackingError, unpacked


def replace_parser() -> None:
    """Every fetcher of this process: aiokafka has no way to give one its own parser."""
    memory_records.DefaultRecordBatch = TolerantBatch
    fetcher.MemoryRecords = memory_records._MemoryRecordsPy
    fetcher.PartitionRecords._consumer_record = _fetched


def _fetched(_: Any, tp: TopicPartition, record: Any) -> Record:
    return Record(tp.partition, record.offset, record.timestamp, record.key, record.value, record.headers)


class _Unreadable(NamedTuple):
    """A record as aiokafka's parser would give it, of which only the place is known."""

    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = UNREADABLE
    headers: Headers = ()


class TolerantBatch:
    """aiokafka's fast batch; where that fails at a record, the slow parser goes on from there."""

    def __init__(self, buffer: memoryview) -> None:
        self._buffer: memoryview | bytes = buffer
        self._batch: Any = DefaultRecordBatch(buffer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        try:
            self._unpack()
        except UnpackingError:
            yield from self._unreadable()
            return
        read = 0
        try:
            for record in self._batch:
                yield record
                read += 1
        except (UnicodeDecodeError, CorruptRecordException):  # the latter where the fast parser is not installed
            yield from islice(_tolerant(self._buffer), read, None)

    def _unpack(self) -> None:
        if codec := self._batch.compression_type:
            self._buffer = unpacked(self._buffer, codec)
            self._batch = DefaultRecordBatch(self._buffer)

    def _unreadable(self) -> Iterator[_Unreadable]:
        """One for each offset of the batch: a log that is never compacted has no holes there. A generator: there may be
        as many as a producer likes."""
        for offset in range(self._batch.base_offset, self._batch.next_offset):
            yield _Unreadable(offset, self._batch.max_timestamp)


def _tolerant(buffer: memoryview | bytes) -> Iterator[Any]:
    batch = _DefaultRecordBatchPy(buffer)
    batch._buffer = _Names(batch._buffer)
    for record in batch:
        if not all(_readable(name) for name, _ in record.headers):
            record.headers.clear()
        yield record


def _readable(name: str) -> bool:
    return not any("\udc80" <= character <= "\udcff" for character in name)


class _Names(bytearray):
    """What aiokafka cuts names from, the only thing that it decodes. To librdkafka a name ends at a NUL."""

    def __getitem__(self, at: SupportsIndex | slice) -> Any:
        found = super().__getitem__(at)
        return _Names(found) if isinstance(found, bytearray) else found

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return bytes(self).partition(b"\0")[0].decode(encoding, "surrogateescape")
