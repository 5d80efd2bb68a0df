"""Much that is due at once, or that a barrier asks for, is no single transaction; wherever a worker dies between two of
them, the next goes on with the same bytes."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from hmx_pipeline.contracts.limits import PART_STEPS, SEGMENT_IDLE_MS
from hmx_pipeline.stages.executor import Executor, Part
from hmx_pipeline.stages.fold import Fold
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.topology import EVIDENCE
from tests.support.evidence import control
from tests.support.inprocess import Crash, barrier_record, run, run_through, sessions_fold, tick_record
from tests.support.records import START_MS, LogRecord, event, log
from tests.support.sessions import session

SESSIONS = 2 * PART_STEPS


@pytest.fixture(scope="module")
def open_sessions() -> list[LogRecord]:
    """Each has an open segment with something to say."""
    return log([(0, item) for n in range(SESSIONS // 8) for item in session(n)[:3]])


@pytest.fixture(scope="module")
def pending_patterns(open_sessions: list[LogRecord]) -> list[LogRecord]:
    """What sessions say of a few procedures."""
    outputs = run(sessions_fold, [*open_sessions, barrier_record(9_000, offset=len(open_sessions))]).on(EVIDENCE)
    return [LogRecord(0, n, START_MS, o.key, o.value, o.headers) for n, o in enumerate(outputs[:-1])]


def parts(new_fold: Callable[[], Fold], records: Sequence[LogRecord]) -> list[Part]:
    return list(Executor(new_fold(), 0).parts(records))


def failing() -> list[LogRecord]:
    """A session an event, each with something to say."""
    return log([(0, event(f"s{n}", event_type="error", content={"error": "boom"})) for n in range(SESSIONS)])


def spoken(made: Sequence[Part]) -> list[int]:
    """How many segments have, in each part."""
    return [sum(key.startswith("g/") for key in part.effects.changes) for part in made]


def test_a_barrier_over_many_sessions_is_cut_into_parts_and_passes_with_the_last() -> None:
    records = failing()
    made = parts(sessions_fold, [*records, barrier_record(1, offset=SESSIONS)])
    assert [part.folded for part in made] == [SESSIONS + 1] * len(made)
    assert len(made) == 3
    assert [part.end for part in made] == [False, False, True]
    assert sum(spoken(made)) == SESSIONS
    assert max(spoken(made)) == PART_STEPS
    passed = [any(b"barrier" in (output.key or b"") for output in part.effects.outputs) for part in made]
    assert passed == [False, False, True]


def test_sessions_that_fall_silent_together_speak_in_parts() -> None:
    records = failing()
    made = parts(sessions_fold, [*records, tick_record(SEGMENT_IDLE_MS, offset=SESSIONS)])
    assert [part.folded for part in made] == [SESSIONS, SESSIONS, SESSIONS + 1]
    assert max(spoken(made)) == PART_STEPS


def test_what_one_turn_puts_out_beyond_the_bound_ends_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmx_pipeline.stages.executor.PART_BYTES", 1)
    records = log(list(enumerate(item for n in range(4) for item in session(n)[:3])))
    made = parts(sessions_fold, [*records, barrier_record(9_000, offset=len(records))])
    told = [[o for o in part.effects.outputs if o.topic == EVIDENCE] for part in made]
    assert len(made) > 4
    assert all(len({output.key for output in outputs}) == len(outputs) for outputs in told)


@pytest.mark.parametrize("stage", ["sessions", "patterns"])
def test_a_worker_that_dies_between_two_parts_of_a_barrier_leaves_the_rest_to_the_next(
    stage: str,
    open_sessions: list[LogRecord],
    pending_patterns: list[LogRecord],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folds: dict[str, tuple[Any, list[LogRecord], LogRecord]] = {
        "sessions": (sessions_fold, open_sessions, barrier_record(9_000, offset=len(open_sessions))),
        "patterns": (PatternsFold, pending_patterns, control("barrier", 0, len(pending_patterns))),
    }
    fold, before, barrier = folds[stage]
    later = LogRecord(0, barrier.offset + 1, barrier.timestamp + 400_000, b"k", b"no event", [])
    records = [*before, barrier, later]
    whole = run(fold, records)
    monkeypatch.setattr("hmx_pipeline.stages.executor.PART_STEPS", 1)
    assert sum(not part.end for part in parts(fold, [*before, barrier])) > 2
    died = run_through(fold, records, [(len(before) + 1, Crash.AFTER), *[(1, Crash.AFTER)] * 6])
    assert died.outputs == whole.outputs
    assert died.counts == whole.counts
    assert died.state == whole.state
