"""The sessions stage: bytes from `hmx.events.v1` become episodes, contributions and dead letters.

A record is decoded, routed, compared with the session's released events, put in order and released. A released event
joins the session's open segment. `stages/segmenting` says when a segment emits contributions. Enters: `Record`s of one
events partition, signed control records among them. Leaves besides: erasure marks, control records for
`stages/patterns`, and copies of misrouted events in the log. Raises NewerRecordError.
"""

from typing import Any, Final

from pydantic import ValidationError

from hmx_pipeline.contracts.erasure import Erasure
from hmx_pipeline.contracts.evidence import EvidenceControl
from hmx_pipeline.contracts.headers import (
    AGENT_UNPROVEN,
    EVIDENCE_ARCHIVE,
    EVIDENCE_BARRIER,
    EVIDENCE_IMPORT,
    EVIDENCE_RULING,
    EVIDENCE_TENANT,
    KIND,
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
from hmx_pipeline.contracts.limits import (
    RECENT_IDS,
    REROUTED_HEADER_BYTES,
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
from hmx_pipeline.stages.arrival import Arrival
from hmx_pipeline.stages.erasure_marking import (
    erased_sessions,
    forget_past,
    is_erased,
    pass_on,
    retain,
    waiting_and_erased,
)
from hmx_pipeline.stages.fold import Backlog, Output, Record, Tx, check_release
from hmx_pipeline.stages.reading_ahead import ReadingAhead
from hmx_pipeline.stages.segmenting import Segmenting
from hmx_pipeline.stages.session_owners import disown
from hmx_pipeline.stages.session_releasing import NEW, SessionReleasing, reject
from hmx_pipeline.stages.session_state import (
    BufferedEvent,
    ErasedPast,
    HeldBarrier,
    Indexes,
    PassingBarrier,
    SessionState,
    barrier_key,
    decode_state,
    encode_state,
    held_entry,
    passing_key,
    session_of,
    session_state_key,
    state_deadline,
)
from hmx_pipeline.stages.work_turns import WorkTurns
from hmx_pipeline.topology import EVENTS, EVIDENCE

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
        self._indexes = Indexes()
        self.decode, self.encode, self.deadline = decode_state, encode_state, state_deadline
        self.changed = self._indexes.changed
        self._segmenting = Segmenting(evidence_partitions)
        self._releasing = SessionReleasing(self._indexes, self._segmenting, window_ms, strict=strict)
        self._turns = WorkTurns()
        self._ahead = ReadingAhead()

    def reject(self, tx: Tx, record: Record, rejection: Rejection) -> None:
        reject(tx, record, rejection)

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
            tx.put(session_state_key(name), self._releasing.overdue(tx, name, session, held_entry(key, value)))
            self._releasing.lighten(tx)
        elif session.dirty:
            tx.put(key, self._segmenting.contribute_due(tx, name, session))
        else:
            self._releasing.forget(tx, name, session)
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
        session: SessionState = tx.get(state_key) or NEW
        known = self._known(tx, name, session, event.event_id)
        if known is None:
            trace = (traceparent(headers) or b"").decode() if headers else ""
            proven = not headers or header(headers, AGENT_UNPROVEN) is None
            arrival = Arrival(accepted, record.offset, record.timestamp, trace, proven)
            tx.put(state_key, self._releasing.arrive(tx, name, session, arrival))
            self._releasing.lighten(tx)
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
            self._releasing.forget(tx, name, tx.get(session_state_key(name)))
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
