"""Fetched records: a tolerant replacement of aiokafka's record parser, with bounded decompression.

Header names that are not UTF-8 make aiokafka's parser raise for ever at that offset, and Kafka limits only the
compressed size of a batch. Enters: the bytes of a batch. Leaves: its records. A record with such a name has no headers,
as in kafka.clients.headers_of; the records of a batch beyond the limit have the value UNREADABLE and nothing else.
Raises CorruptRecordException, as aiokafka does.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple, SupportsIndex

from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record import memory_records
from aiokafka.record.default_records import DefaultRecordBatch, _DefaultRecordBatchPy
from aiokafka.structs import TopicPartition

from hmx_pipeline.contracts.headers import Headers
from hmx_pipeline.contracts.rejections import UNREADABLE
from hmx_pipeline.stages.fold import Record
from hmx_pipeline.worker.decompression import UnpackingError, unpacked


def replace_parser() -> None:
    """Replaces the parser of all fetchers in this process; aiokafka offers no other way."""
    memory_records.DefaultRecordBatch = TolerantBatch
    fetcher.MemoryRecords = memory_records._MemoryRecordsPy
    fetcher.PartitionRecords._consumer_record = _fetched


def _fetched(_: Any, tp: TopicPartition, record: Any) -> Record:
    return Record(tp.partition, record.offset, record.timestamp, record.key, record.value, record.headers)


class _Unreadable(NamedTuple):
    """A record known only by its place, shaped like those of aiokafka's parser."""

    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = UNREADABLE
    headers: Headers = ()


class TolerantBatch:
    """Parses with aiokafka's fast parser; from a record that it rejects on, with the slow one."""

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
        except (UnicodeDecodeError, CorruptRecordException):  # the latter without the fast parser
            yield from islice(_tolerant(self._buffer), read, None)

    def _unpack(self) -> None:
        if codec := self._batch.compression_type:
            self._buffer = unpacked(self._buffer, codec)
            self._batch = DefaultRecordBatch(self._buffer)

    def _unreadable(self) -> Iterator[_Unreadable]:
        """Yields one record per offset, since an uncompacted log has no gaps; lazily, because there may be many."""
        for offset in range(self._batch.base_offset, self._batch.next_offset):
            yield _Unreadable(offset, self._batch.max_timestamp)


def _tolerant(buffer: memoryview | bytes) -> Iterator[Any]:
    batch = _DefaultRecordBatchPy(buffer)
    batch._buffer = _NameBuffer(batch._buffer)
    for record in batch:
        if not all(_readable(name) for name, _ in record.headers):
            record.headers.clear()
        yield record


def _readable(name: str) -> bool:
    return not any("\udc80" <= character <= "\udcff" for character in name)


class _NameBuffer(bytearray):
    """The buffer from which aiokafka decodes header names; like in librdkafka a name ends at NUL."""

    def __getitem__(self, at: SupportsIndex | slice) -> Any:
        found = super().__getitem__(at)
        return _NameBuffer(found) if isinstance(found, bytearray) else found

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return bytes(self).partition(b"\0")[0].decode(encoding, "surrogateescape")
