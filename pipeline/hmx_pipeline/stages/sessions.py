"""The sessions stage: bytes from `hmx.events.v1` become episodes, contributions and dead letters.

A record is decoded, routed, compared with the session's released events, put in order and released. A released event
joins the session's open segment. `stages/segmenting` says when a segment emits contributions. Enters: `Record`s of one
events partition, signed control records among them. Leaves besides: erasure marks, control records for
`stages/patterns`, and copies of misrouted events in the log. Raises NewerRecordError.
"""

from typing import Any, Final

import msgspec
from pydantic import ValidationError

from hmx_pipeline.contracts.episode import NOBODY_KNOWN, Origin, Release, named_subject, write_episode
from hmx_pipeline.contracts.erasure import Erasure
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import EvidenceControl, Step
from hmx_pipeline.contracts.headers import (
    AGENT_UNPROVEN,
    EPISODE,
    EVIDENCE_ARCHIVE,
    EVIDENCE_BARRIER,
    EVIDENCE_IMPORT,
    EVIDENCE_RULING,
    EVIDENCE_TENANT,
    KIND,
    TRACEPARENT,
    header,
    output_headers,
    traceparent,
)
from hmx_pipeline.contracts.keys import (
    ARCHIVE,
    BARRIER,
    CONTROL_TENANT,
    ERASE,
    IMPORT,
    RULING,
    TENANT,
    join_key,
    session_place,
    tenant_partition,
)
from hmx_pipeline.contracts.ledger import SURFACED
from hmx_pipeline.contracts.limits import (
    CLOCK_SKEW_MS,
    PARTITION_SESSION_BYTES,
    PARTITION_WAITING_BYTES,
    RECENT_IDS,
    REROUTED_HEADER_BYTES,
    SESSIONS_LIVE,
    WAITING_BYTES,
    WAITING_EVENTS,
    WINDOW_MS,
)
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.contracts.rejections import NewerRecordError, Reason, Rejection
from hmx_pipeline.contracts.retention import RETENTION, RetainedPast, Retention
from hmx_pipeline.contracts.timestamps import NS_PER_MS
from hmx_pipeline.intake.accepted import Accepted
from hmx_pipeline.intake.control_records import (
    archived_by,
    authentic,
    barrier_in,
    is_control,
    is_rerouted_copy,
    reroute_header,
)
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
from hmx_pipeline.stages.erasure_marking import (
    erased_sessions,
    forget_past,
    is_erased,
    pass_on,
    retain,
    waiting_and_erased,
)
from hmx_pipeline.stages.fold import Backlog, Output, Record, Tx, check_release, spared
from hmx_pipeline.stages.reading_ahead import ReadingAhead
from hmx_pipeline.stages.segmenting import Segmenting, only_reinforces
from hmx_pipeline.stages.session_owners import disown, recalled, remember
from hmx_pipeline.stages.session_state import (
    BufferedEvent,
    ErasedPast,
    HeldBarrier,
    Indexes,
    PassingBarrier,
    ReleasedEvent,
    SessionState,
    barrier_key,
    decode_state,
    encode_state,
    held_entry,
    held_key,
    passing_key,
    segment_key,
    session_of,
    session_state_key,
    state_deadline,
    trace_bytes,
)
from hmx_pipeline.stages.work_turns import WorkTurns
from hmx_pipeline.topology import EPISODES, EVENTS, EVENTS_DLQ, EVIDENCE

_replace = msgspec.structs.replace
_NEW: Final = SessionState()
_RELEASE: Final = Verdict.RELEASE  # looking up an enum member costs ten times as much as a global name
_RELEASED, _RELEASED_LATE = str(Outcome.RELEASED), str(Outcome.RELEASED_LATE)
TRIM_EVERY: Final = 64
_DECISIONS: Final = {
    IMPORT: ("import", "imported", EVIDENCE_IMPORT),
    RULING: ("ruling", "ruled", EVIDENCE_RULING),
    TENANT: ("tenant", "settings", EVIDENCE_TENANT),
}
"""Event type → kind, field and CloudEvents type of the control record that passes an operator's decision on."""


