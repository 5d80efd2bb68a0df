"""What must come of one partition of the events topic: plain, one record after the other, no batches, no overlays.

Enters: its rows in the order of their offsets. Leaves: `Made`. Written from HMX-E §6-§8 and the rules of ordering, with
sorted lists and one list of timers. Before each record the partition's clock moves to the highest append time so far,
and what is due fires in (deadline, key) order.
"""

import heapq
from bisect import insort
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hmx_pipeline.contracts.episode import NOBODY_KNOWN
from hmx_pipeline.contracts.keys import join_key, split_key
from hmx_pipeline.contracts.limits import (
    CLOCK_SKEW_MS,
    ERASURE_KEPT_MS,
    RECENT_IDS,
    REROUTED_HEADER_BYTES,
    SEGMENT_IDLE_MS,
    SESSION_FORGOTTEN_MS,
    WAITING_EVENTS,
)
from hmx_pipeline.contracts.rejections import Reason, Rejection
from tests.verifier.cuts import RETENTION, Policies
from tests.verifier.erasures import Erased, asked, mark_of, retained
from tests.verifier.intake import Control, Event, Refusal, episode, judge, named_subject
from tests.verifier.log import Row
from tests.verifier.rules import CONTROL, DUPLICATE, LATE, LOST, REJECTED, RELEASED, REROUTED, WAITING, Rules
from tests.verifier.segments import Said, Segments

NEVER = -(2**63)


class Letter(NamedTuple):
    row: Row
    rejection: Rejection


class Episode(NamedTuple):
    origin: int
    key: str
    value: bytes


class Barrier(NamedTuple):
    """One passage: forwarded to every partition of the evidence topic, or to that of its tenant."""

    barrier_id: str
    tenant_id: str
    partitions: int
    """0: it stands in all partitions of the events topic."""
    origin: int = -1


class Passed(NamedTuple):
    """What an operator decided, set, imported or erased, on its way to the evidence partition of its tenant."""

    kind: str
    tenant_id: str
    pattern: str
    content: Any
    origin: int


@dataclass
class Made:
    """What must have come of a partition."""

    outcomes: dict[int, str] = field(default_factory=dict)
    episodes: list[Episode] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)
    evidence: list[Said | Barrier | Passed] = field(default_factory=list)
    erased: list[tuple[int, Erased]] = field(default_factory=list)
    """What readers are told, with the offset of the record that brought it about."""
    copies: dict[int, int] = field(default_factory=dict)
    """Offset → the partition that its copy belongs to."""
    counts: Counter[str] = field(default_factory=Counter)
    clock: int = 0
    sessions: dict[str, "Session"] = field(default_factory=dict)
    barriers: dict[str, int] = field(default_factory=dict)
    """Those that wait, and until when."""


@dataclass(slots=True)
class Session:
    key: str
    tenant_id: str
    session_id: str
    segments: Segments
    seen: int = 0
    """The clock when the last event came that was neither a duplicate nor refused."""
    run: int = 0
    index: int = 0
    """Events released so far."""
    last: tuple[int, int, int] | None = None
    """Sequence, instant and append time of the last that this run has released in order."""
    newest: int = NEVER
    """The latest timestamp that this run has released."""
    waiting: list[Event] = field(default_factory=list)
    early: list[Event] = field(default_factory=list)
    """Below what this run has released and dated after it: a new run's, if its sequence 0 comes while they wait."""
    held: dict[str, bytes] = field(default_factory=dict)
    """Ids of what waits, with what their events say."""
    recent: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """Ids of the last released, oldest first: their place, and what their events say."""

    @property
    def deadline(self) -> int:
        if not self.segments.dirty:
            return self.seen + SESSION_FORGOTTEN_MS
        return min(self.seen + SEGMENT_IDLE_MS, self.segments.speaks_at or self.seen + SEGMENT_IDLE_MS)

    def known(self, event_id: str) -> bytes | None:
        index, digest = self.recent.get(event_id, (-1, None))
        return digest if digest is not None and index >= self.index - RECENT_IDS else self.held.get(event_id)


