"""Conservation check of one events partition: every record has exactly one outcome (law 1).

Enters: the partition's records, the outputs that name it as their origin, and the stage's state (position, waiting
events, ranges lost to retention). Leaves: a `PartitionReport` with outcomes and violations. Records in the wrong
partition get their outcome in `follow`, once the copies of all partitions are known. Pure; never raises.

Records and outputs are merged by offset in one pass. Memory holds only records without an output yet (waiting,
duplicate or misrouted), about 300 bytes each, and one byte per offset.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any, Final, NamedTuple

import msgspec
import orjson

from hmx_pipeline.audit.partition_report import (
    MisroutedCopy,
    PartitionReport,
    Place,
    ReroutedCopy,
    Reroutes,
    ViolationKind,
)
from hmx_pipeline.audit.record_digests import (
    SIZE,
    copied_digest,
    copy_digest,
    dead_letter_digest,
    episode_digest,
    expected_episode,
    identity_of,
    original_digest,
    refused_digest,
)
from hmx_pipeline.contracts import headers as names
from hmx_pipeline.contracts.envelope import read_envelope
from hmx_pipeline.contracts.headers import header, origin_of
from hmx_pipeline.contracts.keys import partition_of, session_key
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.contracts.rejections import Reason, Rejection
from hmx_pipeline.intake.accepted import Accepted
from hmx_pipeline.intake.control_records import authentic, is_control, is_rerouted_copy, rerouted_from
from hmx_pipeline.intake.decode import decode
from hmx_pipeline.stages.dead_letters import WITHOUT_BYTES
from hmx_pipeline.stages.fold import Record
from hmx_pipeline.topology import EPISODES, EVENTS, EVENTS_DLQ

OF_VALID_EVENTS: Final = (
    Reason.WRONG_PARTITION, Reason.FORGED_ORIGIN, Reason.EVENT_ID_REUSED, Reason.POISON, Reason.DEADLY,
    Reason.OUTPUT_REFUSED, Reason.ERASED,
)  # fmt: skip
"""Rejection reasons that a valid event can have."""
_THERE: Final = 1
_REDACTED: Final = 2


class PartitionState(NamedTuple):
    """The state of one partition, as the stage stored it."""

    position: int
    waiting: Mapping[int, int]
    """Offset → deadline of each waiting event, in log time (ms)."""
    lost: tuple[tuple[int, int], ...] = ()
    """Offset ranges [from, to) that retention deleted before they were read."""
    clock: int = 0
    """The partition's log time (ms)."""


class OutputPartition(NamedTuple):
    """One partition of an output topic, from its first retained record."""

    topic: str
    records: Iterable[Record]
    trimmed: bool
    """Retention deleted its first records."""


class _PendingRecord(msgspec.Struct, frozen=True, gc=False):
    """A record that has no outcome yet; there may be very many, so their digests are in one piece."""

    accepted: bool
    belongs: int
    """The partition of its session."""
    log_time: int
    digests: bytes
    """Digest of the expected dead letter; for a valid event also those of its episode and its ids."""

    @property
    def as_dead_letter(self) -> bytes:
        return self.digests[:SIZE]

    @property
    def as_episode(self) -> bytes:
        return self.digests[SIZE : 2 * SIZE]

    @property
    def identity(self) -> bytes:
        return self.digests[2 * SIZE :]


class _Turn(NamedTuple):
    """A record or an output, in the order in which they are audited."""

    order: tuple[int, int]
    topic: str
    record: Record
    origin: Place | None


def copies_of(records: Iterable[Record], control_key: str) -> Iterator[tuple[Place, ReroutedCopy]]:
    """Yields the authenticated rerouted copies among the records, with the place of each original."""
    for record in records:
        first = rerouted_from(record.headers)
        if first is not None and is_rerouted_copy(control_key, record.value or b"", record.headers):
            yield first, ReroutedCopy((record.partition, record.offset), copy_digest(record))


