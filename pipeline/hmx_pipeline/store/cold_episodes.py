"""Cold episodes: those that a tenant's policy `hot` has taken out of Redis, read from the archive.

Enters: a tenant, and the erasures so far. Leaves: its index for a search, or single episodes; nothing that is erased.
An episode that is old when it comes is there once it is archived. Raises ArchiveError if they can't be read, or not in
time, and what reading Kafka raises.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import cached_property
from typing import Any, Final, NamedTuple

import orjson

from hmx_pipeline.contracts.episode import NOBODY_KNOWN, subject_of
from hmx_pipeline.contracts.keys import session_key, split_key
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.kafka.clients import Cluster, Watermarks, read_partition
from hmx_pipeline.settings import Settings, SettingsError
from hmx_pipeline.store.archive import ArchivedPartition, ArchiveError, MemoryArchive
from hmx_pipeline.store.changes import Changes
from hmx_pipeline.store.cold_index import ColdIndex, IndexPart, joined
from hmx_pipeline.store.erased_memory import Erasures
from hmx_pipeline.store.projection import ProjectionError, TopicRecord, project
from hmx_pipeline.store.redis_keys import Keys
from hmx_pipeline.store.tenant_index import Recent
from hmx_pipeline.topology import EPISODES

READ_S: Final = 8.0
"""How long a question may read the archive. What it has read is kept, so that the next one begins further on."""
KEPT_BYTES: Final = 256 * MB
"""Of the index of cold episodes, of all tenants."""
_LEAST: Final = 500
"""Estimated bytes of an entry, and of a path."""
TOO_MANY: Final = "the tenant has more cold episodes than a question may read"
READERS: Final = 16
Json = dict[str, Any]


class ColdPast(NamedTuple):
    """Where a tenant's cold episodes are, as Redis knows it."""

    before: int
    """The moment before which episodes are cold; 0 if none are."""
    topic_id: str = ""


class Said(NamedTuple):
    session: str
    subject: str
    is_cold: bool


class _Kept(NamedTuple):
    """The index of the files read so far."""

    paths: frozenset[str] = frozenset()
    part: IndexPart = IndexPart()
    full: bool = False
    """There are too many."""


class _OthersOut(NamedTuple):
    """Leaves out what is not cold."""

    erasures: Erasures

    def hides_episode(self, fields: Json) -> bool:
        return self.erasures.hides_episode(fields) or not self.erasures.cooled(fields)

    def cooled(self, fields: Json) -> int:
        return 0

    def hides_contribution(self, *_: object) -> bool:
        return True


def cold_part(tenant_id: str, records: Iterable[TopicRecord], erasures: Erasures) -> IndexPart:
    """Returns what Redis would hold for a search of the cold ones among a tenant's episodes."""
    changes = Changes(Keys(), None, _OthersOut(erasures))
    for record in records:
        with suppress(ProjectionError):  # it is not in Redis either
            project(changes, record)
    return IndexPart.of(changes.of(tenant_id))


