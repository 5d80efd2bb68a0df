"""Dead letter replay: sends dead letters back to the events topic, in transactions.

Enters: settings and a filter. Leaves: the decision for every letter (see queries.dead_letter_policy), and, if applied,
records at the end of the events topic. Letters already sent back are found by reading the events topic from the first
letter's time. One replay runs at a time: a new one fences the older. Raises what reading Kafka raises. The first
refused transaction ends the replay; the refused records are counted.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from hmx_pipeline.audit.replay_fold import batches
from hmx_pipeline.audit.source_rows import Row, TopicRows
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.kafka.clients import ANSWER_S, Cluster, Watermarks, consumer_config, producer_config
from hmx_pipeline.kafka.erasure_marks import erasure_marks
from hmx_pipeline.kafka.preflight import existing_topics
from hmx_pipeline.queries.dead_letter_policy import (
    JudgedLetter,
    LetterFilter,
    Place,
    ReplayDecision,
    first_place,
    judge,
    owner_of,
    reason_of,
    returned,
    sent_before,
)
from hmx_pipeline.queries.rejected_records import is_gone, letter_of
from hmx_pipeline.runtime.transaction import COMMIT_S, FENCE_S, FENCED, send
from hmx_pipeline.settings import Settings
from hmx_pipeline.stages.fold import Output
from hmx_pipeline.topology import EVENTS, EVENTS_DLQ, LETTERS_ID, SESSIONS

SAMPLE: Final = 5
"""Example letters kept per decision."""
AT_ONCE: Final = 1_000
BYTES_AT_ONCE: Final = 8 * MB
"""Limits of one transaction; read_committed consumers of the events topic wait for it."""
TRANSACTION_MS: Final = 30_000
"""Open transactions of a dead process are aborted after this time."""
TAKEN_OVER: Final = "another dead letter replay has started and taken over"
Progress = Callable[[str], None]
Ends = Mapping[int, Watermarks]


@dataclass
class ReplaySummary:
    """Summary of a replay."""

    applied: bool
    fates: dict[str, Counter[ReplayDecision]] = field(default_factory=dict)
    """Reason → decision → number of letters."""
    sample: dict[ReplayDecision, list[dict[str, Any]]] = field(default_factory=dict)
    failed: Counter[str] = field(default_factory=Counter)
    """Records that Kafka did not acknowledge, by error."""

    def note(self, judged: JudgedLetter) -> None:
        letter, fate, detail = judged
        self.fates.setdefault(reason_of(letter), Counter())[fate] += 1
        shown = self.sample.setdefault(fate, [])
        if len(shown) < SAMPLE:
            tenant, session = owner_of(letter)
            shown.append(
                {
                    "letter": f"{letter.partition}:{letter.offset}",
                    "origin": "{}:{}".format(*first_place(letter)),
                    "reason": reason_of(letter),
                    "tenant": tenant,
                    "session": session,
                    "detail": detail,
                }
            )

    @property
    def going(self) -> int:
        return sum(count for fates in self.fates.values() for fate, count in fates.items() if fate.goes)

    @property
    def letters(self) -> int:
        return sum(fates.total() for fates in self.fates.values())

    def as_json(self) -> dict[str, Any]:
        return {
            "applied": self.applied,
            "letters": self.letters,
            "sent" if self.applied else "would_be_sent": self.going - self.failed.total(),
            "failed": dict(self.failed),
            "reasons": {reason: {str(fate): n for fate, n in fates.items()} for reason, fates in self.fates.items()},
            "sample": {str(fate): shown for fate, shown in self.sample.items()},
        }


def send_back(
    settings: Settings, asked: LetterFilter, *, apply: bool, on_progress: Progress = lambda _: None
) -> ReplaySummary:
    """Decides for every selected letter, and with `apply` sends back those that qualify."""
    partitions = existing_topics(settings, EVENTS, EVENTS_DLQ)
    found = ReplaySummary(apply)
    producer = _fencing(settings) if apply else None
    with closing(Cluster(settings.require_kafka())) as cluster:
        log = TopicRows(cluster, settings.topic_prefix)
        ends = {partition: log.marks(EVENTS_DLQ, partition) for partition in range(partitions[EVENTS_DLQ])}
        since = _first(log, ends, asked)
        if since is None:
            return found
        on_progress("looking for what was sent back before")
        from hmx_pipeline.store.erased_memory import Erasures  # loads what only memory needs

        erased = Erasures(erasure_marks(cluster.kafka, settings.topic_prefix))
        before = _before(cluster, settings.topic_prefix, log, partitions[EVENTS], since)

        def going() -> Iterator[Output]:
            for row in _letters(log, ends, asked):
                judged = judge(row, asked, before, lambda letter: is_gone(erased, letter_of(letter)))
                found.note(judged)
                if judged.fate.goes:
                    yield returned(row, partitions[EVENTS])

        for batch in batches(going(), AT_ONCE, BYTES_AT_ONCE):
            if producer is not None:
                on_progress(f"sending back {found.going:,}")
                if not _sent(producer, settings.topic_prefix, batch, found.failed):
                    break
    return found


def _letters(log: TopicRows, ends: Ends, asked: LetterFilter) -> Iterator[Row]:
    for partition, marks in ends.items():
        yield from filter(asked.selects, log.rows(EVENTS_DLQ, partition, marks))


def _first(log: TopicRows, ends: Ends, asked: LetterFilter) -> int | None:
    """Returns the append time of the first selected letter; nothing was sent back before it."""
    firsts = (next(_letters(log, {partition: marks}, asked), None) for partition, marks in ends.items())
    return min((row.timestamp for row in firsts if row is not None), default=None)


def _before(cluster: Cluster, prefix: str, log: TopicRows, partitions: int, since_ms: int) -> set[Place]:
    """Returns the letters that were already sent back to the events topic."""
    with closing(Consumer(consumer_config(cluster.kafka))) as consumer:
        asked = [TopicPartition(prefix + EVENTS, partition, since_ms) for partition in range(partitions)]
        starts = consumer.offsets_for_times(asked, timeout=ANSWER_S)
    found: set[Place] = set()
    for start in starts:
        if start.error is not None:
            raise KafkaException(start.error)
        if start.offset >= 0:  # -1: nothing has been appended since
            low, high = log.marks(EVENTS, start.partition)
            found |= sent_before(log.source(SESSIONS, start.partition, Watermarks(max(low, start.offset), high)))
    return found


def _fencing(settings: Settings) -> Producer:
    """Returns a transactional producer; it fences any replay that started earlier."""
    name = {"transactional.id": settings.topic_prefix + LETTERS_ID, "transaction.timeout.ms": TRANSACTION_MS}
    producer = Producer(producer_config(settings.require_kafka(), **name))
    producer.init_transactions(FENCE_S)
    return producer


def _sent(producer: Producer, prefix: str, batch: Sequence[Output], failed: Counter[str]) -> bool:
    """Sends letters in one transaction. Returns False if Kafka refused it; stop then."""
    try:
        producer.begin_transaction()
        for record in batch:
            send(producer, prefix + record.topic, record)
        producer.commit_transaction(COMMIT_S)
    except KafkaException as error:
        reason: KafkaError = error.args[0]
        failed[TAKEN_OVER if reason.code() in FENCED else reason.str()] += len(batch)
        with suppress(KafkaException):
            producer.abort_transaction(COMMIT_S)
        return False
    return True
