"""Growth: copies the log into a generation with more partitions (`hmx topics grow`). A generation is a topic prefix.

Enters: settings, a new prefix, a number of partitions. Leaves: the generation's topics with the copied log, and a
`Growth`: what was copied, what was left out, what is still to come. Each new partition gets a part of one old
partition, in its order, so the order within a session stays. Everything else is folded from the copy by the
generation's own workers. A transaction holds records and how far the copy has come, so a run that died goes on where it
was. Only what the old workers have processed is copied: of a rerouted event its copy is in the log then, and is taken
for it.

Append times stay in the first run: the topic takes them, and workers refuse it until then. Later runs bring what has
come since, as if it had been sent then. Raises GrowthError, TopicsError, KafkaException.
"""

import re
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from hmx_pipeline.audit.replay_fold import Progress, batches
from hmx_pipeline.audit.replay_topics import processed
from hmx_pipeline.audit.restore import bound, unbounded
from hmx_pipeline.audit.source_rows import Row, TopicRows
from hmx_pipeline.contracts.headers import FIRST_ORIGIN, ORIGIN_OFFSET, ORIGIN_PARTITION, ORIGIN_TOPIC, REROUTED_FROM
from hmx_pipeline.contracts.keys import BARRIER, ERASE, TENANT, TICK, session_place, tenant_partition
from hmx_pipeline.contracts.limits import KB, MB, REROUTED_HEADER_BYTES
from hmx_pipeline.contracts.rejections import Reason, Rejection
from hmx_pipeline.contracts.retention import DAY_MS, RETENTION
from hmx_pipeline.intake.accepted import Accepted
from hmx_pipeline.intake.control_records import authentic, is_rerouted_copy
from hmx_pipeline.intake.decode import decode
from hmx_pipeline.kafka.clients import ANSWER_S, Cluster, Watermarks, consumer_config, produce, producer_config
from hmx_pipeline.kafka.preflight import existing_topics
from hmx_pipeline.kafka.topic_files import apply, connect, load_topics, read_cluster
from hmx_pipeline.kafka.topic_plan import ClusterState, TopicSpec, plan
from hmx_pipeline.runtime.transaction import COMMIT_S, FENCE_S, FENCED
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS, GROW_ID, SESSIONS, SHADOWS

AT_ONCE: Final = 2_000
BYTES_AT_ONCE: Final = 4 * MB
"""Limits of one transaction."""
LARGEST: Final = 2 * MB - 64 * KB
"""A longer value, which is no event, came well compressed, and may not fit into the new log."""
SAMPLE: Final = 200
"""Records of each partition that tell how large the others are."""
SOON_MS: Final = 7 * DAY_MS
"""Records that retention would take so soon would go before workers have read them."""
_OF_OLD_PLACES: Final = {ORIGIN_TOPIC, ORIGIN_PARTITION, ORIGIN_OFFSET, FIRST_ORIGIN}
"""On an event that was sent back: where its dead letter is."""
_STAMP: Final = "message.timestamp.type"


class GrowthError(Exception):
    """The message says what to do."""


@dataclass
class Growth:
    topics: int
    partitions: tuple[int, int]
    """Before and after."""
    offsets: int
    """Still to be copied, of what the old workers have processed."""
    size: int
    """In bytes, from a sample."""
    copied: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    """What says nothing to the new generation → records."""
    behind: int = 0
    """Offsets of the old log that its workers had not processed, or that came meanwhile."""
    without_retention: str = ""
    """The new log, if its retention is off."""


def grow(settings: Settings, to: str, partitions: int, on_progress: Progress, *, apply_it: bool) -> Growth:
    """Copies the log below `settings.topic_prefix` to the prefix `to`; only looks, unless `apply_it` is set."""
    settings.require_control_key()
    with ExitStack() as opened:
        cluster = opened.enter_context(closing(Cluster(settings.require_kafka())))
        move = _Move(settings, cluster, to, partitions)
        opened.enter_context(closing(move))
        if apply_it:
            move.prepare()
        found = move.look()
        if apply_it:
            move.copy(found, on_progress)
            found.without_retention = move.finish()
        found.behind = sum(move.behind(partition) for partition in range(move.old))
    return found


