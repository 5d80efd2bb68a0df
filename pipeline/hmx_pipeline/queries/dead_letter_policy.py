"""Dead letter policy: which dead letters of the events topic may be sent back, and as which records.

Enters: a dead letter, the filter, the letters sent back before, what was erased. Leaves: a decision, and the record to
append. Pure; never raises. A letter goes back only if it would be accepted now, was not sent back before and was not
erased. The record has its session's key, the original bytes, and headers that name the dead letter and the first
origin.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from hmx_pipeline.contracts import headers as names
from hmx_pipeline.contracts.codes import ExplainedCode
from hmx_pipeline.contracts.headers import Headers, header, origin_of
from hmx_pipeline.contracts.keys import partition_of, split_key
from hmx_pipeline.contracts.rejections import Reason, Rejection
from hmx_pipeline.intake.decode import decode
from hmx_pipeline.kafka.publisher import key_of
from hmx_pipeline.stages.dead_letters import APPENDED
from hmx_pipeline.stages.fold import Output, Record
from hmx_pipeline.topology import EVENTS, EVENTS_DLQ

Place = tuple[int, int]
"""Partition and offset."""
OURS = "hmx-"


class ReplayDecision(ExplainedCode):
    """The decision on a letter, and its reason."""

    SEND = "send", "it would be accepted now"
    FORCED = "forced", "it would be rejected again, but --force sends it"
    AGAIN = "again", "it would be rejected again: mend it and publish it again; its letter stays here"
    NAMED = "named", "it would fail again until the defect is fixed; after the fix select it with --reason"
    BEFORE = "before", "it was sent back before"
    OMITTED = "omitted", "the record was too large to be kept in a dead letter"
    ERASED = "erased", "it was erased, or is older than its tenant keeps anything"

    @property
    def goes(self) -> bool:
        return self in (ReplayDecision.SEND, ReplayDecision.FORCED)


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Filter of dead letters; empty and None select all."""

    reasons: Collection[str] = ()
    tenant: str | None = None
    since_ms: int = 0
    """Earliest append time of a letter (ms)."""
    places: Collection[Place] = ()
    """Partitions and offsets of dead letters."""
    force: bool = False

    def selects(self, letter: Record) -> bool:
        return (
            letter.timestamp >= self.since_ms
            and (not self.places or (letter.partition, letter.offset) in self.places)
            and (not self.reasons or reason_of(letter) in self.reasons)
            and (self.tenant is None or owner_of(letter)[0] == self.tenant)
        )


class JudgedLetter(NamedTuple):
    letter: Record
    fate: ReplayDecision
    detail: str
    """Why it would be rejected again."""


def judge(
    letter: Record, asked: LetterFilter, before: Collection[Place], gone: Callable[[Record], bool] = lambda _: False
) -> JudgedLetter:
    """`gone` says whether a letter was erased."""
    if gone(letter):
        return JudgedLetter(letter, ReplayDecision.ERASED, "")
    if header(letter.headers, names.OMITTED) is not None:
        return JudgedLetter(letter, ReplayDecision.OMITTED, "")
    if (letter.partition, letter.offset) in before:
        return JudgedLetter(letter, ReplayDecision.BEFORE, "")
    reason, found = reason_of(letter), decode(letter.value)
    if isinstance(found, Rejection):
        detail = f"{found.reason} at {found.path}"
    elif found.control:
        detail = f"{Reason.RESERVED}: {Reason.RESERVED.advice}"
    elif reason == Reason.EVENT_ID_REUSED:
        detail = Reason.EVENT_ID_REUSED.advice
    elif reason in (Reason.POISON, Reason.DEADLY) and reason not in asked.reasons:
        return JudgedLetter(letter, ReplayDecision.FORCED if asked.force else ReplayDecision.NAMED, "")
    else:
        return JudgedLetter(letter, ReplayDecision.SEND, "")
    return JudgedLetter(letter, ReplayDecision.FORCED if asked.force else ReplayDecision.AGAIN, detail)


def returned(letter: Record, partitions: int) -> Output:
    """Builds the events record. A record without a session key goes to its original partition."""
    key = key_of(letter.value or b"")
    first = first_place(letter)
    partition = partition_of(key.decode(), partitions) if key is not None else first[0]
    ours = [
        (names.ORIGIN_TOPIC, EVENTS_DLQ.encode()),
        (names.ORIGIN_PARTITION, b"%d" % letter.partition),
        (names.ORIGIN_OFFSET, b"%d" % letter.offset),
        (names.FIRST_ORIGIN, b"%d:%d" % first),
    ]
    return Output(EVENTS, partition, key or letter.key, letter.value, [*_producers(letter.headers), *ours])


def sent_before(records: Iterable[Record]) -> set[Place]:
    """Returns the dead letters that were sent back as these events records."""
    back = (record for record in records if header(record.headers, names.ORIGIN_TOPIC) == EVENTS_DLQ.encode())
    return {place for record in back if (place := origin_of(record.headers)) is not None}


def reason_of(letter: Record) -> str:
    return (header(letter.headers, names.REASON) or b"unknown").decode(errors="replace")


def first_place(letter: Record) -> Place:
    """Returns where the record last stood in the events topic."""
    return origin_of(letter.headers) or (letter.partition, -1)


def owner_of(letter: Record) -> tuple[str, str]:
    """Returns tenant and session, as far as the value names them."""
    key = key_of(letter.value or b"")
    tenant, session = split_key(key.decode()) if key is not None else ("", "")
    return tenant, session


def _producers(headers: Headers) -> Headers:
    """Returns the producer's headers, without those of the dead letter and those reserved for the pipeline. What the
    service said of the sender's key stays: without it the event would be believed more than when it came."""
    added = set(APPENDED)
    end = len(headers)
    while end and headers[end - 1][0] in added:
        end -= 1
        added.remove(headers[end][0])
    return [(name, value) for name, value in headers[:end] if name == names.AGENT_UNPROVEN or not name.startswith(OURS)]
