"""Topics → Redis: reads what the pipeline has said and keeps memory as of exactly the positions stored beside it.

Enters: records of topology.MATERIALISED, read_committed, from the positions in Redis, or from the start of a partition
that has none; so an emptied Redis is filled again, also while this runs. Leaves: blocks (see `blocks`), applied one by
one. Several may run at once and share the work: see `_share`. Kafka or Redis away: waits, says so, tries again. Fails:
MaterialiserError where going on would leave memory wrong.
"""

import gc
import logging
import os
import random
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from pipeline.contracts.limits import MB
from pipeline.kafka.access import denied
from pipeline.kafka.clients import Cluster, Watermarks, consumer_config, headers_of, read_partition
from pipeline.kafka.rights import MissingRightsError
from pipeline.kafka.topics import KafkaUnreachableError, settled
from pipeline.observe import logs
from pipeline.observe.freshness import Behind, behind, verdict
from pipeline.observe.health import Answer, serve_health
from pipeline.observe.metrics import METRICS, replace
from pipeline.settings import Settings, SettingsError
from pipeline.store.blocks import (
    Blocks,
    DamagedError,
    EvictingError,
    StoreUnavailableError,
    TornStateError,
    connect,
    evictions,
    reachable,
    refuse_eviction,
)
from pipeline.store.changes import Changes, Command
from pipeline.store.keys import Keys
from pipeline.store.mending import Spans, restored, spans, unlisted, whole
from pipeline.store.noted import Lost
from pipeline.store.origin import appended_ms, owner
from pipeline.store.projection import ProjectionError, Record, project
from pipeline.store.recreated import forget_damaged, forget_recreated
from pipeline.store.semantic import Semantic
from pipeline.store.sweep import Sweep
from pipeline.topology import EVIDENCE, MATERIALISED

LOG: Final = logging.getLogger("hmx.materialiser")

BLOCK_RECORDS: Final = 1_000
BLOCK_BYTES: Final = 4 * MB
BLOCK_ARGUMENTS: Final = 25_000
POLL_RECORDS: Final = 5_000
"""Of a few partitions: enough to fill blocks."""
POLL_S: Final = 0.1
ANSWER_S: Final = 10.0
CHECK_S: Final = 1.0
"""How often a silent Redis and Kafka are asked whether they still are as this process believes."""
SHARED_RECORDS: Final = 4 * BLOCK_RECORDS
"""So far behind, a partition that another process fills is worth the effort of one that has nothing to do."""
COLLECT: Final = (50_000, 20, 50)
"""No record leaves a cycle behind, so the collector need not look after every few of them, as the worker's does not."""
SWITCH_S: Final = 0.001
"""How long a block that is made keeps the thread that writes one from its next step."""
BACKOFF_S: Final = (0.2, 10.0)
"""Between attempts at a server that is away: the first pause and the longest. Each is cut at random by up to a half, so
that processes that lost the same server do not come back in step."""
SWEPT_S: Final = 0.03
"""Of each second, at least one step of it: so much of a thread goes into looking for damage."""
POLICY_S: Final = 30.0
"""How often Redis is asked whether it may evict keys by now."""
STUCK_S: Final = 60.0


class MaterialiserError(SettingsError):
    """Memory would become wrong; the message says what to do."""


class _Restart(Exception):  # noqa: N818  not an error: stored positions are behind, so reading starts over from them
    pass


@dataclass(slots=True)
class _Partition:
    """`stored` is what Redis says, None where it says nothing; `position` is what comes next here."""

    topic: str
    number: int
    stored: int | None
    position: int
    end: int
    reached_ms: int = 0
    """Append time of what was read last, or when nothing was left to read."""
    left: bool = False
    """Another process was quicker and fills it; what is read of it here is dropped."""

    @property
    def waiting(self) -> int:
        return max(0, self.end - self.position)

    @property
    def name(self) -> str:
        return f"{self.topic}/{self.number}"


@dataclass(slots=True)
class _Found:
    """What was read of a partition: records, then perhaps its end."""

    records: list[Record] = field(default_factory=list)
    at_ms: int = 0
    """When the last of them was appended."""
    end: int | None = None


