"""The sessions stage: bytes of `hmx.events.v1` in; episodes, contributions and dead letters out.

A record is decoded, routed, compared with what its session has seen, put in order and released; a released event joins
its session's open segment, and a segment that is complete (or asked for by a barrier) says what it contributes.
"""

from typing import Any, Final, NamedTuple

import msgspec
import orjson

from pipeline.contracts.envelope import read_envelope
from pipeline.contracts.episode import Origin, Release, write_episode
from pipeline.contracts.event_types import Role
from pipeline.contracts.evidence import EvidenceControl, Step
from pipeline.contracts.headers import EPISODE, EVIDENCE_BARRIER, KIND, TRACEPARENT, output_headers, traceparent
from pipeline.contracts.instants import NS_PER_MS
from pipeline.contracts.keys import BARRIER, CONTROL_TENANT, join_key, session_place
from pipeline.contracts.limits import (
    CLOCK_SKEW_MS,
    RECENT_IDS,
    REROUTED_HEADER_BYTES,
    SESSIONS_LIVE,
    WAITING_BYTES,
    WAITING_EVENTS,
    WINDOW_MS,
)
from pipeline.contracts.outcomes import Outcome
from pipeline.contracts.rejections import Reason, Rejection
from pipeline.intake.control import authentic, is_control, is_rerouted_copy, reroute_header
from pipeline.intake.decode import Accepted, decode
from pipeline.intake.view import step_of
from pipeline.ordering.window import (
    Cursor,
    Verdict,
    Waiting,
    follows,
    judge,
    judge_strictly,
    passed_late,
    released,
    started_over,
)
from pipeline.stages.dead_letters import dead_letter
from pipeline.stages.fold import Output, Record, Tx, attempt
from pipeline.stages.segmenting import Segmenting
from pipeline.stages.session_state import (
    Held,
    HeldBarrier,
    Indexes,
    Session,
    Trace,
    barrier_key,
    decode_state,
    encode_state,
    held_entry,
    held_key,
    segment_key,
    session_of,
    session_state_key,
    state_deadline,
)
from pipeline.topology import EPISODES, EVENTS, EVENTS_DLQ, EVIDENCE

_replace = msgspec.structs.replace


_NEW: Final = Session()
_RELEASED, _RELEASED_LATE = str(Outcome.RELEASED), str(Outcome.RELEASED_LATE)  # an enum's member costs ten times a name
TRIM_EVERY: Final = 64


class Arrival(NamedTuple):
    """An event on its way out, whether it has waited or not, and where in the log it stood."""

    accepted: Accepted
    offset: int
    log_time: int
    trace: str
    """Its traceparent, or nothing."""


