"""Releasing in the sessions stage: a session's events are held, put in order and released; sessions begin and end.

Enters: the transaction, the session as it is and an event that is new to it, or one that has waited its window. Leaves:
the session as it is then, episodes, and evidence of the segments. Both bounds of a partition hold here: full windows
are released early, and the longest silent sessions of the largest tenants end.
"""

from typing import Final

import msgspec

from hmx_pipeline.contracts.episode import NOBODY_KNOWN, Origin, Release, named_subject, write_episode
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Step
from hmx_pipeline.contracts.headers import (
    EPISODE,
    TRACEPARENT,
    output_headers,
)
from hmx_pipeline.contracts.ledger import SURFACED
from hmx_pipeline.contracts.limits import (
    CLOCK_SKEW_MS,
    PARTITION_SESSION_BYTES,
    PARTITION_WAITING_BYTES,
    RECENT_IDS,
    SESSIONS_LIVE,
    WAITING_BYTES,
    WAITING_EVENTS,
)
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.contracts.rejections import Reason, Rejection
from hmx_pipeline.contracts.timestamps import NS_PER_MS
from hmx_pipeline.intake.accepted import Accepted
from hmx_pipeline.intake.steps import step_of
from hmx_pipeline.ordering.window import (
    Cursor,
    Verdict,
    Waiting,
    follows,
    judge,
    judge_arrival,
    judge_strictly,
    left_behind,
    passed,
    passed_aside,
    released,
    started_over,
)
from hmx_pipeline.stages.arrival import Arrival, held, released_from
from hmx_pipeline.stages.dead_letters import dead_letter
from hmx_pipeline.stages.fold import Output, Record, Tx, spared
from hmx_pipeline.stages.segmenting import Segmenting, only_reinforces
from hmx_pipeline.stages.session_owners import recalled, remember
from hmx_pipeline.stages.session_state import (
    Indexes,
    ReleasedEvent,
    SessionState,
    held_key,
    segment_key,
    session_state_key,
    trace_bytes,
)
from hmx_pipeline.topology import EPISODES, EVENTS, EVENTS_DLQ

_replace = msgspec.structs.replace
NEW: Final = SessionState()
_RELEASE: Final = Verdict.RELEASE  # looking up an enum member costs ten times as much as a global name
_RELEASED, _RELEASED_LATE = str(Outcome.RELEASED), str(Outcome.RELEASED_LATE)
TRIM_EVERY: Final = 64


