"""Law 1, recomputed for one partition of the events topic: every record has exactly one outcome.

Enters: the partition's records, the outputs that name it as their origin, and what the stage's state says: the
position, what waits, what retention took. Leaves: a `PartitionReport`: outcomes counted, violations named. Pure; never
raises for what it finds.

Records and outputs are read side by side, so what is held in memory is what has no output yet, and one byte an offset.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import Final, NamedTuple

from pipeline.audit.digests import (
    dead_letter_digest,
    episode_digest,
    expected_episode,
    identity_of,
    origin_of,
    original_digest,
)
from pipeline.contracts import headers as names
from pipeline.contracts.headers import header
from pipeline.contracts.outcomes import Outcome
from pipeline.contracts.rejections import Reason, Rejection
from pipeline.intake.control import authentic, is_control
from pipeline.intake.decode import Accepted, decode
from pipeline.stages.fold import Record
from pipeline.topology import EPISODES, EVENTS, EVENTS_DLQ

VIOLATIONS_KEPT: Final = 1_000
OF_VALID_EVENTS: Final = frozenset({Reason.WRONG_PARTITION, Reason.EVENT_ID_REUSED, Reason.POISON})
"""Reasons for which an event is rejected that is in order on its own."""


class Fault(StrEnum):
    MISSING = "missing"
    """A record without an outcome: no output, not waiting, and no earlier copy that would make it a duplicate."""
    DOUBLED = "doubled"
    """A record with two outcomes."""
    MISPLACED = "misplaced"
    """An output in another partition than its origin's."""
    UNFOUNDED = "unfounded"
    """An output, or something that waits, whose origin does not exist."""
    NAMELESS = "nameless"
    """An output that does not say where it comes from."""
    ALTERED = "altered"
    """An output that is not what its origin says."""
    WRONG_OUTCOME = "wrong_outcome"
    """An episode of an invalid record, or a valid event rejected for what it is not."""


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
    waiting: frozenset[int]
    """Offsets of the events behind gaps."""
    lost: tuple[tuple[int, int], ...] = ()
    """Offset ranges [from, to) that retention took before they were read."""


class Output(NamedTuple):
    """One partition of an output topic, from the first record that is left of it."""

    topic: str
    records: Iterable[Record]
    trimmed: bool
    """Retention has taken records from its beginning."""


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

    def violate(self, fault: Fault, topic: str, record: tuple[int, int], detail: str) -> None:
        self.faults[fault] += 1
        if len(self.violations) < VIOLATIONS_KEPT:
            self.violations.append(Violation(fault, topic, *record, detail))


class _Kind(Enum):
    ACCEPTED = auto()
    REJECTED = auto()


class _Open(NamedTuple):
    """A record that has no outcome yet, by digests."""

    kind: _Kind
    as_dead_letter: bytes
    as_episode: bytes = b""
    identity: bytes = b""
    digest: bytes = b""


def conserve(
    partition: int,
    low: int,
    standing: Standing,
    events: Callable[[], Iterable[Record]],
    outputs: Iterable[Output],
    control_key: str,
    stood_still: Callable[[], bool] = lambda: True,
) -> PartitionReport:
    """`events` is read once, and once more where duplicates are to be traced to their originals.

    `stood_still`: has nothing been processed since `standing` was read? What waited then may be out meanwhile.
    """
    audit = _Audit(partition, low, standing, control_key)
    feeds = [_Feed(audit, output) for output in outputs]
    for record in events():
        audit.event(record)
        for feed in feeds:
            feed.up_to(record.offset)
    for feed in feeds:
        feed.up_to(None)
    audit.settle(stood_still)
    audit.trace(events)
    return audit.report


class _Feed:
    """Gives an output's records to the audit as soon as their origins have been read."""

    def __init__(self, audit: "_Audit", output: Output) -> None:
        self._audit = audit
        self._topic = output.topic
        self._records: Iterator[Record] = iter(output.records)
        self._head = next(self._records, None)
        if output.trimmed:
            first = origin_of(self._head) if self._head is not None else (0, audit.report.position)
            audit.horizon = max(audit.horizon, first[1] if first is not None else 0)

    def up_to(self, offset: int | None) -> None:
        while self._head is not None:
            origin = origin_of(self._head)
            if offset is not None and origin is not None and origin[1] > offset:
                return
            self._audit.output(self._topic, self._head, origin)
            self._head = next(self._records, None)


class _Audit:
    def __init__(self, partition: int, low: int, standing: Standing, control_key: str) -> None:
        self.report = PartitionReport(partition, low, standing.position)
        self.horizon = low
        """Below it outputs may have been taken by retention."""
        self._standing = standing
        self._control_key = control_key
        self._open: dict[int, _Open] = {}
        self._exists = bytearray()
        self._released_of_waiting: set[int] = set()
        self._valid_but_rejected: set[int] = set()
        lost = sum(to - from_ for from_, to in standing.lost)
        if lost:
            self.report.outcomes[Outcome.LOST_TO_RETENTION] = lost

    # first pass

    def event(self, record: Record) -> None:
        if record.offset >= self._standing.position:
            self.report.pending += 1
            return
        at = record.offset - self.report.low
        self._exists.extend(bytes(at + 1 - len(self._exists)))
        self._exists[at] = 1
        found = decode(record.value)
        if isinstance(found, Rejection) or (found.control and not self._is_own(record, found)):
            self._open[record.offset] = _Open(_Kind.REJECTED, dead_letter_digest(record))
        elif found.control:
            self.report.outcomes[Outcome.CONTROL] += 1
        else:
            self._open[record.offset] = _Open(
                _Kind.ACCEPTED,
                dead_letter_digest(record),
                expected_episode(record, found),
                identity_of(found),
                found.digest,
            )

    def output(self, topic: str, record: Record, origin: tuple[int, int] | None) -> None:
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
        event = self._open.pop(offset, None)
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

    def _episode(self, record: Record, here: tuple[int, int], event: _Open, origin: tuple[int, int]) -> None:
        found = episode_digest(record)
        if event.kind is _Kind.REJECTED:
            self.report.violate(Fault.WRONG_OUTCOME, EVENTS, origin, f"invalid, and an episode at {here[0]}:{here[1]}")
        elif found is None or found[0] != event.as_episode:
            self.report.violate(Fault.ALTERED, EPISODES, here, f"not the event {origin[0]}:{origin[1]}")
        late = found is not None and found[1]
        self.report.outcomes[Outcome.RELEASED_LATE if late else Outcome.RELEASED] += 1

    def _dead_letter(self, record: Record, here: tuple[int, int], event: _Open, origin: tuple[int, int]) -> None:
        reason = (header(record.headers, names.REASON) or b"").decode(errors="replace")
        if original_digest(record) != event.as_dead_letter:
            detail = f"key, value, headers or time are not those of {origin[0]}:{origin[1]}"
            self.report.violate(Fault.ALTERED, EVENTS_DLQ, here, detail)
        if event.kind is _Kind.ACCEPTED:
            self._valid_but_rejected.add(origin[1])
            if reason not in OF_VALID_EVENTS:
                self.report.violate(Fault.WRONG_OUTCOME, EVENTS, origin, f"valid, but rejected as {reason}")
        self.report.outcomes[Outcome.REJECTED] += 1
        self.report.rejections[reason] += 1

    # what is left

    def settle(self, stood_still: Callable[[], bool]) -> None:
        """What waits has its outcome; a rejected record without a dead letter has none."""
        moved = bool(self._released_of_waiting) and not stood_still()
        for offset in sorted(self._standing.waiting):
            if offset < self.report.low or (moved and offset in self._released_of_waiting):
                continue
            event, where = self._open.get(offset), (self.report.partition, offset)
            if event is not None and event.kind is _Kind.ACCEPTED:
                del self._open[offset]
                self.report.outcomes[Outcome.WAITING] += 1
            elif self._was_there(offset):
                self.report.violate(Fault.DOUBLED, EVENTS, where, "waits in a window, and has another outcome too")
            else:
                self.report.violate(Fault.UNFOUNDED, EVENTS, where, "waits in a window, but there is no such record")
        for offset in [offset for offset, event in self._open.items() if event.kind is _Kind.REJECTED]:
            del self._open[offset]
            self._without(offset, self.horizon, "invalid, but no dead letter")

    def trace(self, events: Callable[[], Iterable[Record]]) -> None:
        """What is left is accepted, has no output and does not wait: a duplicate, if an earlier copy has an outcome."""
        wanted = {event.identity for event in self._open.values()}
        if not wanted:
            return
        originals: dict[bytes, set[bytes]] = {}
        for record in events():
            if record.offset >= self._standing.position:
                break
            found = decode(record.value)
            if isinstance(found, Rejection) or found.control or (identity := identity_of(found)) not in wanted:
                continue
            known = originals.setdefault(identity, set())
            if record.offset not in self._open:
                if record.offset not in self._valid_but_rejected:
                    known.add(found.digest)
            elif found.digest in known:
                self.report.outcomes[Outcome.DUPLICATE] += 1
            else:
                # Retention takes originals before their copies.
                horizon = self.report.position if self.report.low > 0 and not known else self.horizon
                other = "an earlier event of its id has other content" if known else "no earlier copy"
                self._without(record.offset, horizon, f"no output, not waiting, {other}")

    def _without(self, offset: int, horizon: int, detail: str) -> None:
        if offset < horizon:
            self.report.unverified += 1
        else:
            self.report.violate(Fault.MISSING, EVENTS, (self.report.partition, offset), detail)

    def _was_there(self, offset: int) -> bool:
        at = offset - self.report.low
        return 0 <= at < len(self._exists) and self._exists[at] == 1

    def _is_own(self, record: Record, found: Accepted) -> bool:
        return is_control(found.event) and authentic(self._control_key, record.value or b"", record.headers)