class _Move:
    def __init__(self, settings: Settings, cluster: Cluster, to: str, partitions: int) -> None:
        self._prefix, self._to, self._cluster, self.new = settings.topic_prefix, to, cluster, partitions
        self._control_key = settings.require_control_key()
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", to) or to == self._prefix or to.startswith(SHADOWS):
            raise GrowthError(f"--to {to!r} is no prefix of its own: name one such as g2.")
        counts = existing_topics(settings, *(spec.topic for spec in load_topics()))
        self.old = counts[EVENTS]
        if partitions % self.old or partitions <= self.old:
            raise GrowthError(f"{EVENTS} has {self.old} partitions: grow to a multiple, such as {2 * self.old}")
        times = partitions // self.old
        self._specs = [
            spec.model_copy(update={"partitions": counts[spec.topic.removeprefix(to)] * times})
            for spec in load_topics(prefix=to)
        ]
        self._admin = connect(cluster.kafka)
        self._log = TopicRows(cluster, self._prefix)
        self._done = processed(cluster, self._prefix, SESSIONS)
        self._next = [0] * self.old
        """How far each old partition is copied."""
        self._about = ""
        """What the noted positions are of: the ids of both logs."""
        self._group = to + GROW_ID
        self._producer: Producer | None = None
        self._member = self._reader("read_committed")
        self._stand("read_uncommitted")

    def close(self) -> None:
        self._member.close()
        if self._producer is not None:
            self._producer.purge()
            with suppress(KafkaException):  # of a fenced one: it is said already
                self._producer.close()

    def _found(self) -> ClusterState:
        return read_cluster(self._admin, [spec.topic for spec in self._specs])

    def _reader(self, isolation: str) -> Consumer:
        return Consumer(consumer_config(self._cluster.kafka, **{"group.id": self._group, "isolation.level": isolation}))

    def _stand(self, isolation: str) -> None:
        """Reads how far the copy has come, and refuses where memory would lack something. `isolation`: a committed read
        waits for the end of a transaction that holds positions, which only fencing brings about."""
        found = self._found().topics
        for spec in self._specs:
            if spec.topic in found and found[spec.topic].partitions != spec.partitions:
                has = f"{found[spec.topic].partitions} partitions, not {spec.partitions}"
                raise GrowthError(f"{spec.topic} has {has}: name a new prefix")
        log = found.get(self._to + EVENTS)
        if log is not None:
            self._about = " ".join(self._cluster.topic(prefix + EVENTS).topic_id for prefix in (self._prefix, self._to))
            places = [TopicPartition(self._prefix + EVENTS, number) for number in range(self.old)]
            with closing(self._reader(isolation)) as reader:
                noted = reader.committed(places, timeout=ANSWER_S)
            if all(each.offset >= 0 and each.metadata == self._about for each in noted):
                self._next = [each.offset for each in noted]
            elif self._holds_records():
                raise GrowthError(
                    f"{self._to}{EVENTS} holds records, and how far the copy had come is not known any more: delete the"
                    f" topics {self._to}hmx.… and copy anew, or name a new prefix"
                )
        for number, marks in enumerate(self._done):
            if marks.low > self._next[number]:
                raise GrowthError(
                    f"retention has deleted {self._prefix}{EVENTS}/{number} below offset {marks.low}: what was learnt,"
                    " set and erased there can't be folded again, and the archive holds no events. Nothing was changed"
                )

    def _holds_records(self) -> bool:
        """Whether anything was committed to the new log. A copy that died in its first transaction has left aborted
        records there, and has noted nothing."""
        rows, log = TopicRows(self._cluster, self._to), self._to + EVENTS
        for number in range(self.new):
            marks = Watermarks(self._cluster.watermarks(log, number).low, self._cluster.stable_end(log, number))
            if marks.low or next(rows.rows(EVENTS, number, marks), None) is not None:
                return True
        return False

    def prepare(self) -> None:
        """Creates topics, and fences a copy that still runs."""
        missing = self._found()
        specs = [unbounded(spec) if self._is_log(spec) else spec for spec in self._specs]
        apply(self._admin, plan([spec for spec in specs if spec.topic not in missing.topics], missing))
        self._producer = Producer(producer_config(self._cluster.kafka, **{"transactional.id": self._group}))
        self._producer.init_transactions(FENCE_S)
        self._stand("read_committed")

    def look(self) -> Growth:
        spans = [max(0, marks.high - at) for marks, at in zip(self._done, self._next, strict=True)]
        size = 0
        for number, span in enumerate(spans):
            rows = self._log.rows(EVENTS, number, Watermarks(self._next[number], self._done[number].high))
            sizes = [len(row.key or b"") + len(row.value or b"") for row in islice(rows, SAMPLE)] if span else []
            size += span * sum(sizes) // max(1, len(sizes))
        return Growth(len(self._specs), (self.old, self.new), sum(spans), size)

    def copy(self, found: Growth, on_progress: Progress) -> None:
        done = 0
        try:
            for number, marks in enumerate(self._done):
                rows = self._log.source(SESSIONS, number, Watermarks(self._next[number], marks.high))
                for batch in batches(rows, AT_ONCE, BYTES_AT_ONCE):
                    on_progress("copying the log", done, found.offsets)
                    done += batch[-1].offset + 1 - self._next[number]
                    self._next[number] = batch[-1].offset + 1
                    self._write(batch, found)
        except KafkaException as error:
            with suppress(KafkaException):
                self._sender.abort_transaction(COMMIT_S)
            why = "another copy has started" if error.args[0].code() in FENCED else f"Kafka: {error.args[0].str()}"
            raise GrowthError(f"{why}: run this again, it goes on where it was") from error

    def finish(self) -> str:
        """Gives the log the settings of its file; returns its name if its retention stays off."""
        log = next(spec for spec in self._specs if self._is_log(spec))
        if self._found().topics[log.topic].config[_STAMP] == log.config.message_timestamp_type:
            return ""
        firsts = (next(self._log.rows(EVENTS, number, marks), None) for number, marks in enumerate(self._done))
        first = min((row.timestamp for row in firsts if row is not None), default=0)
        retained = log.config.retention_ms
        kept = {log.topic} if first and 0 <= retained < time.time() * 1000 - first + SOON_MS else set()
        bound(self._admin, [log], kept)
        return log.topic if kept else ""

    def behind(self, number: int) -> int:
        """Offsets that are not copied yet; none if nothing that follows says anything to the new generation."""
        left = Watermarks(self._done[number].high, self._cluster.stable_end(self._prefix + EVENTS, number))
        return left.high - left.low if any(self._places(row)[0] for row in self._log.rows(EVENTS, number, left)) else 0

    def _is_log(self, spec: TopicSpec) -> bool:
        return spec.topic == self._to + EVENTS

    @property
    def _sender(self) -> Producer:
        assert self._producer is not None, "it was prepared"
        return self._producer

    def _write(self, batch: Sequence[Row], found: Growth) -> None:
        sender = self._sender
        sender.begin_transaction()
        for row in batch:
            places, why = self._places(row)
            if places:
                found.copied += 1
            else:
                found.left_out[why] = found.left_out.get(why, 0) + 1
            taken = _OF_OLD_PLACES | ({REROUTED_FROM} if why else set())
            headers = [each for each in row.headers if each[0] not in taken]
            for place in places:
                produce(sender, self._to + EVENTS, row.value, row.key, headers, place, at_ms=row.timestamp)
        noted = [
            TopicPartition(self._prefix + EVENTS, number, at, metadata=self._about)
            for number, at in enumerate(self._next)
        ]
        sender.send_offsets_to_transaction(noted, self._member.consumer_group_metadata())
        sender.commit_transaction(COMMIT_S)

    def _places(self, row: Row) -> tuple[Sequence[int], str]:
        """Where a record goes; what it is, if it is left out or was appended by a worker. As the stage sees it: what
        it rejected stays in the partition of its number, and is rejected there."""
        found = decode(row.value)
        if isinstance(found, Rejection):
            lost = found.reason is Reason.UNREADABLE_BATCH or len(row.value or b"") > LARGEST
            return ([], str(found.reason)) if lost else ([row.partition], "")
        if found.control:
            return self._obeyed(row, found)
        tenant, session = found.event.tenant_id, found.event.session_id
        copy = is_rerouted_copy(self._control_key, row.value or b"", row.headers)
        astray = session_place(tenant, session, self.old).partition != row.partition
        if astray and copy is None:
            size = sum(len(name) + len(value or b"") for name, value in row.headers)
            return ([row.partition], "") if size > REROUTED_HEADER_BYTES else ([], "rerouted")
        if astray or copy is False:
            return [row.partition], ""
        return [session_place(tenant, session, self.new).partition], "copy" if copy else ""

    def _obeyed(self, row: Row, found: Accepted) -> tuple[Sequence[int], str]:
        """Of what each old partition holds, each new one gets one; of a tenant's own its partition. Nobody waits for
        an old barrier any more, and a later record tells the time as well as a tick."""
        kind, content = found.event.event_type, found.fields["content"]
        if not authentic(self._control_key, row.value or b"", row.headers):
            return [row.partition], ""
        if kind in (TICK, BARRIER):
            return [], kind
        if kind == ERASE or (kind == TENANT and RETENTION in content):
            return range(row.partition, self.new, self.old), ""
        return [tenant_partition(str(content.get("tenant_id", "")), self.new)], ""
