"""State that is folded anew from the log is the state that the stage wrote, wherever its last transaction ended.

Whoever goes on from there puts out what was to come, once, also where the position is not known any more."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.headers import ORIGIN_OFFSET, header
from hmx_pipeline.stages.executor import Executor
from hmx_pipeline.stages.fold import POSITION_KEY, Fold, Output
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.stages.refold import LastOutputs, Refold, difference, placed
from tests.support.inprocess import barrier_record, events_log, evidence_logs, sessions_fold
from tests.support.records import LogRecord
from tests.support.sessions import interleaved, session

MIXED = interleaved([session(number) for number in range(5)], 1)


def with_holes(records: list[LogRecord]) -> list[LogRecord]:
    """As transaction markers leave them."""
    return [replace(record, offset=2 * n + n // 5) for n, record in enumerate(records)]


def delayed(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Some come after those that follow them: within the window, so others wait for them, or after it."""
    at = {id(event): n + (4 if n % 7 == 3 else 9 if n % 11 == 5 else 0) for n, event in enumerate(events)}
    return sorted(events, key=lambda event: at[id(event)])


EVENTS = events_log(chain(delayed(MIXED), MIXED[:9]), partitions=1, pace_ms=900)[0]
EVENTS.append(barrier_record(400_000, offset=len(EVENTS), barrier_id="late"))
EVIDENCE = evidence_logs([EVENTS], partitions=1, pace_ms=700)[0]
STAGES: dict[str, tuple[Callable[[], Fold], list[LogRecord]]] = {
    "sessions": (sessions_fold, with_holes(EVENTS)),
    "patterns": (PatternsFold, with_holes(EVIDENCE)),
}


class Written:
    """What a stage has committed when it is stopped after so many transactions."""

    def __init__(self, stage: str, steps: int, cut: list[int], transactions: int) -> None:
        self.transactions = 0
        new_fold, self.log = STAGES[stage]
        self.executor = Executor(new_fold(), 0)
        self.executor.part_steps = steps
        self.state: dict[str, bytes | None] = {}
        self.outputs: list[Output] = []
        rest, sizes, self.position = self.log, iter(cut), self.log[0].offset
        while rest and self.transactions < transactions:
            size = next(sizes, len(rest))
            batch, rest = rest[:size], rest[size:]
            for effects, folded, _ in self.executor.parts(batch):
                after = batch[folded:] + rest
                self.position = after[0].offset if after else batch[-1].offset + 1
                self.state |= effects.changes
                self.state[POSITION_KEY] = self.executor.position_record(self.position, "id", ())
                self.outputs += effects.outputs
                self.transactions += 1
                if self.transactions == transactions:
                    break

    @property
    def published(self) -> LastOutputs:
        last = {(it.topic, it.partition): placed(it) for it in self.outputs}
        return LastOutputs(max(map(origin, self.outputs), default=-1), frozenset(last.values()))


def origin(output: Output) -> int:
    return int(header(output.headers, ORIGIN_OFFSET) or b"")


def refolded(stage: str, written: Written, position: int | None) -> dict[str, bytes | None]:
    """The state topic after it was written anew."""
    new_fold, log = STAGES[stage]
    refold, published = Refold(Executor(new_fold(), 0)), written.published
    refold.expect(published)
    before = [record for record in log if record.offset < published.origin]
    refold.fold([before[:7], before[7:]] if len(before) > 7 else [before] if before else [])
    refold.finish([record for record in log if record.offset >= published.origin], published.origin, position)
    assert not refold.unmade
    present = dict.fromkeys(list(written.state)[::3], b"damaged") | {"s/not/there": b"{}"}
    record = refold.position_record("id", ())
    return {**present, **difference(present, refold.state), POSITION_KEY: msgspec.json.encode(record)}


def contents(executor: Executor) -> tuple[Any, ...]:
    journals = {name: (journal.end, list(journal.items(0))) for name, journal in executor.journals.items()}
    return dict(executor.state), journals, executor.clock, executor.counts


@cache
def uninterrupted(stage: str) -> tuple[list[Output], tuple[Any, ...]]:
    new_fold, log = STAGES[stage]
    executor = Executor(new_fold(), 0)
    return executor.run(log).outputs, contents(executor)


def restored(stage: str, state: dict[str, bytes | None]) -> tuple[Executor, int]:
    executor = Executor(STAGES[stage][0](), 0)
    position = executor.restore(state.items())
    return executor, position.position if position is not None else STAGES[stage][1][0].offset


@cache
def transactions_of(stage: str) -> int:
    return Written(stage, 1, [1] * len(STAGES[stage][1]), 10_000).transactions


cuts = st.lists(st.integers(1, 9), max_size=30)


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("stage", STAGES)
@given(data=st.data())
def test_what_goes_on_from_state_folded_anew_puts_out_the_rest_and_nothing_twice(
    stage: str, known: bool, data: st.DataObject
) -> None:
    """Wherever a transaction can end: after any record, and between any two timers or turns."""
    written = Written(stage, 1, [1] * len(STAGES[stage][1]), data.draw(st.integers(1, transactions_of(stage))))
    executor, position = restored(stage, refolded(stage, written, written.position if known else None))
    if known:
        assert position == written.position
    rest = executor.run([record for record in written.log if record.offset >= position]).outputs
    assert written.outputs + rest == uninterrupted(stage)[0]
    assert contents(executor) == uninterrupted(stage)[1]


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_an_output_that_the_log_does_not_make_again_is_noticed(known: bool) -> None:
    """Another release or other settings have written it; the state ends where all before it is through."""
    log = [record for record in STAGES["sessions"][1] if record.offset < 60]
    outputs = Executor(sessions_fold(), 0).run(log).outputs
    newest, other = max(map(origin, outputs)), placed(outputs[-1])._replace(value=b"other")
    refold = Refold(Executor(sessions_fold(), 0))
    refold.expect(LastOutputs(newest, frozenset({other})))
    refold.fold([[record for record in log if record.offset < newest]])
    end = log[-1].offset + 1
    refold.finish(
        [record for record in STAGES["sessions"][1] if record.offset >= newest], newest, end if known else None
    )
    assert refold.unmade == {other}
    after = [record.offset for record in STAGES["sessions"][1] if record.offset > newest]
    assert refold.position == (end if known else after[0])


@pytest.mark.parametrize("stage", STAGES)
@given(cut=cuts, transactions=st.integers(1, 60))
def test_state_folded_anew_is_the_state_that_was_written(stage: str, cut: list[int], transactions: int) -> None:
    """Between records; within one the state may stand before timers that put nothing out."""
    written = Written(stage, 4_096, cut, transactions)
    anew, position = restored(stage, refolded(stage, written, written.position))
    was, _ = restored(stage, written.state)
    assert position == written.position
    assert contents(anew) == contents(was)
