"""Whatever one batch holds, what is remembered of it fits into records of the state topic."""

from hmx_pipeline.contracts.limits import BLOCK_BYTES, ID_BYTES, RECENT_IDS, RECORD_BYTES, STEP_TEXT
from hmx_pipeline.stages.executor import Executor
from tests.support.inprocess import run, sessions_fold
from tests.support.records import LogRecord, event, log

SENT = RECENT_IDS


def records() -> list[LogRecord]:
    """Events of which as much is remembered as there may be, as many as are remembered; then all of them again."""
    said = {"role": "user", "text": "\x01" * STEP_TEXT}
    events = [event(sequence=n, event_id=f"{n:0{ID_BYTES}}", content=said) for n in range(SENT)]
    return log([(n, item) for n, item in enumerate([*events, *events])])


def test_what_is_remembered_of_a_batch_of_long_ids_fits_into_records() -> None:
    changes = Executor(sessions_fold(), 0).run(records()[:SENT]).changes
    assert sum(len(value or b"") for value in changes.values()) > BLOCK_BYTES
    assert max(len(key) + len(value or b"") for key, value in changes.items()) <= RECORD_BYTES


def test_what_is_remembered_in_several_blocks_is_read_back_as_one() -> None:
    restored = run(sessions_fold, records(), cut=lambda left: min(left, SENT), restores=True)
    assert restored.counts["duplicate"] == SENT
    assert restored.outputs == run(sessions_fold, records()).outputs