class SessionReleasing:
    def __init__(self, indexes: Indexes, segmenting: Segmenting, window_ms: int, *, strict: bool) -> None:
        self._indexes = indexes
        self._segmenting = segmenting
        self._window_ms = window_ms
        self._strict = strict

    def arrive(self, tx: Tx, name: str, session: SessionState, arrival: Arrival) -> SessionState:
        """Return the session after an event that is new to it."""
        if session is NEW:
            if self._indexes.sessions >= SESSIONS_LIVE:
                self._put_to_rest(tx, self._indexes.crowded(name))
                tx.count("session_forgotten_early")
            if owner := recalled(tx, self._indexes.owners, name):
                session = SessionState(subject=owner)
        verdict = self._judge(session.cursor, arrival.accepted, tx.clock)
        if verdict is _RELEASE:
            session = self._release(tx, name, session, arrival, tx.clock)
        else:
            session = _replace(self._detour(tx, name, session, arrival, verdict), touched=tx.clock)
        if self._indexes.held and verdict is not Verdict.WAIT and verdict is not Verdict.LATE:
            session = self._drain(tx, name, session, self._indexes.waiting(name))
        return session

    def _detour(self, tx: Tx, name: str, session: SessionState, arrival: Arrival, verdict: Verdict) -> SessionState:
        """Return the session after an event that is not simply the next one."""
        if verdict is Verdict.LATE:
            return self._release_late(tx, name, session, arrival)
        if verdict is Verdict.NEW_RUN:
            waiting, began = self._indexes.waiting(name), arrival.accepted.instant
            before = left_behind(session.cursor, waiting, began, strict=self._strict)
            session = self._expire(tx, name, session, before, len(before))
            session = _replace(session, cursor=started_over(session.cursor))
            if not self._strict:
                return self._release(tx, name, session, arrival, tx.clock)
        return self._hold(tx, name, session, arrival)

    def _judge(self, cursor: Cursor, accepted: Accepted, clock: int) -> Verdict:
        if accepted.arrival:
            return judge_arrival(cursor, accepted.instant, self._window_ms * NS_PER_MS)
        if self._strict:
            return judge_strictly(cursor, accepted.event.sequence, accepted.instant)
        return judge(cursor, accepted.event.sequence, accepted.instant, clock)

    def _hold(self, tx: Tx, name: str, session: SessionState, arrival: Arrival) -> SessionState:
        """Put an event into the window. If that is full, its first entries are released early."""
        event = arrival.accepted.event
        entry = Waiting(event.sequence, arrival.accepted.instant, event.event_id)
        tx.put(held_key(name, entry), held(arrival, self._window_ms))
        excess = self._indexes.waiting_bytes(name) - WAITING_BYTES
        if excess > 0 or self._indexes.waiting_count(name) > WAITING_EVENTS:
            session = self._overflow(tx, name, session, excess)
        while (excess := self._indexes.all_waiting_bytes - PARTITION_WAITING_BYTES) > 0:
            fullest = self._indexes.fullest()
            if fullest == name:
                session = self._overflow(tx, name, session, excess)
            else:
                other = session_state_key(fullest)
                tx.put(other, self._overflow(tx, fullest, tx.get(other), excess))
        return session

    def _overflow(self, tx: Tx, name: str, session: SessionState, excess: int) -> SessionState:
        """Release the first waiting events early, until `excess` bytes are free."""
        tx.count("window_full")
        waiting, count = self._indexes.waiting(name), 1
        while count < len(waiting):
            excess -= len(memoryview(tx.get(held_key(name, waiting[count - 1])).event))
            if excess <= 0:
                break
            count += 1
        return self._expire(tx, name, session, waiting, count)

    def overdue(self, tx: Tx, name: str, session: SessionState, entry: Waiting) -> SessionState:
        """Return the session after an event has waited its window."""
        waiting = self._indexes.waiting(name)
        below = passed(session.cursor, waiting, strict=self._strict)
        if below and entry <= waiting[below - 1]:
            return self._pass_on_late(tx, name, session, [entry])
        return self._drain(tx, name, session, waiting, entry)

    def _expire(self, tx: Tx, name: str, session: SessionState, waiting: list[Waiting], count: int) -> SessionState:
        """Release the first `count` waiting events early."""
        below = min(passed(session.cursor, waiting, strict=self._strict), count)
        session = self._pass_on_late(tx, name, session, waiting[:below])
        return self._drain(tx, name, session, waiting, waiting[count - 1]) if below < count else session

    def _pass_on_late(self, tx: Tx, name: str, session: SessionState, entries: list[Waiting]) -> SessionState:
        """Release events late for which no new run has begun."""
        for entry in entries:
            key = held_key(name, entry)
            session = self._release_late(tx, name, session, released_from(tx.get(key)))
            tx.put(key, None)
        return session

    def _drain(
        self, tx: Tx, name: str, session: SessionState, waiting: list[Waiting], until: Waiting | None = None
    ) -> SessionState:
        """Release waiting events in order up to `until` and then, in eager mode, those that follow without a gap."""
        for entry in waiting[passed(session.cursor, waiting, strict=self._strict) :]:
            forced = until is not None and entry <= until
            if not forced and (self._strict or not follows(session.cursor, entry)):
                break
            key = held_key(name, entry)
            session = self._release(tx, name, session, released_from(tx.get(key)), session.touched)
            tx.put(key, None)
        return session

    # release

    def _release(self, tx: Tx, name: str, session: SessionState, arrival: Arrival, touched: int) -> SessionState:
        """Return the session after an event was released in order; it was last touched at clock `touched`."""
        accepted, cursor = arrival.accepted, session.cursor
        event, instant, log_time, index = accepted.event, accepted.instant, arrival.log_time, cursor.index
        at = min(instant // NS_PER_MS, log_time + CLOCK_SKEW_MS)
        try:
            mined = step_of(accepted.fields, at, index, proven=arrival.proven)
            named = mined.subject
        except Exception as error:  # noqa: BLE001  see `spared`
            # Its content cannot be mined, so the step only says that there was an event.
            mined = spared(tx, "step_not_mined", error, Step(event.event_id, at, Role.OBSERVATION, index))
            named = named_subject(accepted.fields["metadata"])
        session = self._emit(tx, name, session, arrival, Release(index, cursor.run), named, _RELEASED)
        if accepted.arrival:
            following = passed_aside(cursor, instant)
        else:
            following = released(cursor, event.sequence, instant, log_time, self._window_ms)
        trace, size = arrival.trace or session.trace, trace_bytes(len(accepted.value), mined)
        session, step = self._segmenting.add(tx, name, session, mined, event.agent_id, following, touched, trace, size)
        return self._trace(tx, name, session, arrival, step, index)

    def _release_late(self, tx: Tx, name: str, session: SessionState, arrival: Arrival) -> SessionState:
        cursor = session.cursor
        release = Release(cursor.index, cursor.run, late=True)
        named = named_subject(arrival.accepted.fields["metadata"])
        session = self._emit(tx, name, session, arrival, release, named, _RELEASED_LATE)
        nbytes = session.nbytes + trace_bytes(len(arrival.accepted.value), None)
        session = _replace(session, cursor=passed_aside(cursor, arrival.accepted.instant), nbytes=nbytes)
        session = self._segmenting.pass_by(tx, name, session)
        return self._trace(tx, name, session, arrival, None, cursor.index)

    def _emit(
        self, tx: Tx, name: str, session: SessionState, arrival: Arrival, release: Release, named: str, outcome: str
    ) -> SessionState:
        """Emit the episode of an event that names `named`. Return the session, whose subject is the first named."""
        accepted, offset, partition, claims = arrival.accepted, arrival.offset, tx.partition, 0
        if named and (session.subject in ("", NOBODY_KNOWN) or not session.cursor.index):
            if session.cursor.index:
                latest = max(session.cursor.newest, accepted.instant) // NS_PER_MS
                claims = min(latest, tx.clock + CLOCK_SKEW_MS)
            named_at = arrival.log_time if session.cursor.index else 0
            session = self._segmenting.claimed(tx, name, session, named, named_at)
        if offset in tx.refused:  # the event has waited, otherwise it would have been rejected before
            record = Record(partition, offset, arrival.log_time, None, None, ())  # its dead letter has no bytes
            reject(tx, record, Rejection(Reason.OUTPUT_REFUSED))
            return session
        origin = Origin(partition, offset, arrival.log_time)
        whose = "" if named else session.subject
        value = write_episode(accepted.event, origin, release, accepted.notes, accepted.redacted, whose, claims)
        headers = output_headers(EPISODE, EVENTS, partition, offset)
        if arrival.trace:
            headers.append((TRACEPARENT, arrival.trace.encode()))
        tx.emit(Output(EPISODES, partition, name.encode(), value, headers))
        tx.count(outcome)
        return session

    def _trace(
        self, tx: Tx, name: str, session: SessionState, arrival: Arrival, step: Step | None, index: int
    ) -> SessionState:
        """Remember the event released at `index`."""
        tx.write(name, ReleasedEvent(arrival.accepted.event.event_id, arrival.accepted.digest, step))
        return session if index % TRIM_EVERY else self._trim(tx, name, session, index)

    def _trim(self, tx: Tx, name: str, session: SessionState, index: int) -> SessionState:
        """Drop traces that neither duplicate detection nor the open segment needs."""
        start = session.cursor.index - RECENT_IDS
        if session.head is not None:
            start = min(start, session.segment_first)
        tx.trim(name, start)
        last = session.nbytes - sum(session.traced) - sum(session.closed_bytes)
        traced, stay = (*session.traced, last), 1 + (index - start) // TRIM_EVERY
        return _replace(session, traced=traced[-stay:], nbytes=session.nbytes - sum(traced[:-stay]))

    def lighten(self, tx: Tx) -> None:
        """End sessions of the largest tenants until the partition is within its bound."""
        while self._indexes.nbytes > PARTITION_SESSION_BYTES:
            self._put_to_rest(tx, self._indexes.heaviest(tx.values()))
            tx.count("session_forgotten_heavy")

    def _put_to_rest(self, tx: Tx, tenant: str) -> None:
        """End the tenant's longest silent session. A tenant never loses one to a tenant that has more."""
        name = self._indexes.longest_silent(tx.values(), tenant)
        session: SessionState = tx.get(session_state_key(name))
        waiting = self._indexes.waiting(name)
        session = self._expire(tx, name, session, waiting, len(waiting))
        if session.dirty:
            session = self._segmenting.contribute_open(tx, name, session)
        self.forget(tx, name, session)

    def forget(self, tx: Tx, name: str, session: SessionState) -> None:
        firsts = session.closed if session.head is None else (*session.closed, session.segment_first)
        if not (SURFACED in name and only_reinforces(tx, name, firsts)):
            remember(tx, self._indexes.owners, name, session.subject, session.cursor.newest // NS_PER_MS)
        tx.trim(name, None)
        for first in firsts:
            tx.put(segment_key(name, first), None)
        tx.put(session_state_key(name), None)


def reject(tx: Tx, record: Record, rejection: Rejection) -> None:
    tx.emit(dead_letter(EVENTS, EVENTS_DLQ, record, rejection))
    tx.count(Outcome.REJECTED)
    tx.count(f"{Outcome.REJECTED}.{rejection.reason}")
