"""Dead letter report: counts dead letters by reason and shows the newest example of each.

Enters: records of a dead letter topic. Leaves: a `DeadLetterReport` for each reason, the most frequent first.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from hmx_pipeline.contracts import headers as names
from hmx_pipeline.contracts.headers import header
from hmx_pipeline.contracts.rejections import PREFACE, mending
from hmx_pipeline.stages.fold import Record

EXCERPT: Final = 200
"""Number of value bytes shown. They are the original bytes and may hold secrets."""


@dataclass(frozen=True)
class DeadLetterExample:
    partition: int
    offset: int
    """Offset of the dead letter."""
    origin: str
    """Partition and offset of the original record."""
    key: bytes | None
    path: str
    detail: str
    log_time: int
    """Append time of the original record (ms)."""
    value: bytes | None
    """The first `EXCERPT` bytes."""
    size: int


@dataclass
class DeadLetterReport:
    topic: str
    reason: str
    step: str
    count: int
    example: DeadLetterExample

    @property
    def advice(self) -> str:
        return mending(self.reason)

    def as_json(self, with_values: bool) -> dict[str, Any]:
        shown = {**asdict(self.example), "key": readable(self.example.key), "value": readable(self.example.value)}
        if not with_values:
            del shown["value"]
        return {
            "topic": self.topic,
            "reason": self.reason,
            "step": self.step,
            "count": self.count,
            "advice": self.advice,
            "example": shown,
        }


def by_reason(topic: str, records: Iterable[Record]) -> list[DeadLetterReport]:
    """Groups dead letters by reason, the most frequent reason first."""
    found: dict[str, DeadLetterReport] = {}
    for record in records:
        reason = _text(record, names.REASON)
        known = found.get(reason)
        if known is None:
            found[reason] = DeadLetterReport(topic, reason, _text(record, names.STEP), 1, _example(record))
            continue
        known.count += 1
        example = _example(record)
        if example.log_time >= known.example.log_time:
            known.example = example
    return sorted(found.values(), key=lambda letters: -letters.count)


def readable(raw: bytes | None) -> str | None:
    """Decodes bytes as UTF-8; invalid bytes become escapes."""
    return None if raw is None else raw.decode(errors="backslashreplace")


def _example(record: Record) -> DeadLetterExample:
    log_time = _text(record, names.LOG_TIME)
    value = record.value
    return DeadLetterExample(
        partition=record.partition,
        offset=record.offset,
        origin=f"{_text(record, names.ORIGIN_PARTITION)}:{_text(record, names.ORIGIN_OFFSET)}",
        key=record.key,
        path=_text(record, names.PATH),
        detail=_text(record, names.DETAIL).removeprefix(PREFACE),
        log_time=int(log_time) if log_time.isdecimal() else record.timestamp,
        value=value[:EXCERPT] if value is not None else None,
        size=len(value or b""),
    )


def _text(record: Record, name: str) -> str:
    return (header(record.headers, name) or b"unknown").decode(errors="replace")