def _held_key(session: Session, event: Event) -> str:
    return f"{session.key}/{event.sequence:020d}/{join_key(event.event_id)}"


class Reference:
    """One partition of the events topic."""

    def __init__(self, partition: int, partitions: int, rules: Rules) -> None:
        self._partition, self._partitions, self._rules = partition, partitions, rules
        self._offset = 0
        self._held = 0
        self._owners: dict[str, str] = {}
        self._ahead: dict[str, int] = {}
        """Forgotten session → time of its last event in milliseconds, where that was still to come."""
        """Forgotten session → whose it was."""
        self._timers: list[tuple[int, str]] = []
        self._set: dict[str, int] = {}
        """Key → its earliest timer; one that comes up too early is set again."""
        self._past: dict[str, dict[str, tuple[int, Erased, dict[str, int]]]] = {}
        """Of each tenant the erasures by id, until when each is remembered, and the times of its sessions' last events
        by their marks."""
        self._policies: dict[str, Policies] = {}
        """By tenant, what it keeps."""
        self._midnights: dict[str, int | None] = {}
        self._asked: dict[str, Barrier] = {}
        """Barriers that wait."""
        self._behind: dict[str, Event] = {}
        """What waits, or did, by the key of its timer."""
        self.made = Made()

    def take(self, row: Row) -> None:
        self._offset = row.offset
        self.made.clock = max(self.made.clock, row.at)
        self._fire()
        match judge(row, self._rules, self._partitions):
            case Refusal(rejection):
                self._refuse(row, rejection)
            case Control(kind, content):
                self._outcome(row.offset, CONTROL)
                self._control(kind, content)
            case Event() as event:
                self._event(event)

    def _control(self, kind: str, content: dict[str, Any]) -> None:
        if kind == "barrier":
            tenant_id, partitions = str(content.get("tenant_id", "")), int(content.get("partitions", 0))
            self._barrier(Barrier(str(content.get("barrier_id", "")), tenant_id, partitions))
        elif kind == "erase":
            self._erase(asked(content, self._partition, self._offset))
        elif kind == "tenant" and RETENTION in content:
            given = content[RETENTION]
            tenant_id = given["tenant_id"]
            self._policies[tenant_id] = self._policies.get(tenant_id, Policies({}, None, {})).after(given)
            self._forget_past(tenant_id)
        elif kind != "tick":
            tenant_id, pattern = (str(content.get(part, "")) for part in ("tenant_id", "pattern"))
            self.made.evidence.append(Passed(kind, tenant_id, pattern, content, self._offset))

    def _erase(self, erased: Erased) -> None:
        """Sessions that it covers are forgotten as they are; what waits in them is refused, and so is what waits
        elsewhere and names its subject itself."""
        own = [session for session in self.made.sessions.values() if session.tenant_id == erased.tenant_id]
        gone = {one.key: one.newest for one in own if erased.covers(one.session_id, one.segments.subject)}
        waits = [(session, event) for session in own for event in session.waiting + session.early]
        for session, event in sorted(waits, key=lambda each: _held_key(*each)):
            if session.key in gone or erased.covers(session.session_id, named_subject(event)):
                (session.waiting if event in session.waiting else session.early).remove(event)
                del session.held[event.event_id]
                self._held -= 1
                if session.key in gone:
                    gone[session.key] = max(gone[session.key], event.instant)
                self._refuse(event.row, Rejection(Reason.ERASED))
        found = {mark_of(erased.tenant_id, "session", split_key(key)[1]): at for key, at in gone.items()}
        for key in gone:
            if subject := self.made.sessions.pop(key).segments.subject:
                self._owners[key] = subject
        subjects = dict(self._owners)
        for key, subject in subjects.items():
            tenant_id, session_id = split_key(key)
            if tenant_id == erased.tenant_id and erased.covers(session_id, subject):
                self._owners[key] = NOBODY_KNOWN
        for key in list(self._ahead):
            tenant_id, session_id = split_key(key)
            if tenant_id == erased.tenant_id and erased.covers(session_id, subjects.get(key, "")):
                mark, at = mark_of(tenant_id, "session", session_id), self._ahead.pop(key)
                if at > erased.at:
                    found[mark] = max(at * 1_000_000, found.get(mark, NEVER))
        self.made.counts["erased_session"] += len(gone)
        erased = erased._replace(marks=erased.marks | found.keys())
        until, newest = self.made.clock + ERASURE_KEPT_MS, {mark: at // 1_000_000 for mark, at in found.items()}
        self._past.setdefault(erased.tenant_id, {})[erased.erasure_id] = (until, erased, newest)
        self._tell(erased)

    def _tell(self, erased: Erased) -> None:
        self.made.erased.append((self._offset, erased))
        self.made.evidence.append(Passed("erasure", erased.tenant_id, "", erased, self._offset))

    def _forget_past(self, tenant_id: str) -> None:
        """Up to the day of the clock, and again at midnight."""
        policies = self._policies[tenant_id] = self._policies[tenant_id].by(self.made.clock)
        key, midnight = f"r/{join_key(tenant_id)}", policies.midnight(self.made.clock)
        self._midnights[key] = midnight
        if midnight is not None:
            self._remind(key, midnight)
        self._tell(retained(tenant_id, policies, self._partition))

    def _is_erased(self, event: Event) -> bool:
        """Is it of a past that is erased? An erasure is remembered for longer than the log keeps its records."""
        tenant_id, session_id, at = event.fields["tenant_id"], event.fields["session_id"], event.instant // 1_000_000
        own = mark_of(tenant_id, "session", session_id)
        return any(
            self.made.clock < until
            and (at <= newest.get(own, NEVER) or erased.is_late(at, session_id, named_subject(event)))
            for until, erased, newest in self._past.get(tenant_id, {}).values()
        )

    def lost(self, ranges: list[tuple[int, int]]) -> None:
        """What retention deleted before it was read."""
        for start, end in ranges:
            self.made.counts[LOST] += end - start

    # timers

    def _remind(self, key: str, deadline: int) -> None:
        if deadline < self._set.get(key, deadline + 1):
            self._set[key] = deadline
            heapq.heappush(self._timers, (deadline, key))

    def _fire(self) -> None:
        while self._timers and self._timers[0][0] <= self.made.clock:
            at, key = heapq.heappop(self._timers)
            if self._set.get(key) != at:
                continue
            del self._set[key]
            deadline = self._deadline(key)
            if deadline is not None and deadline > at:
                self._remind(key, deadline)
            elif deadline is not None:
                self._due(key)
            else:
                self._behind.pop(key, None)

    def _deadline(self, key: str) -> int | None:
        kind, _, rest = key.partition("/")
        if kind == "z":
            return self.made.barriers.get(rest)
        if kind == "s":
            session = self.made.sessions.get(rest)
            return session.deadline if session is not None else None
        if kind == "r":
            return self._midnights[key]
        event = self._behind[key]
        session = self.made.sessions.get(event.session)
        waits = session is not None and event.event_id in session.held
        return event.row.at + self._rules.window_ms if waits else None

    def _due(self, key: str) -> None:
        kind, _, rest = key.partition("/")
        if kind == "z":
            del self.made.barriers[rest]
            self._pass_barrier(self._asked.pop(rest))
        elif kind == "s":
            self._idle(self.made.sessions[rest])
        elif kind == "r":
            self._forget_past(split_key(rest)[0])
        else:
            event = self._behind.pop(key)
            session = self.made.sessions[event.session]
            if any(one is event for one in session.early):
                self._give_up(session, event)
            else:
                self._release_through(session, event)

    def _idle(self, session: Session) -> None:
        if session.segments.dirty:
            whole = session.segments.ended or self.made.clock >= session.seen + SEGMENT_IDLE_MS
            self._say(session.segments.so_far() if whole else session.segments.stated())
            self._remind(f"s/{session.key}", session.deadline)
        else:
            if session.segments.subject:
                self._owners[session.key] = session.segments.subject
            newest = max(session.newest // 1_000_000, self._ahead.pop(session.key, NEVER))
            if newest > self.made.clock:
                self._ahead[session.key] = newest
            del self.made.sessions[session.key]
            self.made.counts["session_forgotten"] += 1

    # arrival

    def _outcome(self, offset: int, outcome: str) -> None:
        self.made.outcomes[offset] = outcome
        if outcome != WAITING:
            self.made.counts[outcome] += 1

    def _refuse(self, row: Row, rejection: Rejection) -> None:
        self.made.letters.append(Letter(row, rejection))
        self._outcome(row.offset, f"{REJECTED}.{rejection.reason}")
        self.made.counts[REJECTED] += 1

    def _event(self, event: Event) -> None:
        if event.home != self._partition:
            self._astray(event)
            return
        if self._is_erased(event):
            self._refuse(event.row, Rejection(Reason.ERASED))
            return
        session = self.made.sessions.get(event.session)
        known = session.known(event.event_id) if session is not None else None
        if known is None:
            if session is None:
                tenant, name = event.fields["tenant_id"], event.fields["session_id"]
                session = Session(event.session, tenant, name, Segments(tenant, name, self.made.counts))
                session.segments.subject = self._owners.pop(event.session, "")
                self.made.sessions[event.session] = session
            self._arrive(session, event)
        elif known == event.digest:
            self._outcome(event.row.offset, DUPLICATE)
        else:
            self._refuse(event.row, Rejection(Reason.EVENT_ID_REUSED, "$.event_id"))

    def _astray(self, event: Event) -> None:
        """Appended once more where it belongs, once only and only if the copy is sure to fit."""
        size = sum(len(name) + len(value or b"") for name, value in event.row.headers)
        if event.copied or size > REROUTED_HEADER_BYTES:
            self._refuse(event.row, Rejection(Reason.WRONG_PARTITION))
        else:
            self.made.copies[event.row.offset] = event.home
            self._outcome(event.row.offset, REROUTED)

    def _arrive(self, session: Session, event: Event) -> None:
        session.seen = self.made.clock
        if event.minted:
            horizon = session.newest - self._rules.window_ms * 1_000_000
            self._release(session, event, late=event.instant < horizon)
            self._remind(f"s/{session.key}", session.deadline)
            return
        if self._starts_over(session, event):
            self._start_over(session, event)
        elif self._too_late(session, event) and event.instant <= session.newest:
            self._release(session, event, late=True)
            self._remind(f"s/{session.key}", session.deadline)
            return
        insort(session.early if self._too_late(session, event) else session.waiting, event)
        session.held[event.event_id] = event.digest
        self._held += 1
        self._release_next(session)
        if len(session.held) > WAITING_EVENTS:
            self.made.counts["window_full"] += 1
            if session.early:
                self._give_up(session, session.early[0])
            else:
                self._release_through(session, session.waiting[0])
        if event.event_id in session.held:
            key = f"w/{_held_key(session, event)}"
            self._behind[key] = event
            self._remind(key, event.row.at + self._rules.window_ms)
            self._outcome(event.row.offset, WAITING)
        self._remind(f"s/{session.key}", session.deadline)

    def _is_tie(self, last: tuple[int, int, int], event: Event) -> bool:
        """`eager`: the same sequence as the last one out, before that one's window is over."""
        sequence, _, at = last
        return not self._rules.strict and event.sequence == sequence and self.made.clock < at + self._rules.window_ms

    def _starts_over(self, session: Session, event: Event) -> bool:
        """Sequence 0, dated after everything that this run has released, and no tie of it."""
        if session.last is None or event.sequence != 0 or event.instant <= session.newest:
            return False
        return not self._is_tie(session.last, event)

    def _too_late(self, session: Session, event: Event) -> bool:
        if session.last is None or self._is_tie(session.last, event):
            return False
        if self._rules.strict:  # HMX-E §7 orders by sequence and timestamp; what is alike in both is in no order
            return (event.sequence, event.instant) < session.last[:2]
        return event.sequence <= session.last[0]

    def _start_over(self, session: Session, first: Event) -> None:
        """Whatever is dated from the new run's first event on belongs to it; so does what waited for that."""
        newest, early, waiting = session.newest, session.early, session.waiting
        for event in [event for event in early if event.instant <= newest and event.instant < first.instant]:
            self._give_up(session, event)
        session.waiting = [event for event in waiting if event.instant < first.instant]
        while session.waiting:
            self._release_first(session)
        session.waiting = sorted([*session.early, *(event for event in waiting if event.instant >= first.instant)])
        session.early = []
        session.run, session.last, session.newest = session.run + 1, None, NEVER

    # release

    def _give_up(self, session: Session, event: Event) -> None:
        """No new run came for it."""
        session.early.remove(event)
        del session.held[event.event_id]
        self._held -= 1
        self._release(session, event, late=True)
        self._remind(f"s/{session.key}", session.deadline)

    def _release_through(self, session: Session, end: Event | None) -> None:
        """Everything that waits up to `end`, and what follows without a gap; None: everything."""
        while session.waiting and (end is None or session.waiting[0][:3] <= end[:3]):
            self._release_first(session)
        self._release_next(session)
        self._remind(f"s/{session.key}", session.deadline)

    def _release_next(self, session: Session) -> None:
        """`eager`: nothing that is expected next waits, nor a tie of what is out."""
        while not self._rules.strict and session.waiting:
            expected = 0 if session.last is None else session.last[0] + 1
            if session.waiting[0].sequence > expected:
                return
            self._release_first(session)

    def _release_first(self, session: Session) -> None:
        event = session.waiting.pop(0)
        del session.held[event.event_id]
        self._held -= 1
        self._release(session, event, late=False)

    def _release(self, session: Session, event: Event, *, late: bool) -> None:
        index, claims = session.index, 0
        if (session.segments.subject in ("", NOBODY_KNOWN) or index == 0) and (named := named_subject(event)):
            if index:
                claims = min(max(session.newest, event.instant) // 1_000_000, self.made.clock + CLOCK_SKEW_MS)
            self._say(session.segments.claimed(named, event.row.at if index else 0))
        value = episode(event, self._partition, index, session.run, late, session.segments.subject, claims)
        self.made.episodes.append(Episode(event.row.offset, session.key, value))
        self._outcome(event.row.offset, LATE if late else RELEASED)
        session.index += 1
        session.newest = max(session.newest, event.instant)
        self._remember(session, event, index)
        if late:
            self._say(session.segments.passed_by(session.index))
        else:
            if not event.minted:
                session.last = (event.sequence, event.instant, event.row.at)
            self._say(session.segments.add(event.fields, event.instant, event.row.at, index, self.made.clock))

    def _remember(self, session: Session, event: Event, index: int) -> None:
        """Bounded; an id that was forgotten and came again stands at its last place."""
        recent = session.recent
        recent.pop(event.event_id, None)
        recent[event.event_id] = (index, event.digest)
        while len(recent) > 2 * RECENT_IDS:
            del recent[next(iter(recent))]

    def _say(self, said: list[Any]) -> None:
        self.made.evidence += [each._replace(origin=self._offset) for each in said]

    # barriers

    def _barrier(self, barrier: Barrier) -> None:
        own = self._sessions_of(barrier.tenant_id)
        if any(session.held for session in own) if barrier.tenant_id else self._held:
            name = join_key(barrier.barrier_id)
            self._asked[name] = barrier
            self.made.barriers[name] = self.made.clock + self._rules.window_ms
            self._remind(f"z/{name}", self.made.barriers[name])
        else:
            self._pass_barrier(barrier)

    def _sessions_of(self, tenant_id: str) -> list[Session]:
        """By their keys; of all, where none is named."""
        own = (one for one in self.made.sessions.values() if tenant_id in ("", one.tenant_id))
        return sorted(own, key=lambda session: session.key)

    def _pass_barrier(self, barrier: Barrier) -> None:
        """Open segments say what they can so far; then evidence hears of it."""
        for session in self._sessions_of(barrier.tenant_id):
            if session.segments.dirty:
                self._say(session.segments.so_far())
        self.made.evidence.append(barrier._replace(origin=self._offset))