class ColdEpisodes:
    """Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._kept: Recent[_Kept] = Recent(KEPT_BYTES)

    @cached_property
    def _archive(self) -> MemoryArchive:
        try:
            archive = MemoryArchive.of(self._settings)
        except SettingsError as error:
            raise ArchiveError(str(error)) from None
        if not archive:
            raise ArchiveError("HMX_ARCHIVE is not set here")
        return archive

    def index(self, tenant_id: str, topic_id: str, erasures: Erasures) -> ColdIndex:
        """Returns the index of all of a tenant's cold episodes, without a model's vectors."""
        key = tenant_id, topic_id, erasures.digests().get(tenant_id, ""), erasures.cold_before(tenant_id)
        kept = self._kept.known([key])[0] or _Kept()
        if kept.full:
            raise ArchiveError(TOO_MANY)
        parts, read, size = [kept.part], list[str](), kept.part.nbytes
        unread = [path for path in self._paths(tenant_id, topic_id) if path not in kept.paths]
        try:
            for some, records in self._read(unread, time.monotonic() + READ_S):
                parts.append(cold_part(tenant_id, records, erasures))
                read += some
                if (size := size + parts[-1].nbytes) > KEPT_BYTES:
                    read = []
                    self._kept.put(key, _Kept(full=True), _LEAST)
                    raise ArchiveError(TOO_MANY)
        finally:
            if read:
                kept = _Kept(kept.paths.union(read), joined(parts))
                self._kept.put(key, kept, kept.part.nbytes + _LEAST * len(kept.paths))
        return ColdIndex(kept.part)

    def with_id(self, tenant_id: str, topic_id: str, erasures: Erasures, event_id: str, day: str = "") -> list[Json]:
        """Returns the cold episodes with an event id, the newest last. `day`: the only one of the log to look at."""
        quoted = orjson.dumps(event_id)
        paths = [path for path in self._paths(tenant_id, topic_id) if not day or f"/day={day}/" in path]
        found = self._cold(paths, erasures, lambda record: quoted in (record.value or b""))
        return [fields for fields in found if fields["id"] == event_id]

    def owner(self, tenant_id: str, topic_id: str, erasures: Erasures, session_id: str) -> str:
        """Returns the first subject that a cold episode of the session names; empty if none does."""
        key = session_key(tenant_id, session_id).encode()
        said = self._cold(self._paths(tenant_id, topic_id), erasures, lambda record: record.key == key)
        return next((name for name in map(subject_of, said) if name not in ("", NOBODY_KNOWN)), "")

    def said(self, tenant_id: str, topic_id: str, erasures: Erasures) -> Iterator[Said]:
        """Yields whose all episodes of a tenant are that are not erased, however long it takes. What Kafka alone has
        yet is among them."""
        archived = (record for _, records in self._read(self._paths(tenant_id, topic_id)) for record in records)
        seen = set[tuple[int, int]]()
        for records in (archived, self._unarchived(tenant_id, topic_id)):
            for record in records:
                fields = orjson.loads(record.value or b"{}")
                if (record.partition, record.offset) not in seen and not erasures.hides_episode(fields):
                    yield Said(fields["sessionId"], subject_of(fields), erasures.cooled(fields) > 0)
                seen.add((record.partition, record.offset))

    def _cold(self, paths: Sequence[str], erasures: Erasures, wanted: Callable[[TopicRecord], bool]) -> Iterator[Json]:
        hides = _OthersOut(erasures).hides_episode
        for _, records in self._read(paths, time.monotonic() + READ_S):
            found = (orjson.loads(record.value or b"{}") for record in records if wanted(record))
            yield from (fields for fields in found if not hides(fields))

    def _paths(self, tenant_id: str, topic_id: str) -> list[str]:
        """Returns the tenant's files of this topic, as the log was appended."""
        archive = self._archive  # says so if a package is missing
        from hmx_pipeline.store.archive_format import tenant_folder

        name = str(ArchivedPartition(EPISODES, topic_id, 0)).rpartition("-")[0]
        folder = f"{self._settings.topic_prefix}{EPISODES}/{tenant_folder(tenant_id)}"
        found = (path.rpartition("/") for path in archive.paths(folder))
        own = [(file, day) for day, _, file in found if file.rsplit("-", 2)[0] == name]
        if not own:
            raise ArchiveError("it has nothing of the tenant yet, or HMX_ARCHIVE is not that of the materialiser")
        return [f"{day}/{file}" for file, day in sorted(own)]

    def _read(
        self, paths: Sequence[str], until: float | None = None
    ) -> Iterator[tuple[Sequence[str], list[TopicRecord]]]:
        """Yields some files at a time, and their records."""
        with ThreadPoolExecutor(READERS) as pool:
            for start in range(0, len(paths), READERS):
                if until is not None and time.monotonic() > until:
                    left = len(paths) - start
                    raise ArchiveError(f"{left} of its files were not read within {READ_S:g} s: ask again")
                some = paths[start : start + READERS]
                yield some, [row.record for rows in pool.map(self._archive.rows, some) for row in rows]

    def _unarchived(self, tenant_id: str, topic_id: str) -> Iterator[TopicRecord]:
        kafka, name = self._settings.require_kafka(), self._settings.topic_prefix + EPISODES
        with closing(Cluster(kafka)) as cluster:
            for number in range(cluster.topic(name).partitions):
                last = self._archive.last(ArchivedPartition(EPISODES, topic_id, number))
                start = 0 if last is None else last.start if last.folders is None else last.end
                low, end = cluster.watermarks(name, number).low, cluster.stable_end(name, number)
                for message in read_partition(kafka, name, number, Watermarks(max(low, start), end)):
                    key = message.key() or b""
                    if split_key(key.decode(errors="replace"))[0] == tenant_id:
                        yield TopicRecord(EPISODES, number, message.offset() or 0, key, message.value())
