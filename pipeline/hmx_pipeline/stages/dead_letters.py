"""Dead letters: the rejected record as it came, with headers for the reason and the origin.

Enters: a `Record` that a stage rejected, and the `Rejection`. Leaves: an `Output` for the same partition of the dead
letter topic; of a record that is too large, unreadable or erased, or whose output Kafka refused, only the pipeline's
headers.
"""

from typing import Final

from hmx_pipeline.contracts.headers import (
    CE_ID,
    CE_SOURCE,
    CE_SPECVERSION,
    CE_TYPE,
    DEAD_LETTER,
    DETAIL,
    LOG_TIME,
    OMITTED,
    ORIGIN_OFFSET,
    ORIGIN_PARTITION,
    ORIGIN_TOPIC,
    PATH,
    REASON,
    STEP,
    output_headers,
)
from hmx_pipeline.contracts.limits import RECORD_BYTES
from hmx_pipeline.contracts.rejections import UNREADABLE, Reason, Rejection
from hmx_pipeline.stages.fold import Output, Record

APPENDED: Final = (
    *(CE_SPECVERSION, CE_TYPE, CE_SOURCE, ORIGIN_PARTITION, ORIGIN_OFFSET, CE_ID),
    *(REASON, STEP, PATH, DETAIL, ORIGIN_TOPIC, LOG_TIME),
)
"""Headers that are appended to a dead letter, after the producer's own."""
WITHOUT_BYTES: Final = (Reason.OUTPUT_REFUSED, Reason.ERASED)


def dead_letter(source: str, topic: str, record: Record, rejection: Rejection) -> Output:
    """Return the dead letter. Key, value and the producer's headers stay; readers take the last header of a name, which
    is ours.

    If the record exceeds the bound, only our headers remain, which give its offset in the log. The same holds for an
    unreadable record, for one whose output Kafka refused, whose size is unknown, and for an erased one.
    """
    _its_own_content_type, *place = output_headers(DEAD_LETTER, source, record.partition, record.offset)
    ours = [
        *place,
        (REASON, str(rejection.reason).encode()),
        (STEP, str(rejection.reason.step).encode()),
        (PATH, rejection.path.encode()),
        (DETAIL, (rejection.detail or rejection.reason.advice).encode()),
        (ORIGIN_TOPIC, source.encode()),
        (LOG_TIME, b"%d" % record.timestamp),
    ]
    if record.value is UNREADABLE or rejection.reason in WITHOUT_BYTES:
        return Output(topic, record.partition, None, None, [*ours, (OMITTED, b"0")])
    size = record_bytes(record)
    if size > RECORD_BYTES:
        return Output(topic, record.partition, None, None, [*ours, (OMITTED, b"%d" % size)])
    return Output(topic, record.partition, record.key, record.value, [*record.headers, *ours])


def record_bytes(record: Record) -> int:
    """Return the uncompressed bytes of key, value and headers."""
    headers = sum(len(name.encode()) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers
