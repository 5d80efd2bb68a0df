"""What the specification says becomes of every record of one partition of the events topic: plain, slow, on its own.

Written from HMX-E §6–§8 and the rules of ordering, with lists and sorts and nothing of the pipeline's stages. Enters:
the partition's records in the order of their offsets, what cannot be decoded already marked with its reason. Leaves:
the outcome of every offset, and what is released, in order.
"""

import re
from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from pipeline.contracts.keys import join_key, partition_of, session_key
from pipeline.contracts.limits import RECENT_IDS, SESSION_FORGOTTEN_MS, WAITING_EVENTS, WINDOW_MS

RELEASED, LATE, DUPLICATE, REROUTED = "released", "released_late", "duplicate", "rerouted"
CONTROL, WAITING = "control", "waiting"


class Entry(NamedTuple):
    """A record as the reference sees it: an event, or a reason why it is none, or a control record of our own."""

    offset: int
    at: int
    """Append time, milliseconds."""
    event: dict[str, Any] | None = None
    reason: str = ""
    control: bool = False
    copied: bool = False
    """The pipeline itself has appended it here, from another partition."""


class Release(NamedTuple):
    tenant_id: str
    session_id: str
    event_id: str
    offset: int
    index: int
    run: int
    late: bool


@dataclass(frozen=True)
class Rules:
    """The settings that a deployment may change, and the bounds."""

    partitions: int = 1
    strict: bool = False
    window: int = WINDOW_MS
    forgotten: int = SESSION_FORGOTTEN_MS
    waiting: int = WAITING_EVENTS
    recent: int = RECENT_IDS


@dataclass
class Prediction:
    outcomes: dict[int, str] = field(default_factory=dict)
    """By offset; a rejection is `rejected.<reason>`."""
    releases: list[Release] = field(default_factory=list)
    rerouted: list[tuple[int, int]] = field(default_factory=list)
    """Offset, and the partition that the copy belongs to."""


class Held(NamedTuple):
    entry: Entry
    sequence: int
    instant: int
    event_id: str

    @property
    def order(self) -> tuple[int, int, str]:
        """HMX-E §7: by sequence, ties by timestamp; what is left of ties by id, so that a replay repeats it."""
        return self.sequence, self.instant, self.event_id


@dataclass
class Session:
    seen: int
    """The clock when the last event came that was neither a duplicate nor rejected."""
    run: int = 0
    index: int = 0
    last: Held | None = None
    """The highest that this run has released in order."""
    newest: int = 0
    """The latest timestamp that this run has released."""
    waiting: list[Held] = field(default_factory=list)
    passed: list[Held] = field(default_factory=list)
    """Too late for this run, but dated after all of it: maybe of a run whose beginning is still to come."""
    recent: list[Held] = field(default_factory=list)