class SessionsFold:
    """One partition of the events topic. `control_key` authenticates control records (see intake.control)."""

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

    def reject(self, tx: Tx, record: Record, rejection: Rejection) -> None:
        tx.emit(dead_letter(EVENTS, EVENTS_DLQ, record, rejection))
        tx.count(Outcome.REJECTED)
        tx.count(f"{Outcome.REJECTED}.{rejection.reason}")

    def fold(self, tx: Tx, record: Record) -> None:
        accepted = decode(record.value)
        if isinstance(accepted, Rejection):
            self.reject(tx, record, accepted)
        elif accepted.control:
            self._control(tx, record, accepted)
        else:
            self._event(tx, record, accepted)

    def due(self, tx: Tx, key: str, value: Any) -> None:
        if isinstance(value, HeldBarrier):
            tx.put(key, None)
            self._pass_barrier(tx, value.barrier_id)
            return
        name = session_of(key)
        session: Session = tx.get(session_state_key(name))
        if isinstance(value, Held):
            session = self._drain(tx, name, session, self._indexes.waiting(name), held_entry(key, value))
            tx.put(session_state_key(name), session)
        elif session.dirty:
            tx.put(key, self._segmenting.contribute_open(tx, name, session))
        else:
            self._forget(tx, name, session)
            tx.count("session_forgotten")

    # arrival

    def _event(self, tx: Tx, record: Record, accepted: Accepted) -> None:
        event = accepted.event
        name, encoded, partition = session_place(event.tenant_id, event.session_id, self._partitions)
        session: Session = tx.get(session_state_key(name)) or _NEW
        headers, value = record.headers, record.value or b""
        copy = is_rerouted_copy(self._control_key, value, headers) if headers else None
        if copy is False:
            self.reject(tx, record, Rejection(Reason.FORGED_ORIGIN))
        elif partition != record.partition:
            self._reroute(tx, encoded, partition, record, is_copy=copy is True)
        elif (known := self._known(tx, name, session, event.event_id)) is None:
            self._arrive(tx, name, session, record, accepted)
        elif known == accepted.digest:
            tx.count(Outcome.DUPLICATE)
        else:
            self.reject(tx, record, Rejection(Reason.EVENT_ID_REUSED, "$.event_id"))

    def _known(self, tx: Tx, name: str, session: Session, event_id: str) -> bytes | None:
        """Digest of the event of that id, if it waits or was released among the last of its session.

        Traces may reach further back, for the open segment; whether an id is remembered must not depend on that.
        """
        journal = tx.journal(name)
        if journal is not None:
            index = journal.index(event_id)
            if index >= 0 and index >= session.cursor.index - RECENT_IDS:
                digest: bytes = journal.item(index).digest
                return digest
        return self._indexes.digest(name, event_id) if self._indexes.held else None

    def _reroute(self, tx: Tx, key: bytes, partition: int, record: Record, *, is_copy: bool) -> None:
        """Once; a copy that is wrong again shows that the partitions have changed."""
        value, size = record.value or b"", sum(len(text) + len(item or b"") for text, item in record.headers)
        if is_copy or size > REROUTED_HEADER_BYTES:
            self.reject(tx, record, Rejection(Reason.WRONG_PARTITION))
            return
        headers = [*record.headers, reroute_header(self._control_key, record.partition, record.offset, value)]
        tx.append(Output(EVENTS, partition, key, value, headers))
        tx.count(Outcome.REROUTED)

    def _arrive(self, tx: Tx, name: str, session: Session, record: Record, accepted: Accepted) -> None:
        event = accepted.event
        if session is _NEW and self._indexes.sessions >= SESSIONS_LIVE:
            self._make_room(tx)
        entry = Waiting(event.sequence, accepted.instant, event.event_id)
        trace = (traceparent(record.headers) or b"").decode() if record.headers else ""
        verdict = self._judge(session.cursor, entry, tx.clock)
        if verdict is Verdict.NEW_RUN:
            waiting = self._indexes.waiting(name)
            session = self._drain(tx, name, session, waiting, waiting[-1] if waiting else None)
            session = _replace(session, cursor=started_over(session.cursor))
            verdict = Verdict.WAIT if self._strict else Verdict.RELEASE
        if verdict is Verdict.WAIT:
            session = self._hold(tx, name, session, entry, _held(record, accepted, trace, self._window_ms))
        else:
            arrival = Arrival(accepted, record.offset, record.timestamp, trace)
            session = self._release(tx, name, session, arrival, late=verdict is Verdict.LATE)
            if verdict is Verdict.RELEASE and self._indexes.held:
                session = self._drain(tx, name, session, self._indexes.waiting(name))
        tx.put(session_state_key(name), _replace(session, touched=tx.clock))

    def _judge(self, cursor: Cursor, entry: Waiting, clock: int) -> Verdict:
        if self._strict:
            return judge_strictly(cursor, entry.sequence, entry.instant)
        return judge(cursor, entry.sequence, entry.instant, clock)

    def _hold(self, tx: Tx, name: str, session: Session, entry: Waiting, held: Held) -> Session:
        """Into the window; where that is full, its first entries go out as if their time had come."""
        tx.put(held_key(name, entry), held)
        excess = self._indexes.waiting_bytes(name) - WAITING_BYTES
        if excess <= 0 and self._indexes.waiting_count(name) <= WAITING_EVENTS:
            return session
        tx.count("window_full")
        waiting = self._indexes.waiting(name)
        until = waiting[0]
        for until in waiting:
            excess -= len(memoryview(tx.get(held_key(name, until)).event))
            if excess <= 0:
                break
        return self._drain(tx, name, session, waiting, until)

    def _drain(
        self, tx: Tx, name: str, session: Session, waiting: list[Waiting], until: Waiting | None = None
    ) -> Session:
        """Releases what waits up to `until`, and then, unless ordering is strict, what follows without a gap."""
        for entry in waiting:
            forced = until is not None and entry <= until
            if not forced and (self._strict or not follows(session.cursor, entry)):
                break
            key = held_key(name, entry)
            session = self._release(tx, name, session, _released_from(tx.get(key)))
            tx.put(key, None)
        return session

    # release

    def _release(self, tx: Tx, name: str, session: Session, arrival: Arrival, *, late: bool = False) -> Session:
        accepted, offset, log_time, trace = arrival
        event, instant, cursor, step = accepted.event, accepted.instant, session.cursor, None
        index = cursor.index
        origin, release = Origin(tx.partition, offset, log_time), Release(index, cursor.run, late)
        value = write_episode(event, origin, release, accepted.notes, accepted.redacted)
        headers = output_headers(EPISODE, EVENTS, tx.partition, offset)
        if trace:
            headers.append((TRACEPARENT, trace.encode()))
        tx.emit(Output(EPISODES, tx.partition, name.encode(), value, headers))
        tx.count(_RELEASED_LATE if late else _RELEASED)
        if late:
            session = _replace(session, cursor=passed_late(cursor, instant))
            session = self._segmenting.pass_by(tx, name, session)
        else:
            at = min(instant // NS_PER_MS, log_time + CLOCK_SKEW_MS)
            following = released(cursor, event.sequence, instant, log_time, self._window_ms)
            session = _replace(session, cursor=following, trace=trace or session.trace)
            mined = attempt(tx, "step_not_mined", None, step_of, accepted.fields, at, index)
            if mined is None:  # what its content says can't be taken, only that there was an event
                mined = Step(event_id=event.event_id, at=at, index=index, role=Role.OBSERVATION)
            session, step = self._segmenting.add(tx, name, session, mined, event.agent_id)
        tx.write(name, Trace(event.event_id, accepted.digest, step))
        if index % TRIM_EVERY == 0:
            self._trim(tx, name, session)
        return session

    def _trim(self, tx: Tx, name: str, session: Session) -> None:
        """Traces stay while duplicates are recognised by them or the open segment needs their steps."""
        start = session.cursor.index - RECENT_IDS
        tx.trim(name, min(start, session.segment_first) if session.head is not None else start)

    def _make_room(self, tx: Tx) -> None:
        """The longest silent session ends as if nothing more came of it."""
        name = self._indexes.longest_silent(tx.values())
        session: Session = tx.get(session_state_key(name))
        waiting = self._indexes.waiting(name)
        if waiting:
            session = self._drain(tx, name, session, waiting, waiting[-1])
        if session.dirty:
            session = self._segmenting.contribute_open(tx, name, session)
        self._forget(tx, name, session)
        tx.count("session_forgotten_early")

    def _forget(self, tx: Tx, name: str, session: Session) -> None:
        tx.trim(name, None)
        for first in session.closed if session.head is None else (*session.closed, session.segment_first):
            tx.put(segment_key(name, first), None)
        tx.put(session_state_key(name), None)

    # control

    def _control(self, tx: Tx, record: Record, accepted: Accepted) -> None:
        event = accepted.event
        if not is_control(event) or not authentic(self._control_key, record.value or b"", record.headers):
            path = "$.tenant_id" if event.tenant_id == CONTROL_TENANT else "$.event_type"
            self.reject(tx, record, Rejection(Reason.RESERVED, path))
            return
        tx.count(Outcome.CONTROL)
        if event.event_type == BARRIER:
            barrier_id = str(accepted.fields["content"].get("barrier_id", ""))
            if self._indexes.held:
                held = HeldBarrier(deadline=tx.clock + self._window_ms, barrier_id=barrier_id)
                tx.put(barrier_key(barrier_id), held)
            else:
                self._pass_barrier(tx, barrier_id)

    def _pass_barrier(self, tx: Tx, barrier_id: str) -> None:
        """Everything before it is out: open segments speak provisionally, then every evidence partition hears of it."""
        for name in sorted(self._indexes.dirty):
            state_key = session_state_key(name)
            tx.put(state_key, self._segmenting.contribute_open(tx, name, tx.get(state_key)))
        control = EvidenceControl(
            kind="barrier", barrier_id=barrier_id, partition=tx.partition, partitions=self._partitions
        )
        value = control.to_json()
        headers = output_headers(EVIDENCE_BARRIER, EVENTS, tx.partition, tx.offset, barrier_id)
        headers.append((KIND, b"barrier"))
        record_key = join_key("barrier", barrier_id, str(tx.partition)).encode()
        for partition in range(self._evidence_partitions):
            tx.emit(Output(EVIDENCE, partition, record_key, value, headers))


def _held(record: Record, accepted: Accepted, trace: str, window_ms: int) -> Held:
    return Held(
        deadline=record.timestamp + window_ms,
        offset=record.offset,
        log_time=record.timestamp,
        instant=accepted.instant,
        digest=accepted.digest,
        event=msgspec.Raw(accepted.value),
        notes=accepted.notes,
        redacted=accepted.redacted,
        trace=trace,
    )


def _released_from(held: Held) -> Arrival:
    value = bytes(held.event)
    event, fields = read_envelope(value), orjson.loads(value)
    accepted = Accepted(event, fields, value, held.instant, held.digest, held.redacted, held.notes, control=False)
    return Arrival(accepted, held.offset, held.log_time, held.trace)
