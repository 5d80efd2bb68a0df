"""What reading ahead must not change: which records are decoded, and whose fault an exception is."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import orjson

from hmx_pipeline.contracts.limits import KB
from hmx_pipeline.contracts.rejections import Reason
from hmx_pipeline.intake.decode import decode_each
from hmx_pipeline.stages import reading_ahead
from hmx_pipeline.stages.executor import Executor
from hmx_pipeline.stages.fold import Record, Tx
from tests.support.inprocess import sessions_fold
from tests.support.records import START_MS, event


def records(count: int, text: str = "") -> list[Record]:
    events = (event(event_id=f"e{n}", sequence=n, content={"role": "user", "text": text}) for n in range(count))
    return [Record(0, n, START_MS + n, None, orjson.dumps(one), ()) for n, one in enumerate(events)]


class Decoding:
    """Remembers what is decoded; fails for some."""

    def __init__(self, *fails: bytes | None) -> None:
        self.fails = fails
        self.seen: list[bytes | None] = []

    def __call__(self, values: Sequence[bytes | None]) -> Any:
        if not set(self.fails).isdisjoint(values):
            raise RuntimeError("a defect")
        self.seen.extend(values)
        return decode_each(values)


def test_each_record_is_decoded_once_and_in_order() -> None:
    batch = records(300)
    with patch.object(reading_ahead, "decode_each", Decoding()) as decoding:
        Executor(sessions_fold(), 0).run(batch)
    assert decoding.seen == [record.value for record in batch]


def test_a_condemned_record_is_never_decoded() -> None:
    batch, executor = records(4), Executor(sessions_fold(), 0)
    executor.condemned = {2}
    with patch.object(reading_ahead, "decode_each", Decoding()) as decoding:
        counts = executor.run(batch).counts
    assert batch[2].value not in decoding.seen
    assert counts[f"rejected.{Reason.DEADLY}"] == 1


def test_a_record_that_cannot_be_decoded_is_rejected_in_its_own_turn() -> None:
    batch = records(4)
    with patch.object(reading_ahead, "decode_each", Decoding(batch[2].value)):
        counts = Executor(sessions_fold(), 0).run(batch).counts
    assert counts[f"rejected.{Reason.POISON}"] == counts["rejected"] == 1


def test_large_records_are_not_held_by_the_hundred() -> None:
    batch, whole, ahead = records(12, "word " * (20 * KB)), sessions_fold(), []
    with patch.object(reading_ahead, "decode_each", Decoding()) as decoding, patch.object(whole, "fold") as folded:

        def fold(tx: Tx, record: Record) -> None:
            type(whole).fold(whole, tx, record)
            ahead.append(len(decoding.seen) - 1 - record.offset)

        folded.side_effect = fold
        Executor(whole, 0).run(batch)
    assert len(ahead) == len(batch)
    assert max(ahead) == 2
