"""Healing: looks for damage in Redis in small steps, and has it repaired from the topics.

Enters: the partitions that `store/materialiser` fills, with their stored positions. Leaves: restored records in Redis,
or RestartError, on which the materialiser rebuilds memory or reads again. A record that was lost or altered is restored
alone. For any other damage memory is rebuilt, unless Kafka has deleted records needed for that: then it stays as it is,
and `advice` says how to rebuild what can be rebuilt. Raises RestartError, StoreUnavailableError and what reading Kafka
raises.
"""

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Final

from hmx_pipeline.kafka.clients import Cluster, Watermarks, headers_of, read_partition
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.store.archive import ArchivedPartition, MemoryArchive
from hmx_pipeline.store.atomic_blocks import Blocks, Client, evictions, reachable
from hmx_pipeline.store.changes import Command
from hmx_pipeline.store.damage_log import Lost
from hmx_pipeline.store.integrity_sweep import IntegritySweep
from hmx_pipeline.store.partition_reader import FilledPartition
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.store.redis_keys import Keys
from hmx_pipeline.store.repair import Hides, Spans, restored, spans, unlisted, whole

LOG: Final = logging.getLogger("hmx.materialiser")
SWEPT_S: Final = 0.03
"""Share of each second spent on looking for damage; at least one step is done."""

Place = tuple[str, int]
Partitions = Mapping[Place, FilledPartition]


class RestartError(Exception):
    """Reading restarts from the stored positions; if `damaged` names kinds of keys, memory is rebuilt first."""

    def __init__(self, why: str, damaged: Set[str] = frozenset()) -> None:
        super().__init__(why)
        self.damaged = damaged