def conserve(
    partition: int,
    low: int,
    standing: PartitionState,
    events: Callable[[], Iterable[Record]],
    outputs: Iterable[OutputPartition],
    partitions: int,
    control_key: str,
    stood_still: Callable[[], bool] = lambda: True,
    asked: int | None = None,
    hides: Callable[[dict[str, Any]], bool] | None = None,
) -> PartitionReport:
    """Audits one partition. `events` is called once, and again if duplicates have to be traced to their originals.

    `stood_still` returns whether the stage has processed nothing since `standing` was read; otherwise events that
    waited may have been released meanwhile. `asked` is the offset of a record to be explained. `hides` returns whether
    an episode is erased; None if nothing is.
    """
    report = PartitionReport(partition, low, standing.position, asked=asked, horizon=low)
    audit = _Audit(report, standing, partitions, control_key, hides)
    read = (_Turn((record.offset, 0), EVENTS, record, None) for record in events())
    for _, topic, record, origin in heapq.merge(read, *map(audit.sent, outputs), key=itemgetter(0)):
        if topic == EVENTS:
            audit.event(record)
        else:
            audit.output(topic, record, origin)
    audit.settle(stood_still)
    audit.trace(events)
    return report


def follow(report: PartitionReport, reroutes: Reroutes) -> None:
    """Settles misrouted events: each needs a copy in the partition of its session, and no other copy may exist."""
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
            report.violate(ViolationKind.ALTERED, EVENTS, copy.place, detail)
        report.settle(Outcome.REROUTED, offset, copy.place)
    for offset, copy in copies.items():
        if report.low <= offset < report.position:
            detail = f"a copy of {partition}:{offset}, which was not rerouted there"
            report.violate(ViolationKind.UNFOUNDED, EVENTS, copy.place, detail)


