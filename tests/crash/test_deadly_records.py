"""A record that kills whoever folds it is found, rejected once and left out of replays; no other is taken for it.

The owner's side of a partition as it is, transactions kept in a list, death as an exception that nothing catches.
"""

import asyncio
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from faust.types import TP
from hypothesis import given, settings
from hypothesis import strategies as st

from hmx_pipeline.audit.pipeline_conservation import verify
from hmx_pipeline.contracts.headers import ORIGIN_OFFSET, REASON, header
from hmx_pipeline.contracts.limits import BATCH_RECORDS
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.runtime.transaction import RestoredState
from hmx_pipeline.stages.executor import Effects, Executor
from hmx_pipeline.stages.fold import Output, Record, Tx
from hmx_pipeline.stages.sessions import SessionsFold
from hmx_pipeline.topology import EVENTS_DLQ, SESSIONS
from hmx_pipeline.worker.crash_loop_guard import TRIES
from hmx_pipeline.worker.partition import FetchedBatch, OwnedPartition
from hmx_pipeline.worker.runner import Runner
from tests.support.inprocess import sessions_fold
from tests.support.pipeline import create_topics, environment, new_settings
from tests.support.records import LogRecord, event, log

SOURCE = TP(SESSIONS.source, 0)
DEADLY = "the end"


class Death(BaseException):
    """The process is gone."""


class Kept:
    """What the transactions of all owners have committed."""

    def __init__(self) -> None:
        self.state: list[tuple[str, bytes | None]] = []
        self.outputs: list[Output] = []


class FakeTransactions:
    def __init__(self, kept: Kept, die: Callable[[], bool]) -> None:
        self._kept, self._die = kept, die

    def restore(self, executor: Executor) -> RestoredState:
        stored = executor.restore(self._kept.state)
        return RestoredState(0, 0, 0) if stored is None else RestoredState(stored.position, 0, 0, stored.tries)

    def append(self, records: Sequence[Output]) -> None:
        assert not records

    def commit(
        self, executor: Executor, effects: Effects, position: int, tries: int = 0, *, singly: bool = False
    ) -> None:
        if self._die():
            raise Death
        self._kept.outputs += effects.outputs
        self._kept.state += [*effects.changes.items(), ("!", executor.position_record(position, "id", (), tries))]


def killing_fold() -> SessionsFold:
    fold = sessions_fold()
    take = fold.fold

    def fold_or_die(tx: Tx, record: Record) -> None:
        if DEADLY.encode() in (record.value or b""):
            raise Death
        take(tx, record)

    fold.fold = fold_or_die  # type: ignore[method-assign]
    return fold


def owner(kept: Kept, die: Callable[[], bool] = lambda: False) -> OwnedPartition:
    made = OwnedPartition(SOURCE, SESSIONS, killing_fold, FakeTransactions(kept, die))  # type: ignore[arg-type]
    made.restore()
    return made


def own_until_the_end(records: Sequence[LogRecord], kept: Kept, die: Callable[[], bool] = lambda: False) -> int:
    """One owner after the other folds what is left, until one survives; how many have died."""
    deaths = 0
    while True:
        partition = owner(kept, die)
        try:
            while rest := records[partition.position :][:BATCH_RECORDS]:
                first = partition.position
                partition.process(FetchedBatch(SOURCE, 0, first, first + len(rest), list(rest), 0))
        except Death:
            deaths += 1
        else:
            return deaths


