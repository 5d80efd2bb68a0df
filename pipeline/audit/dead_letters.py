"""Dead letters by reason.

Enters: records of a dead letter topic. Leaves: per reason a count and one example, the newest. Pure; never raises.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from pipeline.contracts import headers as names
from pipeline.contracts.headers import header
from pipeline.contracts.rejections import Reason
from pipeline.stages.fold import Record

EXCERPT: Final = 200
"""Bytes of a value; it stands there as it came, secrets and all."""
_ADVICE: Final = {str(reason): reason.advice for reason in Reason}


@dataclass(frozen=True)
class Example:
    partition: int
    offset: int
    """Of the dead letter."""
    origin: str
    """Partition and offset of the record as it came."""
    key: bytes | None
    path: str
    detail: str
    log_time: int
    """When the record was appended, milliseconds."""
    value: bytes | None
    """Its beginning."""
    size: int


@dataclass
class Letters:
    topic: str
    reason: str
    step: str
    count: int
    example: Example

    @property
    def advice(self) -> str:
        return _ADVICE.get(self.reason, "")

    def as_json(self, with_values: bool) -> dict[str, Any]:
        example = self.example
        shown = {
            "partition": example.partition,
            "offset": example.offset,
            "origin": example.origin,
            "key": readable(example.key),
            "path": example.path,
            "detail": example.detail,
            "log_time": example.log_time,
            "size": example.size,
        }
        if with_values:
            shown["value"] = readable(example.value)
        return {
            "topic": self.topic,
            "reason": self.reason,
            "step": self.step,
            "count": self.count,
            "advice": self.advice,
            "example": shown,
        }


def by_reason(topic: str, records: Iterable[Record]) -> list[Letters]:
    """The most frequent first."""
    found: dict[str, Letters] = {}
    for record in records:
        reason = _text(record, names.REASON)
        known = found.get(reason)
        if known is None:
            found[reason] = Letters(topic, reason, _text(record, names.STEP), 1, _example(record))
            continue
        known.count += 1
        example = _example(record)
        if example.log_time >= known.example.log_time:
            known.example = example
    return sorted(found.values(), key=lambda letters: -letters.count)


def readable(raw: bytes | None) -> str | None:
    """Bytes as text; what is no UTF-8 is written as escapes."""
    return None if raw is None else raw.decode(errors="backslashreplace")


def _example(record: Record) -> Example:
    log_time = _text(record, names.LOG_TIME)
    value = record.value
    return Example(
        partition=record.partition,
        offset=record.offset,
        origin=f"{_text(record, names.ORIGIN_PARTITION)}:{_text(record, names.ORIGIN_OFFSET)}",
        key=record.key,
        path=_text(record, names.PATH),
        detail=_text(record, names.DETAIL),
        log_time=int(log_time) if log_time.isdecimal() else record.timestamp,
        value=value[:EXCERPT] if value is not None else None,
        size=len(value or b""),
    )


def _text(record: Record, name: str) -> str:
    return (header(record.headers, name) or b"unknown").decode(errors="replace")