class _Audit:
    def __init__(
        self,
        report: PartitionReport,
        standing: PartitionState,
        partitions: int,
        control_key: str,
        hides: Callable[[dict[str, Any]], bool] | None,
    ) -> None:
        self.report = report
        self._hides = hides
        self._standing = standing
        self._partitions = partitions
        self._control_key = control_key
        self._open: dict[int, _PendingRecord] = {}
        self._exists = bytearray()
        """Per offset: 0 (no record), _THERE or _REDACTED."""
        self._released_of_waiting: set[int] = set()
        self._no_originals: set[int] = set()
        """Offsets of valid events without an accepted outcome here: no duplicate can refer to them."""
        lost = sum(to - from_ for from_, to in standing.lost)
        if lost:
            self.report.outcomes[Outcome.LOST_TO_RETENTION] = lost

    def sent(self, output: OutputPartition) -> Iterator[_Turn]:
        """Yields the outputs; each comes after the event that it names as its origin."""
        horizon = self.report.position if output.trimmed else 0
        for place, record in enumerate(output.records):
            origin = origin_of(record.headers)
            at = origin[1] if origin is not None else 0
            if place == 0 and output.trimmed:
                horizon = at
            yield _Turn((at, 1), output.topic, record, origin)
        self.report.horizon = max(self.report.horizon, horizon)

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
        found, partition = decode(record.value), self.report.partition
        if isinstance(found, Rejection) or (found.control and not self._is_own(record, found)):
            self._open[record.offset] = _PendingRecord(False, partition, record.timestamp, dead_letter_digest(record))
        elif found.control:
            self.report.settle(Outcome.CONTROL, record.offset)
        else:
            if found.redacted:
                self._exists[at] = _REDACTED
            session = session_key(found.event.tenant_id, found.event.session_id)
            belongs = partition_of(session, self._partitions)
            if belongs != partition:
                self.report.astray[record.offset] = MisroutedCopy(belongs, copied_digest(record, session))
            digests = (dead_letter_digest(record), expected_episode(record, found), identity_of(found.event))
            self._open[record.offset] = _PendingRecord(True, belongs, record.timestamp, b"".join(digests))

    def output(self, topic: str, record: Record, origin: Place | None) -> None:
        here = (record.partition, record.offset)
        if origin is None:
            return self.report.violate(ViolationKind.NAMELESS, topic, here, "no header names the origin")
        partition, offset = origin
        if partition != self.report.partition:
            return self.report.violate(ViolationKind.MISPLACED, topic, here, f"its origin is {partition}:{offset}")
        if any(from_ <= offset < to for from_, to in self._standing.lost):
            detail = f"{partition}:{offset} was deleted by retention before it was read"
            return self.report.violate(ViolationKind.UNFOUNDED, topic, here, detail)
        if offset < self.report.low or offset >= self._standing.position:
            return None  # retention deleted its origin, or the stage read it after the state was saved
        event = self._open.pop(offset, None)
        self.report.astray.pop(offset, None)
        if event is None:
            if not self._was_there(offset):
                detail = f"there is no record {partition}:{offset}"
                return self.report.violate(ViolationKind.UNFOUNDED, topic, here, detail)
            return self.report.violate(ViolationKind.DOUBLED, EVENTS, origin, f"also at {topic} {here[0]}:{here[1]}")
        if offset in self._standing.waiting:
            self._released_of_waiting.add(offset)
        if topic == EPISODES:
            self._episode(record, here, event, origin)
        else:
            self._dead_letter(record, here, event, origin)
        return None

    def _episode(self, record: Record, here: Place, event: _PendingRecord, origin: Place) -> None:
        found = episode_digest(record)
        if not event.accepted:
            detail = f"the record is invalid, but an episode is at {here[0]}:{here[1]}"
            self.report.violate(ViolationKind.WRONG_OUTCOME, EVENTS, origin, detail)
        elif found is None or found[0] != event.as_episode:
            self.report.violate(ViolationKind.ALTERED, EPISODES, here, f"not the event {origin[0]}:{origin[1]}")
        elif event.belongs != self.report.partition:
            detail = f"its session belongs to partition {event.belongs}, but it is an episode here"
            self.report.violate(ViolationKind.WRONG_OUTCOME, EVENTS, origin, detail)
        late = found is not None and found[1]
        if self._hides is not None and found is not None:
            self.report.erased += self._hides(orjson.loads(record.value or b""))
        self.report.settle(Outcome.RELEASED_LATE if late else Outcome.RELEASED, origin[1], here)

    def _dead_letter(self, record: Record, here: Place, event: _PendingRecord, origin: Place) -> None:
        reason = (header(record.headers, names.REASON) or b"").decode(errors="replace")
        refused = reason in WITHOUT_BYTES
        if original_digest(record) != (refused_digest(event.log_time) if refused else event.as_dead_letter):
            detail = f"key, value, headers or time are not those of {origin[0]}:{origin[1]}"
            self.report.violate(ViolationKind.ALTERED, EVENTS_DLQ, here, detail)
        if event.accepted:
            self._no_originals.add(origin[1])
            here_by_right = event.belongs == self.report.partition
            if reason not in OF_VALID_EVENTS or (reason == Reason.WRONG_PARTITION and here_by_right):
                self.report.violate(ViolationKind.WRONG_OUTCOME, EVENTS, origin, f"valid, but rejected as {reason}")
        self.report.settle(Outcome.REJECTED, origin[1], here)
        self.report.rejections[reason] += 1

    def settle(self, stood_still: Callable[[], bool]) -> None:
        """Settles waiting events, and reports rejected records that have no dead letter."""
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
                detail = "waits in a window, but also has another outcome"
                self.report.violate(ViolationKind.DOUBLED, EVENTS, where, detail)
            else:
                detail = "waits in a window, but the record does not exist"
                self.report.violate(ViolationKind.UNFOUNDED, EVENTS, where, detail)
        for offset in [offset for offset, event in self._open.items() if not event.accepted]:
            del self._open[offset]
            self.report.without(offset, self.report.horizon, "the record is invalid, but has no dead letter")
        for offset in self.report.astray:
            del self._open[offset]
            self._no_originals.add(offset)

    def trace(self, events: Callable[[], Iterable[Record]]) -> None:
        """Settles the remaining accepted events: each is a duplicate if an earlier copy has an outcome."""
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
                # Retention deletes an original before its duplicates.
                horizon = self.report.position if self.report.low > 0 and not known else self.report.horizon
                other = "an earlier event with this id has other content" if known else "no earlier copy"
                self.report.without(record.offset, horizon, f"no output, not waiting, {other}")

    def _may_be_one_of(self, wanted: set[bytes], record: Record) -> bool:
        """Compares only the ids, at a tenth of the cost of decoding. Redacted records may have had other ids."""
        if self._exists[record.offset - self.report.low] == _REDACTED:
            return True
        try:
            return identity_of(read_envelope(record.value or b"")) in wanted
        except (ValueError, msgspec.MsgspecError):  # ValueError: not valid UTF-8
            return True

    def _was_there(self, offset: int) -> bool:
        at = offset - self.report.low
        return 0 <= at < len(self._exists) and self._exists[at] > 0

    def _is_own(self, record: Record, found: Accepted) -> bool:
        return is_control(found.event) and authentic(self._control_key, record.value or b"", record.headers)