def events(count: int, deadly: Sequence[int]) -> list[LogRecord]:
    texts = {offset: {"content": {"role": "user", "text": DEADLY}} for offset in deadly}
    return log([(n, event(f"s{n % 7}", n // 7, **texts.get(n, {}))) for n in range(count)])


def condemned(kept: Kept) -> list[int]:
    letters = [output for output in kept.outputs if output.topic == EVENTS_DLQ]
    assert {header(letter.headers, REASON) for letter in letters} <= {b"deadly"}
    return [int(header(letter.headers, ORIGIN_OFFSET) or b"") for letter in letters]


@settings(max_examples=8)
@given(deadly=st.sets(st.integers(0, 99), max_size=2), seed=st.integers(0, 1_000))
def test_exactly_what_kills_is_condemned_also_among_other_deaths(deadly: set[int], seed: int) -> None:
    records, kept, dice = events(100, sorted(deadly)), Kept(), random.Random(seed)
    deaths = own_until_the_end(records, kept, lambda: dice.random() < 0.01)
    assert condemned(kept) == sorted(deadly)
    assert deaths >= (TRIES if deadly else 0)
    restored = Executor(sessions_fold(), 0)
    restored.restore(kept.state)
    waiting = sum(key.startswith("w/") for key in restored.state)
    assert len(kept.outputs) + waiting == len(records)


def test_a_replay_that_knows_what_is_condemned_says_the_same_and_survives() -> None:
    records, kept = events(200, [77]), Kept()
    assert own_until_the_end(records, kept) == TRIES
    restored = Executor(killing_fold(), 0)
    restored.restore(kept.state)
    again = Executor(killing_fold(), 0)
    again.condemned = restored.condemned
    assert again.run(records).outputs == kept.outputs


def test_deaths_that_have_other_causes_condemn_nothing() -> None:
    records, kept, turns = events(100, []), Kept(), iter(range(1_000))
    assert own_until_the_end(records, kept, lambda: next(turns) in (1, 3, 5, 7)) == 4
    assert condemned(kept) == []
    assert len(kept.outputs) == 100


def test_while_a_suspicious_record_is_folded_the_process_folds_nothing_else() -> None:
    """Partition 0 is the suspicious one: it waits until 1 is done, and 2 waits until it is done."""
    at_work: list[int] = []
    end = {number: threading.Event() for number in range(3)}

    class Held(OwnedPartition):
        def __init__(self, tp: TP) -> None:
            super().__init__(tp, SESSIONS, sessions_fold, None)  # type: ignore[arg-type]
            self._tries = TRIES - 1 if tp.partition == 0 else None

        def process(self, batch: FetchedBatch) -> Mapping[str, int]:
            at_work.append(self.tp.partition)
            end[self.tp.partition].wait()
            at_work.remove(self.tp.partition)
            self._tries = None
            return {}

    async def folded(expected: list[int]) -> None:
        """As soon as it is so, and for the while in which anything else would have begun."""
        while at_work != expected:  # noqa: ASYNC110  threads say so
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)
        assert at_work == expected

    async def drive() -> None:
        runner = Runner(Held, lambda _: asyncio.Event().wait())  # type: ignore[arg-type, return-value]
        tasks = []
        for number in (1, 0, 2):
            tp = TP(SESSIONS.source, number)
            partition = runner.partitions[tp] = Held(tp)
            batch = FetchedBatch(tp, 0, 0, 1, log([(0, event())]), 0)
            tasks.append(asyncio.create_task(runner._take(None, partition, batch)))  # type: ignore[arg-type]
            await folded([1])
        for number, following in ((1, [0]), (0, [2]), (2, [])):
            end[number].set()
            await folded(following)
        await asyncio.gather(*tasks)
        await runner.stop()

    asyncio.run(drive())


def test_of_a_long_batch_only_the_suspicious_records_keep_other_partitions_waiting() -> None:
    records, began = events(500, []), list[tuple[int, bool]]()

    class Noted(OwnedPartition):
        def process(self, batch: FetchedBatch) -> Mapping[str, int]:
            began.append((len(batch.records), runner._calm.is_set()))
            return super().process(batch)

    async def drive() -> None:
        tp = TP(SESSIONS.source, 0)
        transactions = FakeTransactions(Kept(), lambda: False)
        partition = runner.partitions[tp] = Noted(tp, SESSIONS, sessions_fold, transactions)  # type: ignore[arg-type]
        partition.restore()
        partition._tries = TRIES - 1
        await runner._take(None, partition, FetchedBatch(tp, 0, 0, 500, list(records), 0))  # type: ignore[arg-type]
        assert partition.position == 500
        await runner.stop()

    runner = Runner(lambda _: None, lambda _: asyncio.Event().wait())  # type: ignore[arg-type, return-value]
    asyncio.run(drive())
    (alone, quiet), (rest, calm) = began
    assert alone <= 8
    assert alone + rest == 500
    assert (quiet, calm) == (False, True)


def test_an_owner_that_comes_to_the_end_of_its_first_batch_suspects_nothing_any_more() -> None:
    records, kept = events(10, []), Kept()
    owner(kept).process(FetchedBatch(SOURCE, 0, 0, 10, list(records), 0))
    assert not owner(kept).suspects
    assert b'"tries":0' in (kept.state[-1][1] or b"")


def test_an_owner_whose_partition_is_revoked_has_not_died_of_a_record() -> None:
    records, kept = events(10, []), Kept()
    for _ in range(TRIES - 2):
        partition = owner(kept)

        def revoked(partition: OwnedPartition = partition) -> bool:
            partition.drop()
            return False

        partition._transactions._die = revoked  # type: ignore[attr-defined]
        partition.process(FetchedBatch(SOURCE, 0, 0, 10, list(records), 0))
        assert partition.position == 0
    assert not owner(kept).suspects
    assert b'"tries":0' in (kept.state[-1][1] or b"")


def test_what_was_revoked_while_it_waited_commits_nothing() -> None:
    kept = Kept()
    partition = owner(kept)
    partition.drop()
    assert not partition.process(FetchedBatch(SOURCE, 0, 0, 10, events(10, []), 0))
    assert not kept.state


def test_only_the_piece_that_nobody_survived_is_folded_record_by_record() -> None:
    records, kept, turns = events(BATCH_RECORDS, []), Kept(), iter(range(1_000))
    assert own_until_the_end(records, kept, lambda: next(turns) in (1, 3, 5, 7)) == 4
    positions = [value for key, value in kept.state if key == "!"]
    assert 8 < len(positions) < 20
    assert len(kept.outputs) == len(records)


KILLING_WORKER = f"""
import os, signal, sys
from hmx_pipeline.cli.app import main
from hmx_pipeline.stages.sessions import SessionsFold
fold = SessionsFold.fold
def fold_or_die(self, tx, record):
    if {DEADLY.encode()!r} in (record.value or b""):
        os.kill(os.getpid(), signal.SIGKILL)
    fold(self, tx, record)
SessionsFold.fold = fold_or_die
sys.argv = ["hmx", "worker"]
main()
"""


@pytest.mark.slow
def test_a_real_worker_that_is_started_again_and_again_gets_past_what_kills_it(kafka: str, tmp_path: Path) -> None:
    settings = new_settings(kafka, window_ms=500, transaction_timeout_ms=10_000)
    create_topics(settings, partitions=2)
    values = [record.value or b"" for record in events(400, [77, 300])]
    assert publish(values, settings).complete
    deaths, done = 0, False
    while not done:
        with (tmp_path / "worker.log").open("ab") as out:
            worker = subprocess.Popen(
                [sys.executable, "-c", KILLING_WORKER], env=environment(settings), stdout=out, stderr=out
            )
        try:
            while (alive := worker.poll() is None) and not done:
                time.sleep(0.2)
                done = verify(settings).outcomes.total() >= len(values)
        finally:
            worker.kill()
            worker.wait()
        deaths += not alive
        assert deaths < 40, (tmp_path / "worker.log").read_text()[-3_000:]
    report = verify(settings)
    assert report.conserved, report.faults
    assert report.rejections == {"deadly": 2}
    assert deaths >= TRIES
