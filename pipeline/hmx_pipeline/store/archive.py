"""Archive: copies of the records that memory is made from, in a folder or object store, beyond Kafka's retention.

    <topic>/tenant=acme/day=2026-03-14/<topic id>-<partition>-<first offset>.parquet
    <topic>/chunks/<topic id>-<partition>/<first offset>.json

A chunk is a range of offsets of one partition. Its JSON file is created first, by exactly one process, and fixes the
range. A process that finds a chunk without its list of files writes the same files again. Enters: HMX_ARCHIVE. Leaves:
records by offset. Raises ArchiveError. Without HMX_ARCHIVE the archive is empty.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias

import orjson

from hmx_pipeline.settings import Settings, SettingsError
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.topology import EPISODES, EVIDENCE

if TYPE_CHECKING:
    from hmx_pipeline.store.archive_format import ArchivedRecord

ARCHIVED: Final = (EPISODES, EVIDENCE)
"""The topics that memory is made from and that have a retention."""
_OFFSET: Final = attrgetter("offset")
_NO_FOLDERS: Final = str.maketrans("+/", "-_")
"""A topic's id is in base64."""
_URL: Final = re.compile(r"[a-z0-9]+://")

Objects: TypeAlias = Any
"""A store of obstore, which is an optional package."""


class ArchiveError(Exception):
    """The archive cannot be read or written now; the message says why."""


class ArchivedPartition(NamedTuple):
    topic: str
    """Without the prefix."""
    topic_id: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic_id.translate(_NO_FOLDERS)}-{self.number}"


class ArchivedChunk(NamedTuple):
    records: list[TopicRecord]
    end: int


@dataclass(frozen=True, slots=True)
class ArchivedRange:
    start: int
    end: int
    folders: Sequence[str] | None = None
    """Tenant and day of each of its files; None until all are written."""
    low: int = 0
    """First offset that Kafka still had when the files were written."""

    def covers(self, start: int, end: int) -> int:
        """Returns how many offsets of the range are in it."""
        return 0 if self.folders is None else max(0, min(self.end, end) - max(self.start, self.low, start))


