"""One source partition's transactions: fence, restore, commit, abort.

Enters: an executor, the `Effects` of a part, the next offset to read. Leaves: committed records in the output and state
topics; at a restore, a `RestoredState` with the offset to continue at.

One transaction per batch holds the outputs, the changed state and the next position, so they happen together or not at
all. The transactional id belongs to the partition: whoever fences last owns it, and a zombie's commit fails.
Every call blocks; the worker makes them in a thread pool, one at a time per partition.

Fails:
    FencedError   this producer is of no use any more: another worker owns the partition, or Kafka refuses for good
    AbortedError  the batch did not happen; restore with the same producer and go on
    UnsendableError  an AbortedError: Kafka takes one of the records under no circumstances
    RefusalError  going on would lose or double data, or a right is missing; an operator must decide
    SetAsideError this partition can't go on here: its state can't be read, or it has a record of a newer release
"""

import gc
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from hmx_pipeline.kafka.client_login import denied
from hmx_pipeline.kafka.clients import Answered, Cluster, Watermarks, produce, producer_config, read_partition
from hmx_pipeline.observe.logs import at
from hmx_pipeline.stages.executor import Effects, Executor
from hmx_pipeline.stages.fold import POSITION_KEY, Output
from hmx_pipeline.stages.state_formats import STATE_FORMAT, NewerStateError, UnreadableStateError
from hmx_pipeline.topology import Stage

LOG: Final = logging.getLogger("hmx.transaction")
KEY_ERRORS: Final = "surrogateescape"
FENCE_S: Final = 30.0
COMMIT_S: Final = 20.0
FENCED: Final = frozenset(
    code
    for name in ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING")
    if (code := getattr(KafkaError, name, None)) is not None
)
UNSENDABLE: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
    }
)
"""Errors that repeat whenever the record is sent."""


class FencedError(Exception):
    pass


class AbortedError(Exception):
    pass


class UnsendableError(AbortedError):
    """`output` is the refused record; None if it was one of several in a batch."""

    def __init__(self, where: str, reason: KafkaError, output: Output | None) -> None:
        size = len(output.key or b"") + len(output.value or b"") if output is not None else 0
        what = f"{output.topic} refuses a record of {size} bytes: " if output is not None else ""
        super().__init__(f"{where}: {what}{reason.str()}")
        self.output = output


class RefusalError(Exception):
    pass


class SetAsideError(Exception):
    """`end` is the offset up to which the state topic was read."""

    def __init__(self, why: str, end: int) -> None:
        super().__init__(why)
        self.end = end


class RestoredState(NamedTuple):
    position: int
    records: int
    """Number of state records read."""
    lost: int
    """Number of source records deleted by retention before they were read."""
    tries: int = 0
    """How often owners have begun at this position without finishing (worker.crash_loop_guard)."""


