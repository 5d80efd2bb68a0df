"""The source as the worker has read it: what a dead letter calls unreadable has no value, whoever could read it."""

from hmx_pipeline.audit.source_rows import Row, as_read, told_unreadable
from hmx_pipeline.contracts.headers import LOG_TIME, ORIGIN_OFFSET, ORIGIN_PARTITION, REASON
from hmx_pipeline.contracts.rejections import UNREADABLE


def row(offset: int) -> Row:
    return Row(0, offset, 100 + offset, b"key", b"value", [])


def letter(offset: int, reason: bytes, partition: bytes = b"0") -> Row:
    headers = [(ORIGIN_PARTITION, partition), (ORIGIN_OFFSET, b"%d" % offset), (REASON, reason), (LOG_TIME, b"7")]
    return Row(0, offset, 0, None, None, headers)


def test_records_of_unreadable_batches_have_their_place_whether_they_were_read_or_not() -> None:
    told = {2: 7, 3: 7, 6: 9, 7: 9}
    found = list(as_read([row(0), row(2), row(4), row(5)], 0, told))
    assert [item.offset for item in found] == [0, 2, 3, 4, 5, 6, 7]
    assert [item.offset for item in found if item.value is UNREADABLE] == [2, 3, 6, 7]
    assert [item.timestamp for item in found] == [100, 7, 7, 104, 105, 9, 9]


def test_only_dead_letters_of_that_reason_and_partition_tell_it() -> None:
    letters = [letter(1, b"not_json"), letter(2, b"unreadable_batch"), letter(3, b"unreadable_batch", b"1")]
    assert told_unreadable(letters) == {2: 7}