class MemoryArchive:
    """Not for several threads. Without `objects` it is empty."""

    def __init__(self, objects: Objects, prefix: str) -> None:
        self._objects = objects
        self._prefix = prefix
        self._known: dict[ArchivedPartition, list[ArchivedRange]] = {}
        """The finished chunks from the first on."""
        self._newest: dict[ArchivedPartition, str] = {}

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Raises SettingsError."""
        if not settings.archive:
            return cls(None, settings.topic_prefix)
        try:
            import pyarrow as pa  # noqa: F401  it is used by archive_format, and missed here
            from obstore.store import LocalStore, from_url
        except ImportError as error:
            raise SettingsError("HMX_ARCHIVE needs `hmx-pipeline[archive]`: install it, or unset it") from error
        try:
            url = _URL.match(settings.archive)
            objects = from_url(settings.archive) if url else LocalStore(Path(settings.archive).absolute(), mkdir=True)
        except Exception as error:  # obstore's errors have no base class
            raise SettingsError(f"HMX_ARCHIVE={settings.archive!r} cannot be opened: {_first_line(error)}") from error
        return cls(objects, settings.topic_prefix)

    def __bool__(self) -> bool:
        return self._objects is not None

    def chunks(self, source: ArchivedPartition) -> list[ArchivedRange]:
        """Returns all chunks of a partition, in order; only the last one may be unfinished."""
        if self._objects is None:
            return []
        known, root = self._known.setdefault(source, []), self._chunks(source)
        last = f"{root}/{known[-1].start:020d}.json" if known else None
        found = [ArchivedRange(**orjson.loads(self.get(path))) for path in sorted(self.paths(root, last))]
        known += (chunk for chunk in found if chunk.folders is not None)
        return known + [chunk for chunk in found if chunk.folders is None]

    def last(self, source: ArchivedPartition) -> ArchivedRange | None:
        """Returns the last chunk of a partition, finished or not."""
        newest = max(self.paths(self._chunks(source), self._newest.get(source)), default=self._newest.get(source))
        if newest is None:
            return None
        self._newest[source] = newest
        return ArchivedRange(**orjson.loads(self.get(newest)))

    def lacking(self, source: ArchivedPartition, start: int, end: int) -> int:
        """Returns how many offsets of a range are not archived."""
        if start >= end:
            return 0
        return end - start - sum(chunk.covers(start, end) for chunk in self.chunks(source))

    def records(self, source: ArchivedPartition, start: int, end: int) -> Iterator[ArchivedChunk]:
        """Yields what is archived of a range of offsets, in order."""
        for chunk in self.chunks(source) if start < end else ():
            if chunk.covers(start, end):
                found = (each for folder in chunk.folders or () for each in self.rows(self.file(source, chunk, folder)))
                wanted = sorted((row.record for row in found if start <= row.record.offset < end), key=_OFFSET)
                yield ArchivedChunk(wanted, min(chunk.end, end))

    def rows(self, path: str) -> "list[ArchivedRecord]":
        """Returns a file's rows."""
        from hmx_pipeline.store.archive_format import read

        topic, number = path.removeprefix(self._prefix).partition("/")[0], path.rpartition("-")[0].rpartition("-")[2]
        with _told(path):
            return read(self.get(path), topic, int(number))

    def file(self, source: ArchivedPartition, chunk: ArchivedRange, folder: str) -> str:
        return f"{self._prefix}{source.topic}/{folder}/{source}-{chunk.start:020d}.parquet"

    def paths(self, folder: str, after: str | None = None) -> Iterator[str]:
        """Yields the files in a folder whose names come after another's, in no order."""
        import obstore

        with _told(folder):
            for page in obstore.list(self._objects, folder, offset=after):
                yield from (each["path"] for each in page)

    def get(self, path: str) -> bytes:
        import obstore

        with _told(path):
            return bytes(obstore.get(self._objects, path).bytes())

    def put(self, path: str, held: bytes) -> None:
        """Writes or replaces a file, all of it or nothing."""
        import obstore

        with _told(path):
            obstore.put(self._objects, path, held)

    def begin(self, source: ArchivedPartition, chunk: ArchivedRange) -> bool:
        """Creates a chunk; returns False if another process was first."""
        import obstore

        with _told(path := self._chunk(source, chunk)):
            try:
                obstore.put(self._objects, path, orjson.dumps(chunk), mode="create")
            except obstore.exceptions.AlreadyExistsError:
                return False
        return True

    def finish(self, source: ArchivedPartition, chunk: ArchivedRange) -> None:
        self.put(self._chunk(source, chunk), orjson.dumps(chunk))

    def adopt(self, old: ArchivedPartition, new: ArchivedPartition, end: int) -> None:
        """Copies what is archived of a partition's offsets below `end`, for a topic that was restored with them."""
        import obstore

        for chunk in self.chunks(old):
            if chunk.folders is None or chunk.end > end:
                continue
            for folder in chunk.folders:
                with _told(path := self.file(old, chunk, folder)):
                    obstore.copy(self._objects, path, self.file(new, chunk, folder))
            self.begin(new, chunk)

    def _chunks(self, source: ArchivedPartition) -> str:
        return f"{self._prefix}{source.topic}/chunks/{source}"

    def _chunk(self, source: ArchivedPartition, chunk: ArchivedRange) -> str:
        return f"{self._chunks(source)}/{chunk.start:020d}.json"


@contextmanager
def _told(path: str) -> Iterator[None]:
    """Turns what the packages raise into ArchiveError."""
    try:
        yield
    except ArchiveError:
        raise
    except Exception as error:  # these errors have no common base class
        raise ArchiveError(f"the archive's {path}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
