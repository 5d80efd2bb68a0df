"""Dead letters: the record as it came, and after its own headers why and where from."""

from pipeline.contracts.headers import (
    DETAIL,
    LOG_TIME,
    ORIGIN_OFFSET,
    ORIGIN_PARTITION,
    ORIGIN_TOPIC,
    PATH,
    REASON,
    STEP,
)
from pipeline.contracts.rejections import Rejection
from pipeline.stages.fold import Output, Record


def dead_letter(source: str, topic: str, record: Record, rejection: Rejection) -> Output:
    """Key, value and the producer's headers untouched. Readers take the last header of a name: ours."""
    headers = [
        *record.headers,
        (REASON, str(rejection.reason).encode()),
        (STEP, str(rejection.reason.step).encode()),
        (PATH, rejection.path.encode()),
        (DETAIL, (rejection.detail or rejection.reason.advice).encode()),
        (ORIGIN_TOPIC, source.encode()),
        (ORIGIN_PARTITION, b"%d" % record.partition),
        (ORIGIN_OFFSET, b"%d" % record.offset),
        (LOG_TIME, b"%d" % record.timestamp),
    ]
    return Output(topic, record.partition, record.key, record.value, headers)
