"""What becomes of dead letters of the events topic that are to be sent back: the policy.

Enters: a dead letter; what is asked for; which letters were sent back before. Leaves: its fate, and the record to
append. Pure; never raises. A letter goes back only where it would be accepted now, with its session's key, its bytes as
they came, and headers that name the dead letter and where the record stood first. Nothing is sent back twice.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.audit.digests import APPENDED, origin_of
from pipeline.contracts import headers as names
from pipeline.contracts.explained import Explained
from pipeline.contracts.headers import Headers, header
from pipeline.contracts.keys import partition_of, split_key
from pipeline.contracts.rejections import Reason, Rejection
from pipeline.intake.decode import decode
from pipeline.kafka.publisher import key_of
from pipeline.stages.fold import Output, Record
from pipeline.topology import EVENTS, EVENTS_DLQ

Place = tuple[int, int]
"""Partition and offset."""
OURS = "hmx-"


class Fate(Explained):
    """What happens to a letter, and why."""

    SEND = "send", "it would be accepted now"
    FORCED = "forced", "it would be rejected again, and is sent all the same"
    AGAIN = "again", "it would be rejected again"
    NAMED = "named", "it would fail again unless the defect is mended: then ask for it by its --reason"
    BEFORE = "before", "it was sent back before"
    OMITTED = "omitted", "its bytes were too many for a dead letter"

    @property
    def goes(self) -> bool:
        return self in (Fate.SEND, Fate.FORCED)


@dataclass(frozen=True, slots=True)
class Asked:
    """Which letters; empty and None stand for all."""

    reasons: Collection[str] = ()
    tenant: str | None = None
    since_ms: int = 0
    """Letters from then on."""
    places: Collection[Place] = ()
    """Of dead letters."""
    force: bool = False

    def selects(self, letter: Record) -> bool:
        return (
            letter.timestamp >= self.since_ms
            and (not self.places or (letter.partition, letter.offset) in self.places)
            and (not self.reasons or reason_of(letter) in self.reasons)
            and (self.tenant is None or owner_of(letter)[0] == self.tenant)
        )


class Judged(NamedTuple):
    letter: Record
    fate: Fate
    detail: str
    """Why it would be rejected again."""


def judge(letter: Record, asked: Asked, before: Collection[Place]) -> Judged:
    """Of a letter that was asked for."""
    if header(letter.headers, names.OMITTED) is not None:
        return Judged(letter, Fate.OMITTED, "")
    if (letter.partition, letter.offset) in before:
        return Judged(letter, Fate.BEFORE, "")
    reason, found = reason_of(letter), decode(letter.value)
    if isinstance(found, Rejection):
        detail = f"{found.reason} at {found.path}"
    elif found.control:
        detail = f"{Reason.RESERVED}: {Reason.RESERVED.advice}"
    elif reason == Reason.EVENT_ID_REUSED:
        detail = Reason.EVENT_ID_REUSED.advice
    elif reason in (Reason.POISON, Reason.DEADLY) and reason not in asked.reasons:
        return Judged(letter, Fate.FORCED if asked.force else Fate.NAMED, "")
    else:
        return Judged(letter, Fate.SEND, "")
    return Judged(letter, Fate.FORCED if asked.force else Fate.AGAIN, detail)


def returned(letter: Record, partitions: int) -> Output:
    """The record for the events topic. What has no session to be keyed by goes where it was."""
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
    """The dead letters that these records of the events topic were."""
    return {place for record in records if _came_back(record) and (place := origin_of(record)) is not None}


def reason_of(letter: Record) -> str:
    return (header(letter.headers, names.REASON) or b"unknown").decode(errors="replace")


def first_place(letter: Record) -> Place:
    """Where the record stood in the events topic; of one that was sent back and rejected again, the last time."""
    return origin_of(letter) or (letter.partition, -1)


def owner_of(letter: Record) -> tuple[str, str]:
    """Tenant and session, as far as the value names them."""
    key = key_of(letter.value or b"")
    tenant, session = split_key(key.decode()) if key is not None else ("", "")
    return tenant, session


def _came_back(record: Record) -> bool:
    return header(record.headers, names.ORIGIN_TOPIC) == EVENTS_DLQ.encode()


def _producers(headers: Headers) -> Headers:
    """Without those that the dead letter has added at the end, and any that only the pipeline may write."""
    added = set(APPENDED)
    end = len(headers)
    while end and headers[end - 1][0] in added:
        end -= 1
        added.remove(headers[end][0])
    return [(name, value) for name, value in headers[:end] if not name.startswith(OURS)]
