"""Law 4, for both folds: the same log gives the same bytes, however it was cut and wherever the worker died.

And what the executor asks of any fold: state that is written is read back alike, so nothing depends on having been
there.
"""

from collections.abc import Callable, Sequence
from functools import cache

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.evidence import Contribution, EvidenceControl
from hmx_pipeline.contracts.headers import KIND
from hmx_pipeline.contracts.limits import BARRIER_KEPT_MS, PATTERN_DEBOUNCE_MS, SESSION_FORGOTTEN_MS, WINDOW_MS
from hmx_pipeline.stages.fold import Fold
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.topology import EVIDENCE
from tests.support.evidence import archive_record, gift_of, import_record, made_by
from tests.support.inprocess import Fate, barrier_record, run, run_through, sessions_fold
from tests.support.records import START_MS, LogRecord, log
from tests.support.scripts import FATES, Line, bounds, logs, records, show, show_fates
from tests.support.sessions import interleaved, session

BOUNDS = pytest.mark.parametrize("small", [False, True], ids=["", "at-its-bounds"])
ORDERINGS = pytest.mark.parametrize("strict", [False, True], ids=["eager", "strict"])


@cache
def told() -> list[LogRecord]:
    """What a few sessions contribute, of two patterns and more."""
    mixed = log(list(enumerate(interleaved([session(n) for n in range(8)], 1))))
    outputs = run(sessions_fold, [*mixed, barrier_record(9_000, offset=len(mixed))]).on(EVIDENCE)
    return [LogRecord(0, n, START_MS, o.key, o.value, o.headers) for n, o in enumerate(outputs[:-1])]


KINDS = st.sampled_from(
    ["said"] * 3
    + ["all said", "corrected", "withdrawn", "tick", "barrier from 0", "barrier from 1", "archive", "import", "none"]
)
PAUSES = st.sampled_from([0, 0, 1, 300, PATTERN_DEBOUNCE_MS, -500, BARRIER_KEPT_MS])
TOLD = st.lists(st.tuples(PAUSES, KINDS, st.integers(0, 11)), max_size=20)


def evidence(items: Sequence[tuple[int, str, int]]) -> list[LogRecord]:
    made: list[LogRecord] = []
    at = START_MS
    for pause, kind, which in items:
        at += pause
        for number in range(len(told())) if kind == "all said" else [which]:
            made.append(_evidence(at, len(made), kind.removeprefix("all "), number))
    return made


def _evidence(at: int, offset: int, kind: str, which: int) -> LogRecord:
    if kind == "none":
        return LogRecord(0, offset, at, b"k", b"no evidence")
    if kind.startswith(("tick", "barrier")):
        name, _, source = kind.partition(" from ")
        value = EvidenceControl(kind=name, barrier_id="b", partition=int(source or 0), partitions=2).to_json()
        return LogRecord(0, offset, at, name.encode(), value, [(KIND, name.encode())])
    said = told()[which % len(told())]
    if kind == "archive":
        return archive_record(Contribution.model_validate_json(said.value or b""), at - START_MS, offset)
    if kind == "import":
        pattern = made_by(Contribution.model_validate_json(said.value or b"")).text
        custom = gift_of("x-acme-runbook/deploy", agent_id=f"agent-{which}")
        about = gift_of(pattern) if pattern.startswith("task_schema") else custom
        return import_record(about, at - START_MS, offset)
    changed = {"said": {}, "corrected": {"outcome": "failure"}, "withdrawn": {"withdrawn": True}}[kind]
    value = orjson.dumps({**orjson.loads(said.value or b""), **changed})
    return LogRecord(0, offset, at, said.key, value, said.headers)


def check(new_fold: Callable[[], Fold], made: list[LogRecord], fates: list[Fate]) -> None:
    whole, parts = run(new_fold, made), run_through(new_fold, made, fates)
    assert parts.outputs == whole.outputs
    assert parts.appends == whole.appends
    assert parts.counts == whole.counts
    assert parts.state == whole.state


@BOUNDS
@ORDERINGS
@pytest.mark.requirement("A-02", "E-34", "K-04")
@given(lines=logs(), fates=FATES)
def test_however_events_are_cut_and_wherever_the_worker_dies_the_bytes_are_the_same(
    strict: bool, small: bool, lines: list[Line], fates: list[Fate]
) -> None:
    show("events", lines)
    show_fates(fates)
    with bounds(small=small):
        check(lambda: sessions_fold(strict=strict), records(lines), fates)


@BOUNDS
@pytest.mark.requirement("A-02", "E-34", "K-04")
@given(items=TOLD, fates=FATES)
def test_however_evidence_is_cut_and_wherever_the_worker_dies_the_bytes_are_the_same(
    small: bool, items: list[tuple[int, str, int]], fates: list[Fate]
) -> None:
    show("evidence", (Line(pause, f"+ ms, {kind} {which}") for pause, kind, which in items))
    show_fates(fates)
    with bounds(small=small):
        check(PatternsFold, evidence(items), fates)


@BOUNDS
@pytest.mark.requirement("E-34")
@given(lines=logs(), fates=FATES)
def test_of_sessions_that_are_forgotten_nothing_is_left_in_the_state_topic(
    small: bool, lines: list[Line], fates: list[Fate]
) -> None:
    end = max((line.at for line in lines), default=0) + SESSION_FORGOTTEN_MS + WINDOW_MS
    lines = [*lines, Line(end, "tick")]
    show("events", lines)
    show_fates(fates)
    with bounds(small=small):
        assert run_through(sessions_fold, records(lines), fates).kept == set()


@ORDERINGS
@given(lines=logs())
def test_state_of_sessions_is_read_back_as_it_was_written(strict: bool, lines: list[Line]) -> None:
    show("events", lines)
    fold = sessions_fold(strict=strict)
    for key, value in run(lambda: sessions_fold(strict=strict), records(lines)).state.items():
        assert fold.decode(key, fold.encode(key, value)) == value


@given(items=TOLD)
def test_state_of_patterns_is_read_back_as_it_was_written(items: list[tuple[int, str, int]]) -> None:
    fold = PatternsFold()
    for key, value in run(PatternsFold, evidence(items)).state.items():
        assert fold.decode(key, fold.encode(key, value)) == value