class Transactions:
    """`prefix` precedes topic names and the transactional id; `log` is a plain producer shared by all partitions."""

    def __init__(
        self, cluster: Cluster, stage: Stage, partition: int, prefix: str, timeout_ms: int, log: Producer
    ) -> None:
        self._log = log
        self._cluster = cluster
        self._stage = stage
        self._prefix = prefix
        self._source = prefix + stage.source
        self._state = prefix + stage.state
        self._partition = partition
        self._lost: tuple[tuple[int, int], ...] = ()
        self._topic_id = ""
        self._failure: KafkaError | None = None
        self._refused: Output | None = None
        self._config = producer_config(
            cluster.kafka,
            **{
                "transactional.id": stage.transactional_id(prefix, partition),
                "transaction.timeout.ms": timeout_ms,
                "delivery.report.only.error": True,  # the commit confirms the others
                "on_delivery": self._failed,
                "queue.buffering.max.messages": 1_000_000,
                "queue.buffering.max.kbytes": 262_144,
            },
        )
        self._producer = Producer(self._config)

    def fence(self) -> None:
        """Aborts what an earlier owner left open, and revokes its right to commit."""
        try:
            self._producer.init_transactions(FENCE_S)
        except KafkaException as error:
            if refused := denied(error.args[0], f"transactional id {self._config['transactional.id']}"):
                raise RefusalError(refused) from error
            raise FencedError(f"{self._source}/{self._partition}: fencing failed: {error}") from error

    def fence_again(self) -> None:
        """Fences with a new producer, since a state rebuild may have fenced this one."""
        self.close()
        self._producer = Producer(self._config)
        self.fence()

    def restore(self, executor: Executor) -> RestoredState:
        """Restores a fresh executor from the state topic. Raises RefusalError, SetAsideError.

        State of an older format is rewritten in the current format first.
        """
        topic_id = self._cluster.topic(self._source).topic_id
        marks = self._cluster.watermarks(self._state, self._partition)
        count = 0

        def records() -> Iterator[tuple[str, bytes | None]]:
            nonlocal count
            for count, (_, key, value) in enumerate(self.state_records(marks), 1):  # noqa: B007
                yield key, value

        gc.disable()  # restoring creates many objects but no garbage
        try:
            stored = executor.restore(records())
        except UnreadableStateError as error:
            raise SetAsideError(self._unreadable(error, marks), marks.high) from error
        finally:
            gc.enable()
        low, high = self._cluster.watermarks(self._source, self._partition)
        self._topic_id = topic_id
        if stored is None:
            self._lost = ()
            return RestoredState(low, count, 0)
        if stored.topic_id != topic_id:
            raise RefusalError(
                f"{self._source} was deleted and created again, so its state in {self._state} does not match. Recreate"
                " the state and output topics too, or restore the old topic."
            )
        if stored.position > high:
            raise RefusalError(
                f"{self._source}/{self._partition} ends at {high}, but its state is at {stored.position}: the broker"
                " has lost records, and the next ones would be skipped. Restore it, or recreate state and outputs."
            )
        self._lost = stored.lost
        executor.condemned = {offset for offset in stored.condemned if offset >= low}
        executor.unsendable = {one for one in stored.unsendable if one.offset >= low}
        if executor.migrated:
            self.commit(executor, Effects([], [], executor.migrated, Counter()), stored.position, stored.tries)
            place = at(self._state, self._partition, stage=self._stage.name)
            LOG.info("%d state records migrated to format %d", len(executor.migrated), STATE_FORMAT, extra=place)
        if stored.position >= low:
            return RestoredState(stored.position, count, 0, stored.tries)
        lost = low - stored.position
        self._lost = (*self._lost, (stored.position, low))
        executor.counts["lost_to_retention"] += lost
        place = at(self._source, self._partition, stored.position)
        LOG.error("retention deleted %d records before they were read", lost, extra=place)
        self.commit(executor, Effects([], [], {}, executor.counts), low)
        return RestoredState(low, count, lost)

    def commit(
        self, executor: Executor, effects: Effects, position: int, tries: int = 0, *, singly: bool = False
    ) -> None:
        """Commits outputs, changed state and the next position in one transaction. Raises AbortedError, FencedError."""
        record = executor.position_record(position, self._topic_id, self._lost, tries)
        self.write(effects.outputs, effects.changes, record, singly=singly)

    def write(
        self,
        outputs: Sequence[Output],
        changes: Mapping[str, bytes | None],
        position_record: bytes,
        *,
        singly: bool = False,
    ) -> None:
        """Like `commit`, with a given position record.

        `singly` sends each record in its own batch, so that a refusal by size names the record.
        """
        self._failure = self._refused = None
        try:
            self._producer.begin_transaction()
            for output in outputs:
                self._send(output, singly)
            for key, value in (*changes.items(), (POSITION_KEY, position_record)):
                packed = key.encode(errors=KEY_ERRORS)
                self._send(Output(self._stage.state, self._partition, packed, value, ()), singly)
            self._commit()
        except KafkaException as error:
            raise self._after(error) from error

    def state_records(self, marks: Watermarks) -> Iterator[tuple[int, str, bytes | None]]:
        """Yields offset, key and value of the state topic; keys that are not UTF-8 are preserved."""
        for message in read_partition(self._cluster.kafka, self._state, self._partition, marks):
            offset = message.offset()
            assert offset is not None
            yield offset, (message.key() or b"").decode(errors=KEY_ERRORS), message.value()

    def state_end(self) -> int:
        """Returns the end of the state topic; it moves with every commit to it."""
        return self._cluster.stable_end(self._state, self._partition)

    def append(self, records: Sequence[Output]) -> None:
        """Appends to the log before the transaction that notes it. After AbortedError the records may be there.

        Not part of the transaction, because readers of one partition would wait for transactions of another.
        """
        where, answers = f"{self._source}/{self._partition}: rerouting failed", list[tuple[Output, KafkaError | None]]()

        def answer_of(record: Output) -> Answered:
            return lambda error, _: answers.append((record, error))

        for record in records:
            send(self._log, self._prefix + record.topic, record, answer_of(record))
        while len(answers) < len(records):
            self._log.poll(0.05)
        for record, error in answers:
            if error is not None and error.code() in UNSENDABLE:
                raise UnsendableError(where, error, record)
            if error is not None:
                raise AbortedError(f"{where}: {error.str()}")

    def abort(self) -> None:
        """Aborts the open transaction, if any. Raises FencedError."""
        try:
            self._producer.abort_transaction(COMMIT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:
                raise FencedError(f"abort failed: {error}") from error

    def close(self) -> None:
        """Lets the producer go. A fenced one raises its fatal error, or the client's SystemError: by then nothing
        depends on it."""
        for end in (self._producer.purge, self._producer.close):
            with suppress(KafkaException, SystemError):
                end()

    def _send(self, output: Output, alone: bool) -> None:
        if self._failure is not None:
            raise KafkaException(self._failure)
        send(self._producer, self._prefix + output.topic, output)
        if alone:
            self._refused = output
            self._producer.flush()
            if self._failure is None:
                self._refused = None

    def _failed(self, error: KafkaError, _: Message) -> None:
        """Notes a delivery error. The first one is the cause; later records fail because of it."""
        self._failure = self._failure or error

    def _unreadable(self, error: UnreadableStateError, marks: Watermarks) -> str:
        """Describes the record by its place and kind of key, since the rest of the key holds a tenant's ids."""
        last = max((offset for offset, key, _ in self.state_records(marks) if key == error.key), default=None)
        what = f"{self._state}/{self._partition}"
        if last is not None:
            what += f", offset {last} (key {error.key[:2]!r}…)"
        mend = f"run `hmx state rebuild {self._partition} --stage {self._stage.name}`"
        if isinstance(error, NewerStateError):
            mend = "upgrade this worker to that release: it needs no rebuild"
        return (
            f"the state can't be read: {what}: {error}. {self._source}/{self._partition} is set aside and not"
            f" processed: {mend}"
        )

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
        if refused := denied(reason):
            return RefusalError(refused)
        if reason.fatal() or reason.code() in FENCED:
            return FencedError(where)
        try:
            self._producer.poll(0)  # an earlier delivery error explains later failures
        except KafkaException as fatal:  # which it raises itself
            return FencedError(f"{where}: {fatal.args[0].str()}")
        first = self._failure or reason
        if refused := denied(first, f"a topic that {self._stage.name} writes"):
            return RefusalError(refused)
        if first.code() in UNSENDABLE:
            self.abort()
            return UnsendableError(f"{self._source}/{self._partition}", first, self._refused)
        if self._failure is not None and not self._failure.fatal():
            self.abort()
            return AbortedError(f"{where}: {self._failure.str()}")
        if reason.txn_requires_abort():
            self.abort()
            return AbortedError(where)
        return FencedError(f"{where} (not recoverable)")


def send(producer: Producer, topic: str, record: Output, answered: Answered | None = None) -> None:
    produce(producer, topic, record.value, record.key, record.headers, record.partition, answered)
