"""Dead letters: the record as it came, and after its own headers why and where from."""

from pipeline.contracts.headers import (
    DEAD_LETTER,
    DETAIL,
    LOG_TIME,
    OMITTED,
    ORIGIN_TOPIC,
    PATH,
    REASON,
    STEP,
    output_headers,
)
from pipeline.contracts.limits import RECORD_BYTES
from pipeline.contracts.rejections import UNREADABLE, Reason, Rejection
from pipeline.stages.fold import Output, Record


def dead_letter(source: str, topic: str, record: Record, rejection: Rejection) -> Output:
    """Key, value and the producer's headers untouched. Readers take the last header of a name: ours.

    Of a record beyond the bound only ours are left; they say where in the log it stands. Likewise of one that nobody
    can read, and of one whose output Kafka has refused; how large that is nobody knows.
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
    if record.value is UNREADABLE or rejection.reason is Reason.OUTPUT_REFUSED:
        return Output(topic, record.partition, None, None, [*ours, (OMITTED, b"0")])
    size = record_bytes(record)
    if size > RECORD_BYTES:
        return Output(topic, record.partition, None, None, [*ours, (OMITTED, b"%d" % size)])
    return Output(topic, record.partition, record.key, record.value, [*record.headers, *ours])


def record_bytes(record: Record) -> int:
    """Of key, value and headers, as they are without compression."""
    headers = sum(len(name.encode()) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers
