"""Law 1, recomputed for one partition of the events topic: every record has exactly one outcome.

Enters: the partition's records, the outputs that name it as their origin, and what the stage's state says: the
position, what waits, what retention took. Leaves: a `PartitionReport`: outcomes counted, violations named, and what
decided one record's outcome where it is asked for. What stood in the wrong partition has its outcome once the copies in
all partitions are known: `follow`. Pure; never raises for what it finds.

Records and outputs are read side by side and joined by their offsets: an output comes with its record's transaction or,
for what waited, within the window. So what is held in memory is what has no output yet (it waits, is a duplicate, or
stood in the wrong partition), some 300 bytes each, and one byte an offset.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from pipeline.audit.digests import (
    SIZE,
    copied_digest,
    copy_digest,
    dead_letter_digest,
    episode_digest,
    expected_episode,
    identity_of,
    origin_of,
    original_digest,
    refused_digest,
)
from pipeline.contracts import headers as names
from pipeline.contracts.envelope import read_envelope
from pipeline.contracts.headers import header
from pipeline.contracts.keys import partition_of, session_key
from pipeline.contracts.outcomes import Outcome
from pipeline.contracts.rejections import Reason, Rejection
from pipeline.intake.accepted import Accepted
from pipeline.intake.control import authentic, is_control, is_rerouted_copy, rerouted_from
from pipeline.intake.decode import decode
from pipeline.stages.fold import Record
from pipeline.topology import EPISODES, EVENTS, EVENTS_DLQ

VIOLATIONS_KEPT: Final = 1_000
OF_VALID_EVENTS: Final = frozenset(
    {
        Reason.WRONG_PARTITION,
        Reason.FORGED_ORIGIN,
        Reason.EVENT_ID_REUSED,
        Reason.POISON,
        Reason.DEADLY,
        Reason.OUTPUT_REFUSED,
    }
)
"""Reasons for which an event is rejected that is in order on its own."""


class Fault(StrEnum):
    MISSING = "missing"
    """A record without an outcome: no output, not waiting, and no earlier copy that would make it a duplicate."""
    DOUBLED = "doubled"
    """A record with two outcomes."""
    MISPLACED = "misplaced"
    """An output in another partition than its origin's, or a copy in another than its session's."""
    UNFOUNDED = "unfounded"
    """An output, a copy, or something that waits, whose origin does not exist or had no need of it."""
    NAMELESS = "nameless"
    """An output that does not say where it comes from."""
    ALTERED = "altered"
    """An output that is not what its origin says."""
    WRONG_OUTCOME = "wrong_outcome"
    """An episode of what is invalid or in the wrong partition, or a valid event rejected for what it is not."""


_THERE: Final = 1
_REDACTED: Final = 2
Place = tuple[int, int]
"""Partition and offset."""


class Violation(NamedTuple):
    fault: Fault
    topic: str
    """Where `partition` and `offset` point to."""
    partition: int
    offset: int
    detail: str


class Standing(NamedTuple):
    """What the stage's state says of a partition."""

    position: int
    waiting: Mapping[int, int]
    """Offsets of the events that wait, and until when at the latest: a time of the log in milliseconds."""
    lost: tuple[tuple[int, int], ...] = ()
    """Offset ranges [from, to) that retention took before they were read."""
    clock: int = 0
    """The partition's time."""


class Copy(NamedTuple):
    """A rerouted record's copy, in its session's own partition."""

    place: Place
    digest: bytes


class Astray(NamedTuple):
    """A valid event in a partition that is not its session's."""

    belongs: int
    """Its session's partition."""
    digest: bytes
    """Of the copy that it makes there."""


class Reroutes(NamedTuple):
    """The copies in the whole events topic."""

    copies: Mapping[Place, Copy] = {}
    """The first one of each rerouted record, by where that stood."""
    trimmed: frozenset[int] = frozenset()
    """Partitions from whose beginning retention has taken records."""


class Output(NamedTuple):
    """One partition of an output topic, from the first record that is left of it."""

    topic: str
    records: Iterable[Record]
    trimmed: bool
    """Retention has taken records from its beginning."""


class Found(NamedTuple):
    """An outcome of the record that was asked for."""

    outcome: Outcome
    by: Place | None = None
    """What shows it: the output, a duplicate's original, a rerouted record's copy."""


@dataclass
class PartitionReport:
    partition: int
    low: int
    position: int
    outcomes: Counter[str] = field(default_factory=Counter)
    rejections: Counter[str] = field(default_factory=Counter)
    pending: int = 0
    """Records that the stage has not come to."""
    unverified: int = 0
    """Records whose output or whose original retention may have taken."""
    violations: list[Violation] = field(default_factory=list)
    """The first of them."""
    faults: Counter[str] = field(default_factory=Counter)
    asked: int | None = None
    """The offset of the one record whose outcome is to be explained."""
    found: list[Found] = field(default_factory=list)
    """What was found of it."""
    horizon: int = 0
    """Below it outputs may have been taken by retention."""
    astray: dict[int, Astray] = field(default_factory=dict)
    """By their offsets; their outcome is still to be found."""
    copies: dict[Place, Copy] = field(default_factory=dict)
    """The first copies here of records in other partitions, by where those stood."""

    def settle(self, outcome: Outcome, offset: int, by: Place | None = None) -> None:
        self.outcomes[outcome] += 1
        if offset == self.asked:
            self.found.append(Found(outcome, by))

    def violate(self, fault: Fault, topic: str, record: Place, detail: str) -> None:
        self.faults[fault] += 1
        if len(self.violations) < VIOLATIONS_KEPT or (topic == EVENTS and record == (self.partition, self.asked)):
            self.violations.append(Violation(fault, topic, *record, detail))

    def without(self, offset: int, horizon: int, detail: str) -> None:
        if offset < horizon:
            self.unverified += 1
        else:
            self.violate(Fault.MISSING, EVENTS, (self.partition, offset), detail)


class _Open(msgspec.Struct, frozen=True, gc=False):
    """A record that has no outcome yet, though outputs beyond it have been read."""

    accepted: bool
    belongs: int
    """The partition of its session."""
    log_time: int
    digests: bytes
    """Of the dead letter that it would make; of what is accepted also of its episode, of its ids and of its values."""

    @property
    def as_dead_letter(self) -> bytes:
        return self.digests[:SIZE]

    @property
    def as_episode(self) -> bytes:
        return self.digests[SIZE : 2 * SIZE]

    @property
    def identity(self) -> bytes:
        return self.digests[2 * SIZE : 3 * SIZE]


class _Fresh(NamedTuple):
    """A record whose output may come next. Most have theirs then, so only what that is compared with is worked out."""

    record: Record
    found: Accepted | None
    belongs: int

    @property
    def accepted(self) -> bool:
        return self.found is not None

    @property
    def log_time(self) -> int:
        return self.record.timestamp

    @property
    def as_dead_letter(self) -> bytes:
        return dead_letter_digest(self.record)

    @property
    def as_episode(self) -> bytes:
        return expected_episode(self.record, self.found) if self.found is not None else b""

    def kept(self) -> _Open:
        identity = identity_of(self.found.event) if self.found is not None else b""
        digests = b"".join((self.as_dead_letter, self.as_episode, identity))
        return _Open(self.accepted, self.belongs, self.log_time, digests)


def copies_of(records: Iterable[Record], control_key: str) -> Iterator[tuple[Place, Copy]]:
    """The copies among a partition's records that our key authenticates, and where their first position is."""
    for record in records:
        first = rerouted_from(record.headers)
        if first is not None and is_rerouted_copy(control_key, record.value or b"", record.headers):
            yield first, Copy((record.partition, record.offset), copy_digest(record))


def conserve(
    partition: int,
    low: int,
    standing: Standing,
    events: Callable[[], Iterable[Record]],
    outputs: Iterable[Output],
    partitions: int,
    control_key: str,
    stood_still: Callable[[], bool] = lambda: True,
    asked: int | None = None,
) -> PartitionReport:
    """`events` is read once, and once more where duplicates are to be traced to their originals.

    `stood_still`: has nothing been processed since `standing` was read? What waited then may be out meanwhile.
    `asked`: the offset of a record whose outcome is to be explained.
    """
    report = PartitionReport(partition, low, standing.position, asked=asked, horizon=low)
    audit = _Audit(report, standing, partitions, control_key)
    feeds = [_Feed(audit, output) for output in outputs]
    for record in events():
        audit.event(record)
        for feed in feeds:
            feed.up_to(record.offset)
        audit.keep()
    for feed in feeds:
        feed.up_to(None)
    audit.settle(stood_still)
    audit.trace(events)
    return report


def follow(report: PartitionReport, reroutes: Reroutes) -> None:
    """What stands in another session's partition has been appended to its own; and nothing else has."""
    partition = report.partition
    copies = {first[1]: copy for first, copy in reroutes.copies.items() if first[0] == partition}
    for offset, astray in report.astray.items():
        copy = copies.pop(offset, None)
        if copy is None or copy.place[0] != astray.belongs:
            gone = astray.belongs in reroutes.trimmed
            detail = f"its session belongs to partition {astray.belongs}, but no copy is there"
            report.without(offset, report.position if gone else report.horizon, detail)
            continue
        if copy.digest != astray.digest:
            detail = f"not the record {partition}:{offset} under its session's key"
            report.violate(Fault.ALTERED, EVENTS, copy.place, detail)
        report.settle(Outcome.REROUTED, offset, copy.place)
    for offset, copy in copies.items():
        if report.low <= offset < report.position:
            detail = f"a copy of {partition}:{offset}, which was not rerouted there"
            report.violate(Fault.UNFOUNDED, EVENTS, copy.place, detail)


class _Feed:
    """Gives an output's records to the audit as soon as their origins have been read."""

    def __init__(self, audit: "_Audit", output: Output) -> None:
        self._audit = audit
        self._topic = output.topic
        self._records: Iterator[Record] = iter(output.records)
        self._next()
        if output.trimmed:
            first = self._origin if self._head is not None else (0, audit.report.position)
            audit.report.horizon = max(audit.report.horizon, first[1] if first is not None else 0)

    def _next(self) -> None:
        self._head = next(self._records, None)
        self._origin = origin_of(self._head) if self._head is not None else None

    def up_to(self, offset: int | None) -> None:
        while self._head is not None:
            if offset is not None and self._origin is not None and self._origin[1] > offset:
                return
            self._audit.output(self._topic, self._head, self._origin)
            self._next()


class _Audit:
    def __init__(self, report: PartitionReport, standing: Standing, partitions: int, control_key: str) -> None:
        self.report = report
        self._standing = standing
        self._partitions = partitions
        self._control_key = control_key
        self._open: dict[int, _Open] = {}
        self._fresh: tuple[int, _Fresh] | None = None
        """The record read last, behind its offset, as long as it has no outcome."""
        self._exists = bytearray()
        """By offset: nothing, _THERE, or _REDACTED."""
        self._released_of_waiting: set[int] = set()
        self._no_originals: set[int] = set()
        """Valid events that were not accepted here."""
        lost = sum(to - from_ for from_, to in standing.lost)
        if lost:
            self.report.outcomes[Outcome.LOST_TO_RETENTION] = lost

    # first pass

    def event(self, record: Record) -> None:
        if record.headers:
            for first, copy in copies_of([record], self._control_key):
                self.report.copies.setdefault(first, copy)
        if record.offset >= self._standing.position:
            self.report.pending += 1
            return
        at = record.offset - self.report.low
        self._exists.extend(bytes(at + 1 - len(self._exists)))
        self._exists[at] = _THERE
        found = decode(record.value)
        if isinstance(found, Rejection) or (found.control and not self._is_own(record, found)):
            self._fresh = record.offset, _Fresh(record, None, self.report.partition)
        elif found.control:
            self.report.settle(Outcome.CONTROL, record.offset)
        else:
            if found.redacted:
                self._exists[at] = _REDACTED
            session = session_key(found.event.tenant_id, found.event.session_id)
            belongs = partition_of(session, self._partitions)
            if belongs != self.report.partition:
                self.report.astray[record.offset] = Astray(belongs, copied_digest(record, session))
            self._fresh = record.offset, _Fresh(record, found, belongs)

    def keep(self) -> None:
        """The outputs up to the record have been read."""
        if self._fresh is not None:
            offset, fresh = self._fresh
            self._open[offset], self._fresh = fresh.kept(), None

    def _take(self, offset: int) -> "_Open | _Fresh | None":
        if self._fresh is not None and self._fresh[0] == offset:
            fresh, self._fresh = self._fresh[1], None
            return fresh
        return self._open.pop(offset, None)

    def output(self, topic: str, record: Record, origin: Place | None) -> None:
        here = (record.partition, record.offset)
        if origin is None:
            return self.report.violate(Fault.NAMELESS, topic, here, "no header names the origin")
        partition, offset = origin
        if partition != self.report.partition:
            return self.report.violate(Fault.MISPLACED, topic, here, f"its origin is {partition}:{offset}")
        if any(from_ <= offset < to for from_, to in self._standing.lost):
            return self.report.violate(
                Fault.UNFOUNDED, topic, here, f"{partition}:{offset} was lost before it was read"
            )
        if offset < self.report.low or offset >= self._standing.position:
            return None  # its origin is gone by retention, or was read after the state
        event = self._take(offset)
        self.report.astray.pop(offset, None)
        if event is None:
            if not self._was_there(offset):
                return self.report.violate(Fault.UNFOUNDED, topic, here, f"there is no record {partition}:{offset}")
            return self.report.violate(Fault.DOUBLED, EVENTS, origin, f"once more at {topic} {here[0]}:{here[1]}")
        if offset in self._standing.waiting:
            self._released_of_waiting.add(offset)
        if topic == EPISODES:
            self._episode(record, here, event, origin)
        else:
            self._dead_letter(record, here, event, origin)
        return None

    def _episode(self, record: Record, here: Place, event: _Open | _Fresh, origin: Place) -> None:
        found = episode_digest(record)
        if not event.accepted:
            self.report.violate(Fault.WRONG_OUTCOME, EVENTS, origin, f"invalid, and an episode at {here[0]}:{here[1]}")
        elif found is None or found[0] != event.as_episode:
            self.report.violate(Fault.ALTERED, EPISODES, here, f"not the event {origin[0]}:{origin[1]}")
        elif event.belongs != self.report.partition:
            detail = f"its session belongs to partition {event.belongs}, but it is an episode here"
            self.report.violate(Fault.WRONG_OUTCOME, EVENTS, origin, detail)
        late = found is not None and found[1]
        self.report.settle(Outcome.RELEASED_LATE if late else Outcome.RELEASED, origin[1], here)

    def _dead_letter(self, record: Record, here: Place, event: _Open | _Fresh, origin: Place) -> None:
        reason = (header(record.headers, names.REASON) or b"").decode(errors="replace")
        refused = reason == Reason.OUTPUT_REFUSED
        if original_digest(record) != (refused_digest(event.log_time) if refused else event.as_dead_letter):
            detail = f"key, value, headers or time are not those of {origin[0]}:{origin[1]}"
            self.report.violate(Fault.ALTERED, EVENTS_DLQ, here, detail)
        if event.accepted:
            self._no_originals.add(origin[1])
            here_by_right = event.belongs == self.report.partition
            if reason not in OF_VALID_EVENTS or (reason == Reason.WRONG_PARTITION and here_by_right):
                self.report.violate(Fault.WRONG_OUTCOME, EVENTS, origin, f"valid, but rejected as {reason}")
        self.report.settle(Outcome.REJECTED, origin[1], here)
        self.report.rejections[reason] += 1

    # what is left

    def settle(self, stood_still: Callable[[], bool]) -> None:
        """What waits has its outcome; a rejected record without a dead letter has none."""
        moved = bool(self._released_of_waiting) and not stood_still()
        for offset in sorted(self._standing.waiting):
            if offset < self.report.low or (moved and offset in self._released_of_waiting):
                continue
            event, where = self._open.get(offset), (self.report.partition, offset)
            if event is not None and event.accepted:
                del self._open[offset]
                self.report.astray.pop(offset, None)
                self.report.settle(Outcome.WAITING, offset)
            elif self._was_there(offset):
                self.report.violate(Fault.DOUBLED, EVENTS, where, "waits in a window, and has another outcome too")
            else:
                self.report.violate(Fault.UNFOUNDED, EVENTS, where, "waits in a window, but there is no such record")
        for offset in [offset for offset, event in self._open.items() if not event.accepted]:
            del self._open[offset]
            self.report.without(offset, self.report.horizon, "invalid, but no dead letter")
        for offset in self.report.astray:
            del self._open[offset]
            self._no_originals.add(offset)

    def trace(self, events: Callable[[], Iterable[Record]]) -> None:
        """What is left is accepted, has no output and does not wait: a duplicate, if an earlier copy has an outcome."""
        wanted = {event.identity for event in self._open.values()}
        if not wanted:
            return
        originals: dict[bytes, dict[bytes, Place]] = {}
        for record in events():
            if record.offset >= self._standing.position:
                break
            if not self._may_be_one_of(wanted, record):
                continue
            found = decode(record.value)
            if isinstance(found, Rejection) or found.control or (identity := identity_of(found.event)) not in wanted:
                continue
            known = originals.setdefault(identity, {})
            if record.offset not in self._open:
                if record.offset not in self._no_originals:
                    known.setdefault(found.digest, (record.partition, record.offset))
            elif found.digest in known:
                self.report.settle(Outcome.DUPLICATE, record.offset, known[found.digest])
            else:
                # Retention takes originals before their copies.
                horizon = self.report.position if self.report.low > 0 and not known else self.report.horizon
                other = "an earlier event of its id has other content" if known else "no earlier copy"
                self.report.without(record.offset, horizon, f"no output, not waiting, {other}")

    def _may_be_one_of(self, wanted: set[bytes], record: Record) -> bool:
        """A look at its ids alone, which costs a tenth of taking it in; what was redacted may have had others."""
        if self._exists[record.offset - self.report.low] == _REDACTED:
            return True
        try:
            return identity_of(read_envelope(record.value or b"")) in wanted
        except (ValueError, msgspec.MsgspecError):  # what is no UTF-8 is the former
            return True

    def _was_there(self, offset: int) -> bool:
        at = offset - self.report.low
        return 0 <= at < len(self._exists) and self._exists[at] > 0

    def _is_own(self, record: Record, found: Accepted) -> bool:
        return is_control(found.event) and authentic(self._control_key, record.value or b"", record.headers)