class Materialiser:
    """`run` blocks until it is told to stop; the rest may be asked from other threads."""

    def __init__(self, settings: Settings) -> None:
        """Raises SettingsError where Kafka or Redis is not known."""
        self._address = (settings.host, settings.materialiser_port)
        self._most_behind_s = settings.ready_lag_s
        self._prefix = settings.topic_prefix
        self._kafka = settings.require_kafka()
        self._client = connect(*settings.require_redis())
        self._semantic = Semantic.of(settings)
        self._keys = Keys(settings.topic_prefix, self._semantic.name if self._semantic else "")
        self._blocks = Blocks(self._client, self._keys)
        self._cluster = Cluster(self._kafka)
        self._topic_ids: dict[str, str] = {}
        self._partitions: dict[tuple[str, int], _Partition] = {}
        self._writer = ThreadPoolExecutor(1, "blocks")
        self._writing: Future[None] | None = None
        self._trouble = "starting"
        self._turn = 0
        self._began = False
        self._damaged = set[str]()
        """Kinds of keys for whose damage memory is to be forgotten and built anew."""
        self._rebuilt: Counter[str] = Counter()
        """How often memory was built anew for a kind, round after round."""
        self._resting: Counter[str] = Counter()
        """Rounds until it may be again: one, two, four, ... A kind that is damaged all the same may be our defect."""
        self._broken: set[str] = set()
        """Kinds that were found damaged in the sweep's round."""
        self._left = set[str]()
        """Kinds of keys that stay damaged, as Kafka no longer holds all that memory was made of."""
        self._sound_round = True
        """Nothing was found so far in the sweep's round."""
        self._evicted: tuple[Any, int] | None = None
        self._sweep = Sweep(self._client, self._keys)
        self._policy_asked = 0.0
        self._beat = time.monotonic()

    def run(self, stop: threading.Event) -> None:
        """Serves health and metrics, and reads until told to stop. Raises MaterialiserError, OSError for the port."""
        server = serve_health(*self._address, self)
        gc.freeze()  # what is here stays: collections need not look through it
        gc.set_threshold(*COLLECT)
        sys.setswitchinterval(SWITCH_S)
        try:
            self._run(stop)
        finally:
            self._writer.shutdown()
            self._cluster.close()
            server.shutdown()
            server.server_close()

    def _run(self, stop: threading.Event) -> None:
        backoff = BACKOFF_S[0]
        while not stop.is_set():
            consumer = Consumer(consumer_config(self._kafka, **{"queued.max.messages.kbytes": 32 * 1024}))
            try:
                self._assign(consumer)
                backoff = BACKOFF_S[0]
                self._follow(consumer, stop)
            except _Restart as reason:
                METRICS.materialiser_retries.labels("positions").inc()
                LOG.warning("reading again from the stored positions: %s", reason)
            except (TornStateError, DamagedError) as error:
                backoff = self._wait(stop, "redis", f"{error}; memory is built anew", backoff)
                self._damaged = {"torn" if isinstance(error, TornStateError) else "mistyped"}
            except EvictingError as error:
                if not self._began:
                    raise
                backoff = self._wait(stop, "redis", str(error), backoff)
            except StoreUnavailableError as error:
                # Another server may stand behind the address by now: a connection to the old one would stay there.
                self._client.connection_pool.disconnect(inuse_connections=False)
                backoff = self._wait(stop, "redis", str(error), backoff)
            except (KafkaUnreachableError, MissingRightsError) as error:
                backoff = self._wait(stop, "kafka", str(error), backoff)
            except KafkaException as error:
                backoff = self._wait(stop, "kafka", denied(error.args[0]) or f"Kafka: {error.args[0].str()}", backoff)
            finally:
                with suppress(Exception):  # what it raises now is of no more interest than what has been raised
                    self._written()
                consumer.close()
        self._trouble = "stopped"

    # what health asks

    def live(self) -> Answer:
        """Waiting for Kafka or Redis is life too; a loop that no longer turns is not."""
        silent = time.monotonic() - self._beat
        return silent < STUCK_S, f"the loop turned {silent:.1f} s ago"

    def started(self) -> Answer:
        return not self._trouble, self._trouble or f"reading {len(self._partitions)} partitions"

    def ready(self) -> Answer:
        if self._trouble:
            return False, self._trouble
        if self._left:
            return False, self._advice(self._left)
        return verdict(list(self._behind().values()), self._most_behind_s)

    def refresh(self) -> None:
        found = self._behind()
        replace(METRICS.materialiser_position, {place: lag.position for place, lag in found.items()})
        replace(METRICS.materialiser_lag, {place: lag.records for place, lag in found.items()})
        replace(METRICS.materialiser_lag_seconds, {place: lag.seconds for place, lag in found.items()})

    def _behind(self) -> dict[tuple[str, int], Behind]:
        """By partition, up to the topics' ends as last asked."""
        now_ms = int(time.time() * 1000)
        return {
            place: behind(p.name, p.position, p.end, (p.reached_ms,), now_ms)
            for place, p in list(self._partitions.items())
        }

    def _wait(self, stop: threading.Event, cause: str, message: str, backoff: float) -> float:
        METRICS.materialiser_retries.labels(cause).inc()
        pause = backoff * random.uniform(0.5, 1)
        LOG.warning("%s; trying again in %.1f s", message, pause)
        self._trouble = message
        self._beat = time.monotonic()
        stop.wait(pause)
        return min(backoff * 2, BACKOFF_S[1])

    def _assign(self, consumer: Consumer) -> None:
        """Every partition from its stored position, or from its low watermark where nothing is stored."""
        self._refuse_eviction()
        self._began = True
        self._cluster.check_rights("materialiser", self._prefix)
        described = {topic: self._cluster.topic(self._prefix + topic) for topic in MATERIALISED}
        self._topic_ids = {topic: info.topic_id for topic, info in described.items()}
        places = [(topic, number) for topic, info in described.items() for number in range(info.partitions)]
        names = [f"{topic}/{number}" for topic, number in places]
        if not self._damaged and self._blocks.unguarded(names):
            self._damaged = {"positions", "guard"}
        kinds, self._damaged = self._damaged, set()
        if kinds:
            if self._is_deleted(places):
                raise StoreUnavailableError(self._advice(kinds))
            LOG.error("memory in Redis is damaged: it is forgotten, and built anew from the topics")
            forget_damaged(self._client, self._keys, self._topic_ids, names, kinds)
            METRICS.memory_mended.labels("all").inc()
        for topic in forget_recreated(self._client, self._keys, self._topic_ids):
            LOG.error("another topic stands here now: what came from the old one is forgotten", extra=logs.at(topic))
            METRICS.materialiser_recreated.labels(topic).inc()
        self._blocks.read_again()
        stored = self._blocks.positions()
        self._partitions = {place: self._partition(consumer, *place, stored) for place in places}
        unknown = [p for p in self._partitions.values() if p.stored is None]
        self._blocks.begin_fill({p.name: (p.position, p.end) for p in unknown})
        consumer.assign(
            [TopicPartition(self._prefix + p.topic, p.number, p.position) for p in self._partitions.values()]
        )
        self._trouble = ""
        lag = sum(behind.records for behind in self._behind().values())
        LOG.info("reading %d partitions, %d records behind", len(self._partitions), lag)

    def _partition(self, consumer: Consumer, topic: str, number: int, stored: Mapping[str, int]) -> _Partition:
        low, high = self._watermarks(consumer, topic, number)
        known = stored.get(f"{topic}/{number}")
        if known is not None and known > high:
            raise MaterialiserError(
                f"Redis is at {known} of {self._prefix}{topic}/{number}, which ends at {high}: these are not "
                "the topics it was filled from; use another HMX_TOPIC_PREFIX or empty Redis: it is built anew"
            )
        if known is not None and known < low:
            place = logs.at(topic, number, known)
            LOG.error("%d offsets are gone by retention before they were read", low - known, extra=place)
            METRICS.materialiser_lost.inc(low - known)
        return _Partition(topic, number, known, low if known is None else max(known, low), high)

    def _watermarks(self, consumer: Consumer, topic: str, number: int) -> tuple[int, int]:
        """Low, and the end that a read_committed reader sees. Waits while a leader changes."""
        target = TopicPartition(self._prefix + topic, number)
        low, high = settled(lambda: consumer.get_watermark_offsets(target, timeout=ANSWER_S, cached=False))
        return low, high

    def _follow(self, consumer: Consumer, stop: threading.Event) -> None:
        checked = time.monotonic()
        while not stop.is_set():
            for place, found in _found(consumer, self._prefix).items():
                self._take(self._partitions[place], found)
            self._beat = time.monotonic()
            if self._beat - checked >= CHECK_S:
                self._written()
                self._check(consumer)
                checked = self._beat

    def _take(self, partition: _Partition, found: _Found) -> None:
        """Records in blocks. An end of partition moves the position past markers, where no record stands."""
        if partition.left:
            last = found.records[-1].offset + 1 if found.records else 0
            partition.end = max(partition.end, last, found.end or 0)
            return
        for block, commands in self._blocks_of(found.records):
            self._write(partition, block[-1].offset + 1, block, commands)
        partition.reached_ms = max(partition.reached_ms, found.at_ms)
        if found.end is not None:
            self._write(partition, found.end, [], [])
            partition.end = max(partition.end, found.end)
            partition.reached_ms = int(time.time() * 1000)

    def _blocks_of(self, records: Iterable[Record]) -> Iterator[tuple[list[Record], list[Command]]]:
        """Cut by records, bytes and arguments, so that no block keeps Redis from its readers for long."""
        block: list[Record] = []
        size, changes = 0, self._changes()
        for record in records:
            self._beat = time.monotonic()  # a model takes milliseconds over each
            block.append(record)
            size += len(record.value or b"")
            self._project(changes, record)
            if len(block) == BLOCK_RECORDS or size >= BLOCK_BYTES or changes.arguments >= BLOCK_ARGUMENTS:
                yield block, changes.commands()
                block, size, changes = [], 0, self._changes()
        if block:
            yield block, changes.commands()

    def _changes(self) -> Changes:
        return Changes(self._keys, self._semantic.vector if self._semantic else None)

    def _write(self, partition: _Partition, new: int, block: list[Record], commands: list[Command]) -> None:
        """In a thread, one at a time: the next block is made meanwhile."""
        self._written()
        self._writing = self._writer.submit(self._block, partition, new, block, commands)

    def _written(self) -> None:
        """Waits for the block that is being written. Raises what writing it has raised."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _block(self, partition: _Partition, new: int, block: list[Record], commands: list[Command]) -> None:
        started = time.monotonic()
        if partition.left or (partition.stored is not None and partition.position >= new):
            return
        partition.left = not self._apply(partition, new, commands)
        if block and not partition.left:
            self._observe(partition, block, started)

    def _observe(self, partition: _Partition, block: list[Record], started: float) -> None:
        METRICS.block_seconds.observe(time.monotonic() - started)
        METRICS.materialised.labels(partition.topic).inc(len(block))
        appended = appended_ms(block[0])
        if appended is not None:
            METRICS.redis_freshness_seconds.observe(max(0.0, time.time() - appended / 1000))

    def _project(self, changes: Changes, record: Record) -> None:
        try:
            project(changes, record)
        except ProjectionError as error:
            tenant, session = owner(record)
            place = logs.at(record.topic, record.partition, record.offset, tenant=tenant, session=session)
            LOG.error("left out of memory: %s", error, extra=place)  # noqa: TRY400  a trace would show values
            METRICS.materialiser_unreadable.labels(record.topic).inc()

    def _apply(self, partition: _Partition, new: int, commands: list[Command]) -> bool:
        """False where another was quicker. Raises _Restart where Redis has less than this process thinks."""
        at, ours = self._blocks.apply(partition.name, partition.stored, new, commands)
        if at is None or at < partition.position:
            raise _Restart(f"{partition.name} is at {at}, not at {partition.position}")
        partition.stored = partition.position = at
        partition.end = max(partition.end, at)
        return ours

    def _check(self, consumer: Consumer) -> None:
        """Redis emptied while nothing arrives would stay empty, and a broker that went away would stay unnoticed."""
        stored = self._blocks.positions()
        for partition in self._partitions.values():
            at = stored.get(partition.name)
            if partition.stored is not None and (at is None or at < partition.stored):
                raise _Restart(f"{partition.name} is at {at}, not at {partition.stored}")
            partition.end = max(partition.end, self._cached_end(consumer, partition))
        self._share(consumer, stored)
        self._look_for_damage([p.name for p in self._partitions.values()])
        if time.monotonic() - self._policy_asked >= POLICY_S:
            self._refuse_eviction()
        noted = self._blocks.completeness().partitions
        self._blocks.begin_fill({p.name: (0, p.end) for p in self._partitions.values() if p.name not in noted})
        # One partition's leader is asked per check, each in its turn.
        asked = sorted(self._partitions.values(), key=lambda p: p.number)[self._turn % len(self._partitions)]
        self._turn += 1
        if self._cluster.topic(self._prefix + asked.topic).topic_id != self._topic_ids[asked.topic]:
            raise _Restart(f"{asked.topic} was deleted and created again")
        self._watermarks(consumer, asked.topic, asked.number)

    def _look_for_damage(self, names: list[str]) -> None:
        """Raises _Restart where memory is to be built anew."""
        if differ := self._blocks.unguarded(names):
            self._build_anew({"positions", "guard"}, differ[0])
        with reachable():
            known = self._client.hgetall(self._keys.topics)
            if known != {topic.encode(): each.encode() for topic, each in self._topic_ids.items()}:
                raise _Restart("the ids of the topics are not those that Redis was filled from")
            if self._client.type(self._keys.filling) != b"string" and any(map(_is_stored, self._partitions.values())):
                self._client.set(self._keys.filling, os.urandom(16))  # what readers remember may be of any filling
        before, self._evicted = self._evicted, evictions(self._client)
        if before and self._evicted[0] == before[0] and self._evicted[1] > before[1]:
            self._build_anew({"evicted"}, f"{self._evicted[1] - before[1]} keys")
        if sum(p.waiting for p in self._partitions.values()) >= BLOCK_RECORDS:
            return
        until = time.monotonic() + SWEPT_S
        while time.monotonic() < until:
            found = self._sweep.step()
            if found is None:
                self._end_round()
                return
            self._broken |= found.broken
            self._sound_round = self._sound_round and not (found.lost or found.broken)
            if due := found.broken - self._resting.keys():
                self._rebuilt.update(due)
                self._resting.update({kind: 2 ** (self._rebuilt[kind] - 1) for kind in due})
                self._build_anew(found.broken, "what the records imply is not there")
            if found.lost:
                self._restore(found.lost)
                return

    def _end_round(self) -> None:
        if self._sound_round:
            self._left = set()
            self._client.delete(self._keys.damaged)
        self._rebuilt = Counter({kind: times for kind, times in self._rebuilt.items() if kind in self._broken})
        self._resting = Counter({kind: n - 1 for kind, n in self._resting.items() if n > 1 and kind in self._rebuilt})
        self._broken, self._sound_round = set(), True

    def _build_anew(self, kinds: set[str], why: str) -> None:
        for kind in sorted(kinds):
            METRICS.provenance_failed.labels(kind).inc()
        if kinds.isdisjoint({"positions", "guard"}) and self._is_deleted(self._partitions):
            self._left |= kinds
            LOG.error(self._advice(self._left))
            return
        self._damaged = kinds
        raise _Restart(f"keys of kind {', '.join(sorted(kinds))} in Redis are damaged ({why}): memory is built anew")

    def _is_deleted(self, places: Iterable[tuple[str, int]]) -> bool:
        """Whether Kafka has deleted something that memory was made of."""
        return any(self._cluster.watermarks(self._prefix + topic, number).low for topic, number in places)

    def _advice(self, kinds: Iterable[str]) -> str:
        return (
            f"keys of kind {', '.join(sorted(kinds))} in Redis are damaged, and Kafka has deleted by retention a part "
            "of what memory was made of: it is left as it is. To build it from what the topics still hold, run: "
            f"redis-cli --scan --pattern '{self._keys.root}:*' | xargs redis-cli UNLINK"
        )

    def _restore(self, lost: Sequence[Lost]) -> None:
        """Each from its topic, as far as Redis has read it."""
        stored = {place: p.stored for place, p in self._partitions.items() if p.stored is not None}
        everything = whole(lost, stored)
        found = restored(self._keys, lost, self._read_again(spans(self._client, lost, stored)))
        if found.missing:  # what memory says of its place may be damaged too
            found = restored(self._keys, lost, self._read_again(everything))
        for each in set(lost) - found.missing:
            if self._mend(each, {place: stored[place] for place in found.places}, found.commands[each]):
                METRICS.memory_mended.labels(each.kind).inc()
                LOG.error("%s was lost or altered in Redis: it is restored from its topic", each)
        for each in found.missing:
            if self._mend(
                each,
                {place: stored[place] for place in everything},
                [*found.commands[each], *unlisted(self._client, each)],
            ):
                LOG.error("%s was lost or altered in Redis, and its topic no longer holds it: it is forgotten", each)
        if found.missing:
            self._blocks.read_again()

    def _mend(self, lost: Lost, stored: Mapping[tuple[str, int], int], commands: list[Command]) -> bool:
        positions = {self._partitions[place].name: at for place, at in stored.items()}
        mended = self._blocks.mend(positions, commands)
        if not mended:
            LOG.error("%s is lost or altered in Redis, and not mended: a block came meanwhile; it is tried again", lost)
        return mended

    def _read_again(self, wanted: Spans) -> Iterator[Record]:
        for (topic, number), (start, end) in wanted.items():
            name = self._prefix + topic
            low = max(start, self._cluster.watermarks(name, number).low)
            for message in read_partition(self._kafka, name, number, Watermarks(low, end)):
                self._beat = time.monotonic()
                offset = message.offset() or 0
                yield Record(topic, number, offset, message.key() or b"", message.value(), headers_of(message))

    def _refuse_eviction(self) -> None:
        refuse_eviction(self._client)
        self._policy_asked = time.monotonic()

    def _share(self, consumer: Consumer, stored: Mapping[str, int]) -> None:
        """Whoever loses the race for a block leaves the partition to the winner, so that two processes do not do the
        same work; and takes it back where the winner has stopped, or is far behind while there is nothing to do here.
        Two that want the same partition race again."""
        taken = []
        for partition in (p for p in self._partitions.values() if p.left):
            at = stored[partition.name]
            if at == partition.position and partition.waiting:
                taken.append(partition)
            partition.stored = partition.position = at
            if not partition.waiting:
                partition.reached_ms = int(time.time() * 1000)
        others = [p for p in self._partitions.values() if p.left and p.waiting >= SHARED_RECORDS]
        if others and not taken and sum(p.waiting for p in self._partitions.values() if not p.left) < BLOCK_RECORDS:
            taken = [max(others, key=lambda p: p.waiting)]
        for partition in taken:
            consumer.seek(TopicPartition(self._prefix + partition.topic, partition.number, partition.position))
            partition.left = False

    def _cached_end(self, consumer: Consumer, partition: _Partition) -> int:
        """As the last fetch told."""
        target = TopicPartition(self._prefix + partition.topic, partition.number)
        marks = consumer.get_watermark_offsets(target, cached=True)
        return marks[1] if marks else 0


def _is_stored(partition: _Partition) -> bool:
    return partition.stored is not None


def _found(consumer: Consumer, prefix: str) -> dict[tuple[str, int], _Found]:
    """What waits, by partition. Raises KafkaException for any error but the end of a partition.

    Asked for many, the client would wait until it has them: so it waits for one, and takes what is there.
    """
    first = consumer.poll(POLL_S)
    messages = [] if first is None else [first, *consumer.consume(POLL_RECORDS, 0)]
    by_place: dict[Any, list[Message]] = defaultdict(list)
    for message in messages:
        if (error := message.error()) is not None and message.topic() is None:  # of the client, and no partition's
            raise KafkaException(error)
        by_place[message.topic(), message.partition()].append(message)
    places: dict[tuple[str, int], _Found] = {}
    for (name, partition), some in by_place.items():
        topic = name.removeprefix(prefix)
        found = places[topic, partition] = _Found()
        headed = topic == EVIDENCE  # nobody asks for the others' headers
        for message in some:
            if (error := message.error()) is None:
                headers = headers_of(message) if headed else None
                place = (topic, partition, message.offset() or 0)
                found.records.append(Record(*place, message.key() or b"", message.value(), headers))
            elif error.code() == KafkaError._PARTITION_EOF:
                found.end = message.offset()
            else:
                raise KafkaException(error)
        found.at_ms = some[-1].timestamp()[1]
    return places
