"""Whatever one batch holds, what is remembered of it fits into records of the state topic."""

from pipeline.contracts.limits import BATCH_BYTES, KB, RECORD_BYTES
from pipeline.stages.executor import Executor
from tests.support.inprocess import run, sessions_fold
from tests.support.records import LogRecord, event, log

LONG_ID = 400 * KB
SENT = BATCH_BYTES // LONG_ID


def records() -> list[LogRecord]:
    """Events with ids as long as nobody forbids, as many as come in one batch; then all of them again."""
    events = [event(sequence=n, event_id=f"{n}" + "i" * LONG_ID) for n in range(SENT)]
    return log([(n, item) for n, item in enumerate([*events, *events])])


def test_what_is_remembered_of_a_batch_of_long_ids_fits_into_records() -> None:
    changes = Executor(sessions_fold(), 0).run(records()[:SENT]).changes
    assert max(len(key) + len(value or b"") for key, value in changes.items()) <= RECORD_BYTES


def test_what_is_remembered_in_several_blocks_is_read_back_as_one() -> None:
    restored = run(sessions_fold, records(), cut=lambda left: min(left, SENT), restores=True)
    assert restored.counts["duplicate"] == SENT
    assert restored.outputs == run(sessions_fold, records()).outputs