class Reference:
    """One partition. `predict` is all that there is to call."""

    def __init__(self, partition: int, rules: Rules) -> None:
        self.partition, self.rules = partition, rules
        self.clock = 0
        self.sessions: dict[str, Session] = {}
        self.timers: list[tuple[int, str, int, str, int]] = []
        """(deadline, key, sequence, id, offset) of all that had to wait and was not due yet; the key is one below the
        session's."""
        self.found = Prediction()

    def take(self, entry: Entry) -> None:
        self.clock = max(self.clock, entry.at)
        while self.timers and self.timers[0][0] <= self.clock:
            _, key, _, _, offset = self.timers.pop(0)
            self._due(key.removesuffix("/"), offset)
        outcome = self._outcome(entry)
        if outcome:
            self.found.outcomes[entry.offset] = outcome

    def _outcome(self, entry: Entry) -> str:
        """Of this record, where it is known at once; empty where ordering has said it, or will."""
        if entry.control:
            return CONTROL
        if entry.event is None:
            return f"rejected.{entry.reason}"
        key = session_key(entry.event["tenant_id"], entry.event["session_id"])
        home = partition_of(key, self.rules.partitions)
        if home != self.partition:
            if entry.copied:
                return "rejected.wrong_partition"
            self.found.rerouted.append((entry.offset, home))
            return REROUTED
        session = self.sessions.get(key)
        if session is None or self.clock >= session.seen + self.rules.forgotten:
            session = self.sessions[key] = Session(self.clock)
        return self._arrive(key, session, entry, entry.event)

    def _arrive(self, key: str, session: Session, entry: Entry, event: dict[str, Any]) -> str:
        held = Held(entry, int(event["sequence"]), instant_of(event["timestamp"]), event["event_id"])
        for known in session.waiting + session.passed + session.recent[-self.rules.recent :]:
            if known.event_id == held.event_id:
                return DUPLICATE if same(known.entry.event, event) else "rejected.event_id_reused"
        session.seen = self.clock
        if self._starts_over(session, held):
            self._start_over(session, held)
        elif self._too_late(session, held):
            if held.instant <= session.newest:
                self._release(session, held, late=True)
                return ""
            session.passed.append(held)
        if held not in session.passed:
            session.waiting.append(held)
            session.waiting.sort(key=lambda waiting: waiting.order)
            self._release_next(session)
        if len(session.waiting) + len(session.passed) > self.rules.waiting:
            if session.passed:
                self._give_up(session, min(session.passed, key=lambda passed: passed.order))
            else:
                self._release_through(session, session.waiting[0])
        if held in session.waiting + session.passed:
            due = entry.at + self.rules.window
            insort(self.timers, (due, f"{key}/", held.sequence, join_key(held.event_id), entry.offset))
            return WAITING
        return ""

    def _starts_over(self, session: Session, held: Held) -> bool:
        """Sequence 0, dated after everything that this run has released, and no tie of it."""
        if session.last is None or held.sequence != 0 or held.instant <= session.newest:
            return False
        return not self._is_tie(session.last, held)

    def _start_over(self, session: Session, first: Held) -> None:
        """What waits and is dated from `first` on is of the new run, and so is what came before `first` did."""
        ahead = [held for held in session.waiting if held.instant >= first.instant]
        ahead += [held for held in session.passed if held.instant > session.newest or held.instant >= first.instant]
        for held in sorted(session.passed, key=lambda passed: passed.order):
            if held not in ahead:
                self._give_up(session, held)
        for held in session.waiting:
            if held not in ahead:
                self._release(session, held)
        session.waiting, session.passed = sorted(ahead, key=lambda held: held.order), []
        session.run, session.last = session.run + 1, None

    def _give_up(self, session: Session, held: Held) -> None:
        """No run has begun for it."""
        session.passed.remove(held)
        self._release(session, held, late=True)

    def _too_late(self, session: Session, held: Held) -> bool:
        last = session.last
        if last is None or self._is_tie(last, held):
            return False
        if (
            self.rules.strict
        ):  # HMX-E §7 orders by sequence and timestamp; events that are alike in both are in no order
            return (held.sequence, held.instant) < (last.sequence, last.instant)
        return held.sequence <= last.sequence

    def _is_tie(self, last: Held, held: Held) -> bool:
        """`eager`: the same sequence as the last one out, before that one's window is over."""
        in_time = self.clock < last.entry.at + self.rules.window
        return not self.rules.strict and held.sequence == last.sequence and in_time

    def _due(self, key: str, offset: int) -> None:
        session = self.sessions[key]
        for held in session.passed:
            if held.entry.offset == offset:
                self._give_up(session, held)
                return
        for held in session.waiting:
            if held.entry.offset == offset:
                self._release_through(session, held)
                return

    def _release_through(self, session: Session, end: Held | None) -> None:
        """Everything that waits and sorts before `end`, and `end` itself; None: everything."""
        while session.waiting and (end is None or session.waiting[0].order <= end.order):
            self._release(session, session.waiting.pop(0))
        self._release_next(session)

    def _release_next(self, session: Session) -> None:
        """`eager`: nothing that is expected next waits, nor a tie of what is out."""
        while not self.rules.strict and session.waiting:
            expected = 0 if session.last is None else session.last.sequence + 1
            if session.waiting[0].sequence > expected:
                return
            self._release(session, session.waiting.pop(0))

    def _release(self, session: Session, held: Held, *, late: bool = False) -> None:
        event = held.entry.event
        assert event is not None
        release = Release(
            event["tenant_id"], event["session_id"], held.event_id, held.entry.offset, session.index, session.run, late
        )
        self.found.releases.append(release)
        self.found.outcomes[held.entry.offset] = LATE if late else RELEASED
        session.index += 1
        session.newest = held.instant if session.last is None else max(session.newest, held.instant)
        session.recent.append(held)
        if not late:
            session.last = held


def predict(entries: Iterable[Entry], partition: int = 0, rules: Rules | None = None) -> Prediction:
    reference = Reference(partition, rules or Rules())
    for entry in entries:
        reference.take(entry)
    return reference.found


_FRACTION = re.compile(r"\.(\d+)")


def instant_of(timestamp: str) -> int:
    """Nanoseconds since 1970; 23:59:60 is the next second (HMX-E §6.3)."""
    fraction = _FRACTION.search(timestamp)
    nanoseconds = int((fraction.group(1) if fraction else "").ljust(9, "0")[:9])
    plain = _FRACTION.sub("", timestamp).upper().replace("Z", "+00:00")
    leap = plain[17:19] == "60"
    at = datetime.fromisoformat(plain[:17] + "59" + plain[19:] if leap else plain)
    return (round(at.timestamp()) + leap) * 1_000_000_000 + nanoseconds


def same(one: Any, other: Any) -> bool:
    """Equal JSON values: 1 = 1.0, but true is no number."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
