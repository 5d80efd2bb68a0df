"""Materialiser: writes topics into Redis, which always matches the topic positions stored with it.

Enters: records of topology.MATERIALISED, read_committed, from the positions in Redis or else from the start; so an
emptied Redis is refilled, also while running. Leaves: atomic blocks (see store.atomic_blocks). Several processes share
the work (see `_share`). If Kafka or Redis is down it retries. Raises MaterialiserError if continuing would corrupt
memory.
"""

import logging
import random
import sys
import threading
import time
from collections.abc import Mapping, Sequence, Set
from contextlib import closing
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from hmx_pipeline.kafka.acl_rights import MissingRightsError
from hmx_pipeline.kafka.client_login import denied
from hmx_pipeline.kafka.clients import Cluster
from hmx_pipeline.kafka.erasure_marks import erasure_marks, mark_in
from hmx_pipeline.kafka.topic_files import KafkaUnreachableError, settled
from hmx_pipeline.observe import logs
from hmx_pipeline.observe.allocator import collect_seldom
from hmx_pipeline.observe.freshness import Behind, behind, verdict
from hmx_pipeline.observe.health_server import Answer, serve_health
from hmx_pipeline.observe.metrics import METRICS, replace
from hmx_pipeline.settings import Settings, SettingsError
from hmx_pipeline.store import atomic_blocks
from hmx_pipeline.store.archive import ArchivedPartition, ArchiveError, MemoryArchive
from hmx_pipeline.store.block_builder import BLOCK_RECORDS, BlockBuilder
from hmx_pipeline.store.blocks_ahead import BlocksAhead
from hmx_pipeline.store.changes import Command
from hmx_pipeline.store.embedding_model import Semantic
from hmx_pipeline.store.erased_memory import Erasures, erase_tenant
from hmx_pipeline.store.healing import Healing, RestartError
from hmx_pipeline.store.layouts import Layouts
from hmx_pipeline.store.partition_reader import (
    FilledPartition,
    ReadRecords,
    appended_ms,
    poll,
    read,
    reader,
    taken_over,
)
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.store.redis_keys import Keys
from hmx_pipeline.store.servers import connected, own_server
from hmx_pipeline.store.topic_ids import forget_damaged, forget_recreated
from hmx_pipeline.topology import EPISODES, ERASURES, MATERIALISED

LOG: Final = logging.getLogger("hmx.materialiser")

ANSWER_S: Final = 10.0
CHECK_S: Final = 1.0
QUIET_S: Final = 60.0
QUIET_CHECK_S: Final = 30.0
"""How often an idle process checks Redis and Kafka for changes, and how often once nothing has come for QUIET_S."""
SHARED_RECORDS: Final = 4 * BLOCK_RECORDS
"""Lag from which an idle process helps with a partition that another one fills."""
SWITCH_S: Final = 0.001
"""Thread switch interval: while one block is built, the writing thread waits this long at most."""
BACKOFF_S: Final = (0.2, 10.0)
"""First and longest pause between retries; each is shortened randomly by up to half, so that processes do not retry
in step."""
POLICY_S: Final = 30.0
"""How often the eviction policy of Redis is checked."""
STUCK_S: Final = 60.0


class MaterialiserError(SettingsError):
    """Memory would become wrong; the message says what to do."""


