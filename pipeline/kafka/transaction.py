"""One source partition's transactions: fence, restore, commit, abort.

One transaction per batch holds the outputs, the changed state and the next position, so they happen together or not at
all. The transactional id belongs to the partition: whoever fences last owns it, and a zombie's commit fails.
Every call blocks; the worker makes them in a thread pool, one at a time per partition.

Fails:
    FencedError   this producer is of no use any more: another worker owns the partition, or Kafka refuses for good
    AbortedError  the batch did not happen; restore with the same producer and go on
    RefusalError  going on would lose or double data; an operator must decide
"""

import gc
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from pipeline.kafka.clients import Answered, Cluster, produce, producer_config, read_partition
from pipeline.observe.logs import at
from pipeline.stages.executor import Effects, Executor, UnreadableStateError
from pipeline.stages.fold import POSITION_KEY, Output
from pipeline.topology import Stage

LOG: Final = logging.getLogger("hmx.transaction")
FENCE_S: Final = 30.0
COMMIT_S: Final = 20.0
FENCED: Final = frozenset(
    code
    for name in ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING")
    if (code := getattr(KafkaError, name, None)) is not None
)


class FencedError(Exception):
    pass


class AbortedError(Exception):
    pass


class RefusalError(Exception):
    pass


class Restored(NamedTuple):
    position: int
    records: int
    """State records read."""
    lost: int
    """Source records that retention deleted before they were read; already on record."""
    tries: int = 0
    """How often owners have begun at this position and not come to an end (worker.trials)."""


class Transactions:
    """`prefix` goes before topic names and the transactional id; `log` is a plain producer, shared by partitions."""

    def __init__(
        self, cluster: Cluster, stage: Stage, partition: int, prefix: str, timeout_ms: int, log: Producer
    ) -> None:
        self._log = log
        self._cluster = cluster
        self._prefix = prefix
        self._source = prefix + stage.source
        self._state = prefix + stage.state
        self._partition = partition
        self._lost: tuple[tuple[int, int], ...] = ()
        self._topic_id = ""
        self._producer = Producer(
            producer_config(
                cluster.bootstrap,
                **{
                    "transactional.id": f"{prefix}hmx-{stage.name}-{partition}",
                    "transaction.timeout.ms": timeout_ms,
                    "delivery.report.only.error": True,  # a commit says it of all
                    "queue.buffering.max.messages": 1_000_000,
                    "queue.buffering.max.kbytes": 262_144,
                },
            )
        )

    def fence(self) -> None:
        """Ends whatever an earlier owner left open, and its right to commit."""
        try:
            self._producer.init_transactions(FENCE_S)
        except KafkaException as error:
            raise FencedError(f"fencing {self._source}/{self._partition}: {error}") from error

    def restore(self, executor: Executor) -> Restored:
        """Fills a fresh executor from the state topic; says where to go on. Raises RefusalError."""
        topic_id = self._cluster.topic(self._source).topic_id
        count = 0

        def records() -> Iterator[tuple[str, bytes | None]]:
            nonlocal count
            marks = self._cluster.watermarks(self._state, self._partition)
            for message in read_partition(self._cluster.bootstrap, self._state, self._partition, marks):
                count += 1
                yield (message.key() or b"").decode(), message.value()

        try:
            with _uncollected():
                stored = executor.restore(records())
        except UnreadableStateError as error:
            raise RefusalError(
                f"{self._state}/{self._partition} can't be read: {error}. Another version of the pipeline wrote it: run"
                " that one, or begin anew under another HMX_TOPIC_PREFIX (a local stack: `hmx up --fresh`)."
            ) from error
        low, high = self._cluster.watermarks(self._source, self._partition)
        self._topic_id = topic_id
        if stored is None:
            self._lost = ()
            return Restored(low, count, 0)
        if stored.topic_id != topic_id:
            raise RefusalError(
                f"{self._source} is another topic than the one its state in {self._state} belongs to: it was deleted"
                " and created again. Recreate the state and output topics too, or restore the old topic."
            )
        if stored.position > high:
            raise RefusalError(
                f"{self._source}/{self._partition} ends at {high}, its state stands at {stored.position}: records were"
                " lost on the broker. Going on would skip what is written there next."
            )
        self._lost = stored.lost
        executor.condemned = {offset for offset in stored.condemned if offset >= low}
        if stored.position >= low:
            return Restored(stored.position, count, 0, stored.tries)
        lost = low - stored.position
        self._lost = (*self._lost, (stored.position, low))
        executor.counts["lost_to_retention"] += lost
        place = at(self._source, self._partition, stored.position)
        LOG.error("%d records deleted by retention before they were read", lost, extra=place)
        self.commit(executor, Effects([], [], {}, executor.counts), low)
        return Restored(low, count, lost)

    def commit(self, executor: Executor, effects: Effects, position: int, tries: int = 0) -> None:
        """Outputs, changed state and the next position, in one transaction. Raises AbortedError, FencedError."""
        try:
            self._producer.begin_transaction()
            for output in effects.outputs:
                send(self._producer, self._prefix + output.topic, output)
            for key, value in effects.changes.items():
                self._keep(key, value)
            self._keep(POSITION_KEY, executor.position_record(position, self._topic_id, self._lost, tries))
            self._commit()
        except KafkaException as error:
            raise self._after(error) from error

    def append(self, records: Sequence[Output]) -> None:
        """Appends to the log itself, before the transaction that says so. Raises AbortedError: then it may be there.

        Outside of the transaction, or readers of one partition would wait for the transactions of another.
        """
        answers: list[KafkaError | None] = []

        def answered(error: KafkaError | None, _: object) -> None:
            answers.append(error)

        for record in records:
            send(self._log, self._prefix + record.topic, record, answered)
        while len(answers) < len(records):
            self._log.poll(0.05)
        if failures := [error for error in answers if error is not None]:
            raise AbortedError(f"{self._source}/{self._partition}: rerouting: {failures[0].str()}")

    def abort(self) -> None:
        """Drops the transaction in flight, if there is one. Raises FencedError."""
        try:
            self._producer.abort_transaction(COMMIT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:
                raise FencedError(f"aborting: {error}") from error

    def close(self) -> None:
        self._producer.purge()
        self._producer.close()

    def _keep(self, key: str, value: bytes | None) -> None:
        send(self._producer, self._state, Output(self._state, self._partition, key.encode(), value, ()))

    def _commit(self) -> None:
        while True:
            try:
                return self._producer.commit_transaction(COMMIT_S)
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                if not reason.retriable() or reason.fatal():
                    raise

    def _after(self, error: KafkaException) -> Exception:
        reason: KafkaError = error.args[0]
        where = f"{self._source}/{self._partition}: {reason.str()}"
        if reason.fatal() or reason.code() in FENCED:
            return FencedError(where)
        if reason.txn_requires_abort():
            self.abort()
            return AbortedError(where)
        return FencedError(f"{where} (refused for good)")


@contextmanager
def _uncollected() -> Iterator[None]:
    """Restoring makes many objects and no garbage: the collector, looking through them all, would take most of it."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def send(producer: Producer, topic: str, record: Output, answered: Answered | None = None) -> None:
    produce(producer, topic, record.value, record.key, record.headers, record.partition, answered)
