"""What nobody looks at is packed, and nobody can tell."""

from dataclasses import replace

import pytest

from hmx_pipeline.contracts.limits import SEGMENT_IDLE_MS, SESSION_FORGOTTEN_MS
from hmx_pipeline.stages import state_tx
from hmx_pipeline.stages.executor import Executor
from tests.support.inprocess import events_log, run, sessions_fold, signed, tick_record
from tests.support.records import START_MS, LogRecord
from tests.support.sessions import interleaved, session

SESSIONS = [session(number) for number in range(8)]
SILENCES = [SEGMENT_IDLE_MS, 2 * SEGMENT_IDLE_MS, SESSION_FORGOTTEN_MS + 2 * SEGMENT_IDLE_MS]


def records() -> list[LogRecord]:
    """Events with a pause before each quarter of them, the same once more, and silence until all are forgotten."""
    (log,) = events_log(interleaved(SESSIONS, 3), partitions=1).values()
    events = [record for record in log if record.key != b"control"]
    twice = [*events, *events]
    paced = [
        replace(record, offset=n, timestamp=START_MS + n + n * 8 // len(twice) * 2 * state_tx.REST_MS)
        for n, record in enumerate(twice)
    ]
    end = paced[-1].timestamp - START_MS
    return [*paced, *(tick_record(end + silence, offset=len(paced) + n) for n, silence in enumerate(SILENCES))]


@pytest.mark.parametrize("size", [1, 7, 60])
def test_packed_state_gives_the_same_as_state_that_never_rests(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    log = records()
    with monkeypatch.context() as patch:
        patch.setattr(state_tx, "REST_MS", 10**15)
        expected = run(sessions_fold, log, cut=lambda left: min(size, left))
    assert expected.counts["duplicate"] >= len(log) // 2 - 2
    assert expected.counts["contributed"] > 0
    assert expected.counts["session_forgotten"] == len(SESSIONS)
    for rest_ms in (0, 1, state_tx.REST_MS):
        monkeypatch.setattr(state_tx, "REST_MS", rest_ms)
        for restores in (False, True):
            packed = run(sessions_fold, log, cut=lambda left: min(size, left), restores=restores)
            assert packed.outputs == expected.outputs
            assert packed.counts == expected.counts
            assert packed.state == expected.state


def test_sessions_at_rest_are_bytes() -> None:
    """Or the test above would prove nothing."""
    executor = Executor(sessions_fold(), 0)
    log = records()[: len(records()) // 2]
    executor.run(log)
    later = log[-1].timestamp
    for n in range(3):
        executor.run([signed(log[-1].value or b"", 0, len(log) + n, later - START_MS + (n + 1) * state_tx.REST_MS)])
    packed = [value for value in executor._tx._state.values() if type(value) is bytes]
    assert len(packed) >= len(SESSIONS) - 1
    assert sum(bool(journal.packed) for journal in executor._tx._journals.values()) >= len(SESSIONS) - 1