class Materialiser:
    """`run` blocks until told to stop; the other methods are thread-safe."""

    def __init__(self, settings: Settings) -> None:
        """Raises SettingsError if Kafka or Redis is not configured."""
        self._address = (settings.host, settings.materialiser_port)
        self._most_behind_s = settings.ready_lag_s
        self._prefix = settings.topic_prefix
        self._kafka = settings.require_kafka()
        server, clients = own_server(settings), connected(settings)
        self._client = clients[server]
        semantic = Semantic.of(settings)
        self._keys = Keys(settings.topic_prefix, semantic.name if semantic else "", len(clients))
        self._blocks = atomic_blocks.Blocks(self._client, self._keys)
        self._layouts = Layouts(self._client, self._keys)
        self._cluster = Cluster(self._kafka)
        self._silent = self._cluster.answers(self._prefix + EPISODES, "materialiser").why_not
        self._topic_ids: dict[str, str] = {}
        self._partitions: dict[tuple[str, int], FilledPartition] = {}
        self._ahead = BlocksAhead()
        self._trouble = "starting"
        self._turn = 0
        self._began = False
        self._damaged: Set[str] = frozenset()
        """Kinds of damaged keys for which memory is about to be rebuilt."""
        self._archive = MemoryArchive.of(settings)
        self._cut: dict[str, tuple[int, int]] = {}
        """Where a partition was read from, and up to where what it lacks is noted: reading may begin again."""
        self._erasures = Erasures()
        kept = self._client, self._keys, self._blocks, self._cluster, self._archive
        self._healing = Healing(*kept, self._prefix, self._alive, self._erasures.hides)
        self._embed = semantic.vector if semantic else None
        self._builder = BlockBuilder(self._keys, self._embed, self._erasures, self._alive, server)
        self._policy_asked = 0.0
        self._beat = time.monotonic()

    def run(self, stop: threading.Event) -> None:
        """Serves health and metrics, and reads until stopped. Raises MaterialiserError, and SettingsError if the
        port is taken."""
        server = serve_health(*self._address, self)
        collect_seldom()
        sys.setswitchinterval(SWITCH_S)
        try:
            self._run(stop)
        finally:
            self._ahead.close()
            self._cluster.close()
            server.shutdown()
            server.server_close()

    def _run(self, stop: threading.Event) -> None:
        backoff = BACKOFF_S[0]
        while not stop.is_set():
            consumer = reader(self._kafka)
            try:
                self._assign(consumer, stop)
                backoff = BACKOFF_S[0]
                self._fill(stop)
                read(consumer, self._prefix, self._partitions.values())
                self._follow(consumer, stop)
            except RestartError as reason:
                METRICS.materialiser_retries.labels("positions").inc()
                LOG.warning("reading again from the stored positions: %s", reason)
                self._damaged |= reason.damaged
            except (atomic_blocks.TornStateError, atomic_blocks.DamagedError) as error:
                backoff = self._wait(stop, "redis", f"{error}; memory is rebuilt", backoff)
                self._damaged = {"torn" if isinstance(error, atomic_blocks.TornStateError) else "mistyped"}
            except atomic_blocks.EvictingError as error:
                if not self._began:
                    raise
                backoff = self._wait(stop, "redis", str(error), backoff)
            except atomic_blocks.StoreUnavailableError as error:
                # The address may now lead to another server; open connections would stay with the old one.
                self._client.connection_pool.disconnect(inuse_connections=False)
                backoff = self._wait(stop, "redis", str(error), backoff)
            except ArchiveError as error:
                backoff = self._wait(stop, "archive", str(error), backoff)
            except (KafkaUnreachableError, MissingRightsError) as error:
                backoff = self._wait(stop, "kafka", str(error), backoff)
            except KafkaException as error:
                backoff = self._wait(stop, "kafka", denied(error.args[0]) or f"Kafka: {error.args[0].str()}", backoff)
            finally:
                self._ahead.drop()
                consumer.close()
        self._trouble = "stopped"

    # called by health checks

    def live(self) -> Answer:
        """Live unless the loop hangs; waiting for Kafka or Redis counts as live."""
        return (silent := time.monotonic() - self._beat) < STUCK_S, f"the loop last ran {silent:.1f} s ago"

    def started(self) -> Answer:
        return not self._trouble, self._trouble or f"reading {len(self._partitions)} partitions"

    def ready(self) -> Answer:
        if trouble := self._trouble or self._silent():
            return False, trouble
        if self._healing.left:
            return False, self._healing.advice(self._healing.left)
        return verdict(list(self._behind().values()), self._most_behind_s)

    def refresh(self) -> None:
        self._silent()
        found = self._behind()
        replace(METRICS.materialiser_position, {place: lag.position for place, lag in found.items()})
        replace(METRICS.materialiser_lag, {place: lag.records for place, lag in found.items()})
        replace(METRICS.materialiser_lag_seconds, {place: lag.seconds for place, lag in found.items()})

    def _behind(self) -> dict[tuple[str, int], Behind]:
        """Returns the lag by partition, as of the last known topic ends."""
        now_ms = int(time.time() * 1000)
        return {
            place: behind(p.name, p.position, p.end, (p.reached_ms,), now_ms)
            for place, p in list(self._partitions.items())
        }

    def _alive(self) -> None:
        self._beat = time.monotonic()

    def _wait(self, stop: threading.Event, cause: str, message: str, backoff: float) -> float:
        METRICS.materialiser_retries.labels(cause).inc()
        pause = backoff * random.uniform(0.5, 1)
        LOG.warning("%s; retrying in %.1f s", message, pause)
        self._trouble = message
        self._alive()
        stop.wait(pause)
        return min(backoff * 2, BACKOFF_S[1])

    def _assign(self, consumer: Consumer, stop: threading.Event) -> None:
        """Assigns every partition at its stored position, or at its low watermark after what is archived."""
        atomic_blocks.refuse_eviction(self._client)
        self._policy_asked = time.monotonic()
        self._layouts.use()  # so that the next version deletes nothing that is written here
        self._began = True
        self._cluster.check_rights("materialiser", self._prefix)
        described = {topic: self._cluster.topic(self._prefix + topic) for topic in MATERIALISED}
        self._topic_ids = {topic: info.topic_id for topic, info in described.items()}
        places = [(topic, number) for topic, info in described.items() for number in range(info.partitions)]
        names = [f"{topic}/{number}" for topic, number in places]
        if not self._damaged and self._blocks.unguarded(names):
            self._damaged = {"positions", "guard"}
        kinds, self._damaged = self._damaged, frozenset()
        if kinds:
            if self._healing.is_deleted(places, self._topic_ids):
                raise atomic_blocks.StoreUnavailableError(self._healing.advice(kinds))
            LOG.error("memory in Redis is damaged: it is deleted and rebuilt from the topics")
            forget_damaged(self._client, self._keys, self._topic_ids, names, kinds)
            METRICS.memory_mended.labels("all").inc()
        for topic in forget_recreated(self._client, self._keys, self._topic_ids):
            LOG.error("the topic was recreated: its old data is deleted", extra=logs.at(topic))
            METRICS.materialiser_recreated.labels(topic).inc()
        self._blocks.read_again()
        for mark in erasure_marks(self._kafka, self._prefix):  # before all else, so that a refill leaves them out
            self._erasures.add(mark)
        stored = self._blocks.positions()
        self._partitions = {place: self._partition(consumer, *place, stored) for place in places}
        self._begin_fill()
        self._trouble = ""
        partitions = list(self._partitions.values())
        for partition in random.sample(partitions, len(partitions)):  # others may begin elsewhere
            self._read_archive(partition, stop)
        lag = sum(behind.records for behind in self._behind().values())
        LOG.info("reading %d partitions, %d records behind", len(self._partitions), lag)

    def _begin_fill(self) -> None:
        """Notes what is read from scratch, and what nothing brings back."""
        noted = self._blocks.completeness().partitions
        before = {name: each.start for name, each in noted.items() if each.start}
        partitions = self._partitions.values()
        unknown = {p.name: (p.lost, p.end) for p in partitions if p.stored is None}
        lost = {p.name: (before.get(p.name, 0) + p.lost, p.end) for p in partitions if p.lost}
        self._blocks.begin_fill({**lost, **unknown})
        self._cut.update({p.name: (p.stored or 0, p.low) for p in partitions if p.lost})

    def _source(self, topic: str, number: int) -> ArchivedPartition:
        return ArchivedPartition(topic, self._topic_ids[topic], number)

    def _read_archive(self, partition: FilledPartition, stop: threading.Event) -> None:
        """Writes what Kafka no longer has, unless another process does."""
        source = self._source(partition.topic, partition.number)
        for records, end in self._archive.records(source, partition.position, partition.low):
            for block, commands in self._builder.blocks(records):
                self._write(partition, block[-1].offset + 1, block, commands)
            self._write(partition, end, [], [])
            self._ahead.wait()
            if partition.left or stop.is_set():
                return
        if partition.stored is None:
            partition.position = max(partition.position, partition.low)
        elif partition.position < partition.low:
            self._write(partition, partition.low, [], [])

    def _erase(self, records: Sequence[TopicRecord]) -> None:
        """Takes out of Redis what new marks cover. Every process does, since another may write before it reads them."""
        found = self._erasures.arrived(mark for record in records if (mark := mark_in(record.value)) is not None)
        self._ahead.wait()
        for tenant in found:
            count = erase_tenant(self._client, self._keys, tenant, self._erasures, self._embed)
            self._erasures.cleared(tenant)
            LOG.info("%d episodes and contributions were erased", count, extra=logs.at(ERASURES, tenant=tenant))

    def _partition(self, consumer: Consumer, topic: str, number: int, stored: Mapping[str, int]) -> FilledPartition:
        low, high = self._watermarks(consumer, topic, number)
        known = stored.get(f"{topic}/{number}")
        if known is not None and known > high:
            raise MaterialiserError(
                f"Redis holds position {known} of {self._prefix}{topic}/{number}, which ends at {high}: Redis was "
                "filled from other topics. Set another HMX_TOPIC_PREFIX, or empty Redis: it is then rebuilt"
            )
        began, noted = self._cut.get(f"{topic}/{number}", (0, 0))
        start = 0 if known is None else max(known, noted if known >= began else 0)
        lost = self._archive.lacking(self._source(topic, number), start, low)
        if known is not None and lost:
            place = logs.at(topic, number, known)
            LOG.error("retention deleted %d offsets before they were read", lost, extra=place)
            METRICS.materialiser_lost.inc(lost)
        return FilledPartition(topic, number, known, known or 0, high, low, lost)

    def _watermarks(self, consumer: Consumer, topic: str, number: int) -> tuple[int, int]:
        """Returns the low watermark and the last stable offset; waits during a leader change."""
        target = TopicPartition(self._prefix + topic, number)
        return settled(lambda: consumer.get_watermark_offsets(target, timeout=ANSWER_S, cached=False))

    def _fill(self, stop: threading.Event) -> None:
        if sum(p.waiting for p in self._partitions.values()) >= SHARED_RECORDS:
            with closing(reader(self._kafka, filling=True)) as consumer:
                read(consumer, self._prefix, self._partitions.values())
                self._follow(consumer, stop, filling=True)
                self._ahead.wait()

    def _follow(self, consumer: Consumer, stop: threading.Event, *, filling: bool = False) -> None:
        came = checked = time.monotonic()
        while not stop.is_set() and (not filling or any(p.waiting for p in self._partitions.values())):
            places = poll(consumer, self._prefix)
            for place, found in places.items():
                self._take(self._partitions[place], found)
            self._beat = time.monotonic()
            came = self._beat if places else came
            if self._beat - checked >= (QUIET_CHECK_S if self._beat - came > QUIET_S else CHECK_S):
                self._ahead.wait()
                self._check(consumer)
                checked = self._beat

    def _take(self, partition: FilledPartition, found: ReadRecords) -> None:
        """Writes records in blocks. The end of a partition moves the position past transaction markers."""
        if partition.topic == ERASURES and found.records:
            self._erase(found.records)
        if partition.left:
            last = found.records[-1].offset + 1 if found.records else 0
            partition.end = max(partition.end, last, found.end or 0)
            return
        for block, commands in self._builder.blocks(found.records):
            if not self._write(partition, block[-1].offset + 1, block, commands):
                break
        partition.reached_ms = max(partition.reached_ms, found.at_ms)
        if found.end is not None:
            self._write(partition, found.end, [], [])
            partition.end = max(partition.end, found.end)
            partition.reached_ms = int(time.time() * 1000)

    def _write(self, partition: FilledPartition, new: int, block: list[TopicRecord], commands: list[Command]) -> bool:
        """Writes a block in the writer thread while the next ones are built. Returns False once another process fills
        the partition."""
        self._ahead.add(lambda: self._block(partition, new, block, commands))
        return not partition.left

    def _block(self, partition: FilledPartition, new: int, block: list[TopicRecord], commands: list[Command]) -> None:
        started = time.monotonic()
        if partition.left or (partition.stored is not None and partition.position >= new):
            return
        partition.left = not self._apply(partition, new, commands)
        if block and not partition.left:
            self._observe(partition, block, started)

    def _observe(self, partition: FilledPartition, block: list[TopicRecord], started: float) -> None:
        METRICS.block_seconds.observe(time.monotonic() - started)
        METRICS.materialised.labels(partition.topic).inc(len(block))
        if (appended := appended_ms(block[0])) is not None:
            METRICS.redis_freshness_seconds.observe(max(0.0, time.time() - appended / 1000))

    def _apply(self, partition: FilledPartition, new: int, commands: list[Command]) -> bool:
        """Returns False if another process was first. Raises RestartError if Redis has fallen behind."""
        at, ours = self._blocks.apply(partition.name, partition.stored, new, commands)
        if at is None or at < partition.position:
            raise RestartError(f"{partition.name} is at {at}, not at {partition.position}")
        partition.stored = partition.position = at
        partition.end = max(partition.end, at)
        return ours

    def _check(self, consumer: Consumer) -> None:
        """Detects an emptied Redis and a lost broker while nothing arrives."""
        stored = self._blocks.positions()
        for partition in self._partitions.values():
            at = stored.get(partition.name)
            if partition.stored is not None and (at is None or at < partition.stored):
                raise RestartError(f"{partition.name} is at {at}, not at {partition.stored}")
            target = TopicPartition(self._prefix + partition.topic, partition.number)
            marks = consumer.get_watermark_offsets(target, cached=True)  # as of the last fetch, if any
            partition.end = max(partition.end, marks[1] if marks else 0)
        self._share(consumer, stored)
        idle = sum(p.waiting for p in self._partitions.values()) < BLOCK_RECORDS
        self._healing.look(self._partitions, self._topic_ids, sweep=idle)
        if time.monotonic() - self._policy_asked >= POLICY_S:
            atomic_blocks.refuse_eviction(self._client)
            self._policy_asked = time.monotonic()
        self._layouts.use()
        whole = self._blocks.completeness()
        if whole.complete and idle:
            self._layouts.clear()
        partitions = self._partitions.values()
        self._blocks.begin_fill({p.name: (0, p.end) for p in partitions if p.name not in whole.partitions})
        # One partition's leader is asked per check, in turn.
        asked = sorted(partitions, key=lambda p: p.number)[self._turn % len(partitions)]
        self._turn += 1
        if self._cluster.topic(self._prefix + asked.topic).topic_id != self._topic_ids[asked.topic]:
            raise RestartError(f"{asked.topic} was deleted and created again")
        self._cluster.watermarks(self._prefix + asked.topic, asked.number)

    def _share(self, consumer: Consumer, stored: Mapping[str, int]) -> None:
        """Shares partitions between processes. The loser of a block's race leaves the partition to the winner, and
        takes it back if the winner stops, or is far behind while this process is idle."""
        for partition in taken_over(list(self._partitions.values()), stored, BLOCK_RECORDS, SHARED_RECORDS):
            if partition.position < partition.low:
                raise RestartError(f"nobody reads {partition.name} from the archive any more")
            consumer.seek(TopicPartition(self._prefix + partition.topic, partition.number, partition.position))
            partition.left = False