class SessionsFold:
    """The fold of one partition of the events topic. `control_key` authenticates control records (see
    intake.control_records)."""

    at_rest = "sg"

    def __init__(
        self,
        *,
        partitions: int,
        evidence_partitions: int,
        control_key: str,
        window_ms: int = WINDOW_MS,
        strict: bool = False,
    ) -> None:
        self._partitions = partitions
        self._evidence_partitions = evidence_partitions
        self._control_key = control_key
        self._window_ms = window_ms
        self._strict = strict
        self._indexes = Indexes()
        self.decode, self.encode, self.deadline = decode_state, encode_state, state_deadline
        self.changed = self._indexes.changed
        self._segmenting = Segmenting(evidence_partitions)
        self._turns = WorkTurns()
        self._ahead = ReadingAhead()

    def reject(self, tx: Tx, record: Record, rejection: Rejection) -> None:
        tx.emit(dead_letter(EVENTS, EVENTS_DLQ, record, rejection))
        tx.count(Outcome.REJECTED)
        tx.count(f"{Outcome.REJECTED}.{rejection.reason}")

    def fold(self, tx: Tx, record: Record) -> None:
        accepted = self._ahead.decoded(tx, record)
        if isinstance(accepted, Rejection):
            self.reject(tx, record, accepted)
        elif accepted.control:
            self._control(tx, record, accepted)
        else:
            self._event(tx, record, accepted)

    def due(self, tx: Tx, key: str, value: Any) -> None:
        if isinstance(value, ErasedPast):
            tx.put(key, None)
            return
        if isinstance(value, RetainedPast):
            what = join_key(value.tenant_id, str(tx.clock))
            forget_past(tx, value, self._partitions, self._evidence_partitions, what)
            return
        if isinstance(value, HeldBarrier):
            tx.put(key, None)
            self._begin_to_pass(tx, value.barrier_id, value.tenant_id, value.partitions)
            return
        name = session_of(key)
        session: SessionState = tx.get(session_state_key(name))
        if isinstance(value, BufferedEvent):
            tx.put(session_state_key(name), self._overdue(tx, name, session, held_entry(key, value)))
            self._lighten(tx)
        elif session.dirty:
            tx.put(key, self._segmenting.contribute_due(tx, name, session))
        else:
            self._forget(tx, name, session)
            tx.count("session_forgotten")

    # arrival

    def _event(self, tx: Tx, record: Record, accepted: Accepted) -> None:
        event, headers = accepted.event, record.headers
        name, encoded, partition = session_place(event.tenant_id, event.session_id, self._partitions)
        copy = is_rerouted_copy(self._control_key, record.value or b"", headers) if headers else None
        if copy is False:
            self.reject(tx, record, Rejection(Reason.FORGED_ORIGIN))
            return
        if partition != record.partition:
            self._reroute(tx, encoded, partition, record, is_copy=copy is True)
            return
        if self._indexes.erased and is_erased(self._indexes, accepted):
            self.reject(tx, record, Rejection(Reason.ERASED))
            return
        state_key = session_state_key(name)
        session: SessionState = tx.get(state_key) or _NEW
        known = self._known(tx, name, session, event.event_id)
        if known is None:
            trace = (traceparent(headers) or b"").decode() if headers else ""
            proven = not headers or header(headers, AGENT_UNPROVEN) is None
            arrival = Arrival(accepted, record.offset, record.timestamp, trace, proven)
            tx.put(state_key, self._arrive(tx, name, session, arrival))
            if self._indexes.nbytes > PARTITION_SESSION_BYTES:
                self._lighten(tx)
        elif known == accepted.digest:
            tx.count(Outcome.DUPLICATE)
        else:
            self.reject(tx, record, Rejection(Reason.EVENT_ID_REUSED, "$.event_id"))

    def _known(self, tx: Tx, name: str, session: SessionState, event_id: str) -> bytes | None:
        """Return the digest of an event with this id that waits, or is among the last released; else None. Traces may
        reach further back, for the open segment, but whether an id is known must not depend on that."""
        journal = tx.journal(name)
        if journal is not None:
            index = journal.index(event_id)
            if index >= 0 and index >= session.cursor.index - RECENT_IDS:
                digest: bytes = journal.item(index).digest
                return digest
        return self._indexes.digest(name, event_id) if self._indexes.held else None

    def _reroute(self, tx: Tx, key: bytes, partition: int, record: Record, *, is_copy: bool) -> None:
        """Append the record to the right partition, once. A copy in a wrong partition shows that the number of
        partitions has changed, so it is rejected."""
        value, size = record.value or b"", sum(len(text) + len(item or b"") for text, item in record.headers)
        if is_copy or size > REROUTED_HEADER_BYTES:
            self.reject(tx, record, Rejection(Reason.WRONG_PARTITION))
            return
        headers = [*record.headers, reroute_header(self._control_key, record.partition, record.offset, value)]
        tx.append(Output(EVENTS, partition, key, value, headers))
        tx.count(Outcome.REROUTED)

    def _arrive(self, tx: Tx, name: str, session: SessionState, arrival: Arrival) -> SessionState:
        """Return the session after an event that is new to it."""
        if session is _NEW:
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

    def _overdue(self, tx: Tx, name: str, session: SessionState, entry: Waiting) -> SessionState:
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
            self.reject(tx, record, Rejection(Reason.OUTPUT_REFUSED))
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

    def _lighten(self, tx: Tx) -> None:
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
        self._forget(tx, name, session)

    def _forget(self, tx: Tx, name: str, session: SessionState) -> None:
        firsts = session.closed if session.head is None else (*session.closed, session.segment_first)
        if not (SURFACED in name and only_reinforces(tx, name, firsts)):
            remember(tx, self._indexes.owners, name, session.subject, session.cursor.newest // NS_PER_MS)
        tx.trim(name, None)
        for first in firsts:
            tx.put(segment_key(name, first), None)
        tx.put(session_state_key(name), None)

    # control

    def _control(self, tx: Tx, record: Record, accepted: Accepted) -> None:
        event = accepted.event
        ours = event.tenant_id == CONTROL_TENANT
        if not ours or not authentic(self._control_key, record.value or b"", record.headers):
            path = "$.tenant_id" if ours else "$.event_type"
            self.reject(tx, record, Rejection(Reason.RESERVED, path))
            return
        if not is_control(event):
            raise NewerRecordError(f"this release knows no {event.event_type}")
        tx.count(Outcome.CONTROL)
        try:
            self._obey(tx, accepted)
        except ValidationError as error:
            check_release(error)
            raise

    def _obey(self, tx: Tx, accepted: Accepted) -> None:
        event = accepted.event
        if event.event_type == BARRIER:
            asked = barrier_in(accepted.fields["content"])
            if self._indexes.waits(asked.tenant_id):
                held = HeldBarrier(deadline=tx.clock + self._window_ms, **asked._asdict())
                tx.put(barrier_key(asked.barrier_id), held)
            else:
                self._begin_to_pass(tx, *asked)
        elif event.event_type == ARCHIVE:
            archived = archived_by(accepted.fields["content"])
            control = EvidenceControl(kind="archive", partition=tx.partition, archived=archived)
            self._pass_on(tx, EVIDENCE_ARCHIVE, archived.tenant_id, archived.pattern, control)
        elif event.event_type == ERASE:
            self._erase(tx, Erasure.model_validate(accepted.fields["content"]))
        elif event.event_type == TENANT and RETENTION in accepted.fields["content"]:
            given = Retention.model_validate(accepted.fields["content"][RETENTION])
            retain(tx, given, self._partitions, self._evidence_partitions)
        elif event.event_type in _DECISIONS:
            kind, field, name = _DECISIONS[event.event_type]
            given = accepted.fields["content"]
            control = EvidenceControl(kind=kind, partition=tx.partition, **{field: given})
            tenant_id, pattern = (str(given.get(part, "")) for part in ("tenant_id", "pattern"))
            self._pass_on(tx, name, tenant_id, pattern, control)

    def _erase(self, tx: Tx, erasure: Erasure) -> None:
        """Forget the sessions that the erasure covers, without contributing, and turn away what waits in them, or
        names its subject."""
        names = erased_sessions(tx, erasure)
        newest = {name: tx.get(session_state_key(name)).cursor.newest for name in names}
        for key in waiting_and_erased(tx, erasure, names):
            held: BufferedEvent = tx.get(key)
            if (name := session_of(key)) in newest:
                newest[name] = max(newest[name], held.instant)
            record = Record(tx.partition, held.offset, held.log_time, None, None, ())
            self.reject(tx, record, Rejection(Reason.ERASED))
            tx.put(key, None)
        for name in names:
            self._forget(tx, name, tx.get(session_state_key(name)))
        forgotten = disown(tx, erasure)
        times = {name: instant // NS_PER_MS for name, instant in newest.items()}
        pass_on(tx, erasure, times, forgotten, self._partitions, self._evidence_partitions)

    def _pass_on(self, tx: Tx, name: bytes, tenant_id: str, pattern: str, control: EvidenceControl) -> None:
        """Emit a control record to the tenant's evidence partition, where its patterns are compiled."""
        headers = [*output_headers(name, EVENTS, tx.partition, tx.offset), (KIND, control.kind.encode())]
        partition = tenant_partition(tenant_id, self._evidence_partitions)
        tx.emit(Output(EVIDENCE, partition, join_key(tenant_id, pattern).encode(), control.to_json(), headers))

    @property
    def unfinished(self) -> int | None:
        passing = self._indexes.passing
        return passing.offset if passing is not None else None

    @property
    def backlog(self) -> Backlog:
        return Backlog(self._indexes.held, self._indexes.waiting_sessions)

    def go_on(self, tx: Tx) -> None:
        """Everything before the barrier has been released. Emit one open segment per turn, then pass the barrier."""
        passing = self._indexes.passing
        assert passing is not None, "something is unfinished"
        if self._indexes.is_dirty(passing.tenant_id):
            name = self._turns.next_of(self._indexes.dirty(passing.tenant_id))
            state_key = session_state_key(name)
            tx.put(state_key, self._segmenting.contribute_open(tx, name, tx.get(state_key)))
        else:
            tx.put(passing_key(passing.barrier_id), None)
            self._pass_barrier(tx, passing)

    def _begin_to_pass(self, tx: Tx, barrier_id: str, tenant_id: str, partitions: int) -> None:
        passing = PassingBarrier(offset=tx.offset, barrier_id=barrier_id, tenant_id=tenant_id, partitions=partitions)
        tx.put(passing_key(barrier_id), passing)

    def _pass_barrier(self, tx: Tx, passing: PassingBarrier) -> None:
        """Emit the barrier to every evidence partition, or to that of its tenant."""
        barrier_id, tenant_id = passing.barrier_id, passing.tenant_id
        control = EvidenceControl(
            kind="barrier",
            barrier_id=barrier_id,
            partition=tx.partition,
            partitions=passing.partitions or self._partitions,
            tenant_id=tenant_id,
        )
        value = control.to_json()
        headers = output_headers(EVIDENCE_BARRIER, EVENTS, tx.partition, tx.offset, barrier_id)
        headers.append((KIND, b"barrier"))
        record_key = join_key("barrier", barrier_id, str(tx.partition)).encode()
        own = [tenant_partition(tenant_id, self._evidence_partitions)] if tenant_id else None
        for partition in own or range(self._evidence_partitions):
            tx.emit(Output(EVIDENCE, partition, record_key, value, headers))