class Healing:
    """`alive` is called while topics are read again, which may take long."""

    def __init__(
        self,
        client: Client,
        keys: Keys,
        blocks: Blocks,
        cluster: Cluster,
        archive: MemoryArchive,
        prefix: str,
        alive: Callable[[], None],
        hides: Hides,
    ) -> None:
        self._client = client
        self._keys = keys
        self._blocks = blocks
        self._cluster = cluster
        self._archive = archive
        self._topic_ids: Mapping[str, str] = {}
        self._prefix = prefix
        self._alive = alive
        self._hides = hides
        self._sweep = IntegritySweep(client, keys)
        self._evicted: tuple[Any, int] | None = None
        self._rebuilt: Counter[str] = Counter()
        """Consecutive rebuilds per kind of key."""
        self._resting: Counter[str] = Counter()
        """Rounds until a kind may be rebuilt again: 1, 2, 4, … Repeated damage may be our own defect."""
        self._broken: set[str] = set()
        """Damaged kinds found in the current round of the sweep."""
        self._sound_round = True
        """Whether the current round of the sweep has found no damage."""
        self.left = set[str]()
        """Kinds that stay damaged, because Kafka has deleted their records."""

    def look(self, partitions: Partitions, topic_ids: Mapping[str, str], *, sweep: bool) -> None:
        """Checks what is quickly checked, and sweeps if asked to. Raises RestartError if memory must be rebuilt."""
        self._topic_ids = topic_ids
        if differ := self._blocks.unguarded([each.name for each in partitions.values()]):
            self._rebuild({"positions", "guard"}, differ[0], partitions)
        with reachable():
            known = self._client.hgetall(self._keys.topics)
            if known != {topic.encode(): each.encode() for topic, each in topic_ids.items()}:
                raise RestartError("Redis was filled from topics with other ids")
            stored = any(each.stored is not None for each in partitions.values())
            if stored and self._client.type(self._keys.filling) != b"string":
                self._client.set(self._keys.filling, os.urandom(16))  # readers may remember any earlier filling
        before, self._evicted = self._evicted, evictions(self._client)
        if before and self._evicted[0] == before[0] and self._evicted[1] > before[1]:
            self._rebuild({"evicted"}, f"{self._evicted[1] - before[1]} keys", partitions)
        if sweep:
            self._look_further(partitions)

    def is_deleted(self, places: Iterable[Place], topic_ids: Mapping[str, str]) -> bool:
        """Returns whether Kafka has deleted records that memory was made from, and the archive lacks some of them."""
        return any(
            self._archive.lacking(ArchivedPartition(topic, topic_ids[topic], number), 0, self._low(topic, number))
            for topic, number in places
        )

    def _low(self, topic: str, number: int) -> int:
        return self._cluster.watermarks(self._prefix + topic, number).low

    def advice(self, kinds: Iterable[str]) -> str:
        return (
            f"keys of kind {', '.join(sorted(kinds))} in Redis are damaged, but retention has deleted records needed "
            "to rebuild them, so memory is left as it is. To rebuild it from the retained records, run: "
            f"redis-cli --scan --pattern '{self._keys.root}:*' | xargs redis-cli UNLINK"
        )

    def _look_further(self, partitions: Partitions) -> None:
        until = time.monotonic() + SWEPT_S
        while time.monotonic() < until:
            found = self._sweep.step()
            if found is None:
                self._end_round()
                return
            self._broken |= found.broken
            self._sound_round = self._sound_round and not (found.lost or found.broken)
            if due := found.broken - self._resting.keys():
                at = self._blocks.positions()
                if any(at.get(each.name, 0) < (each.stored or 0) for each in partitions.values()):
                    raise RestartError("Redis was emptied while it was swept")
                self._rebuilt.update(due)
                self._resting.update({kind: 2 ** (self._rebuilt[kind] - 1) for kind in due})
                self._rebuild(found.broken, "entries derived from the records are missing", partitions)
            if found.lost:
                self._restore(found.lost, partitions)
                return

    def _end_round(self) -> None:
        if self._sound_round:
            self.left = set()
            with reachable():
                self._client.delete(self._keys.damaged)
        self._rebuilt = Counter({kind: times for kind, times in self._rebuilt.items() if kind in self._broken})
        self._resting = Counter({kind: n - 1 for kind, n in self._resting.items() if n > 1 and kind in self._rebuilt})
        self._broken, self._sound_round = set(), True

    def _rebuild(self, kinds: set[str], why: str, partitions: Partitions) -> None:
        for kind in sorted(kinds):
            METRICS.provenance_failed.labels(kind).inc()
        if kinds.isdisjoint({"positions", "guard"}) and self.is_deleted(partitions, self._topic_ids):
            self.left |= kinds
            LOG.error(self.advice(self.left))
            return
        named = ", ".join(sorted(kinds))
        raise RestartError(f"keys of kind {named} in Redis are damaged ({why}): memory is rebuilt", kinds)

    def _restore(self, lost: Sequence[Lost], partitions: Partitions) -> None:
        """Restores records from their topics, up to the stored positions."""
        stored = {place: each.stored for place, each in partitions.items() if each.stored is not None}
        everything = whole(lost, stored)
        found = restored(self._keys, lost, self._read_again(spans(self._client, lost, stored)), self._hides)
        if found.missing:  # the noted place may be damaged too
            found = restored(self._keys, lost, self._read_again(everything), self._hides)
        for each in set(lost):
            missing = each in found.missing
            places = everything if missing else found.places
            commands = [*found.commands[each], *(unlisted(self._client, each) if missing else ())]
            if not self._mend(each, {place: stored[place] for place in places}, commands):
                continue
            if missing:
                LOG.error("%s was lost or altered in Redis and is deleted, because its topic no longer holds it", each)
            else:
                METRICS.memory_mended.labels(each.kind).inc()
                LOG.error("%s was lost or altered in Redis and is restored from its topic", each)
        if found.missing:
            self._blocks.read_again()

    def _mend(self, lost: Lost, stored: Mapping[Place, int], commands: list[Command]) -> bool:
        mended = self._blocks.mend({f"{topic}/{number}": at for (topic, number), at in stored.items()}, commands)
        if not mended:
            LOG.error("%s is lost or altered in Redis; its repair collided with a new block and is retried", lost)
        return mended

    def _read_again(self, wanted: Spans) -> Iterator[TopicRecord]:
        for (topic, number), (start, end) in wanted.items():
            low = max(start, self._low(topic, number))
            for chunk in self._archive.records(
                ArchivedPartition(topic, self._topic_ids[topic], number), start, min(low, end)
            ):
                self._alive()
                yield from chunk.records
            name = self._prefix + topic
            for message in read_partition(self._cluster.kafka, name, number, Watermarks(low, end)):
                self._alive()
                offset = message.offset() or 0
                yield TopicRecord(topic, number, offset, message.key() or b"", message.value(), headers_of(message))
