"""Segments in the sessions stage: released events join segments, and segments emit contributions.

Enters: a session and its next `Step`, or a session that is due. Leaves: the new `SessionState`, its `SegmentRecord`s,
and contributions in the tenant's evidence partition. A segment emits contributions when it closes, when its session has
ended or been idle, when a barrier asks, and when late feedback arrives; what its user states is contributed at once. A
contribution is emitted only if it differs from the last one to its pattern. A pattern that the segment no longer
supports gets a withdrawal.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import msgspec

from hmx_pipeline.compiler.extract import contributions, statements, withdrawal
from hmx_pipeline.compiler.knowledge.facts import tells
from hmx_pipeline.compiler.registry import is_statement
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import ASSERTED, EXTRACTED, Contribution, Pattern, Segment, Step, evidence_key
from hmx_pipeline.contracts.headers import CONTRIBUTION, KIND, fingerprint, output_headers, trace_headers
from hmx_pipeline.contracts.keys import split_key, tenant_partition
from hmx_pipeline.contracts.limits import (
    CONTRIBUTION_BYTES,
    RECORD_BYTES,
    SEGMENT_EVENTS,
    SEGMENT_IDLE_MS,
    SESSION_SEGMENTS,
    STATED_MS,
)
from hmx_pipeline.contracts.memory_types import LEDGER
from hmx_pipeline.ordering.window import Cursor
from hmx_pipeline.segments.head import SegmentHead
from hmx_pipeline.segments.segment_boundary import advance, open_head, starts_new
from hmx_pipeline.stages.fold import Output, Tx, attempt, spared
from hmx_pipeline.stages.session_state import ReleasedEvent, SegmentRecord, SessionState, encode_state, segment_key
from hmx_pipeline.topology import EVENTS, EVIDENCE

_replace = msgspec.structs.replace
_FEEDBACK, _MESSAGE = Role.FEEDBACK, Role.MESSAGE
_ASSERTS: Final = {Role.MESSAGE: EXTRACTED, Role.OBSERVATION: ASSERTED}
"""Role → name of a step that states what a client asserts."""
LATE_FEEDBACK: Final = 16
"""Late feedback events that a full, closed segment still takes. After that, each replaces the one before."""


class Segmenting:
    def __init__(self, evidence_partitions: int) -> None:
        self._evidence_partitions = evidence_partitions

    def add(
        self,
        tx: Tx,
        name: str,
        session: SessionState,
        step: Step,
        agent_id: str,
        cursor: Cursor,
        touched: int,
        trace: str,
        size: int,
    ) -> tuple[SessionState, Step | None]:
        """Return the session after an event released in order, and its step if the open segment has it. `name` is the
        session key; `cursor`, `touched` and `trace` are those after the event; its trace takes `size` bytes."""
        head, closed = session.head, session.closed
        if closed and step.role is _FEEDBACK and step.target:
            after = _replace(session, cursor=cursor, touched=touched, trace=trace, nbytes=session.nbytes + size)
            heard = self._speak_again(tx, name, after, step)
            if heard is not None:
                return self.pass_by(tx, name, heard), None
        if head is not None:
            try:
                following = None if starts_new(head, step, partial(_text_of, tx, name)) else advance(head, step)
            except Exception as error:  # noqa: BLE001  see `spared`
                following = spared(tx, "step_not_mined", error, head)
            if following is not None:
                first = session.segment_first
                ends = following.ended and not head.ended
                return SessionState(
                    cursor, touched, following, session.segment_id, first, session.agent_id, True, closed, trace,
                    session.nbytes + size, session.traced, session.closed_bytes, session.subject,
                    session.speak_at or _speak_at(tx.clock, step, ends=ends), session.claimed_at,
                ), step  # fmt: skip
            session = self._close(tx, name, _replace(session, trace=trace), step.index)
        begun = attempt(tx, "step_not_mined", SegmentHead(last_at=step.at, events=1), open_head, step)
        return SessionState(
            cursor, touched, begun, step.event_id, step.index, agent_id, True, session.closed, trace,
            session.nbytes + size, session.traced, session.closed_bytes, session.subject,
            _speak_at(tx.clock, step, ends=begun.ended), session.claimed_at,
        ), step  # fmt: skip

    def pass_by(self, tx: Tx, name: str, session: SessionState) -> SessionState:
        """Return the session after an event that joins no open segment; such events also count towards the segment's
        size."""
        if session.head is not None and session.cursor.index - session.segment_first >= SEGMENT_EVENTS:
            return self._close(tx, name, session, session.cursor.index)
        return session

    def contribute_open(self, tx: Tx, name: str, session: SessionState) -> SessionState:
        """Emit the open segment's contributions so far."""
        segment = _open_segment(tx, name, session, session.cursor.index)
        self._contribute(tx, name, segment, session.trace, closed=False)
        return _replace(session, dirty=False, speak_at=0)

    def contribute_due(self, tx: Tx, name: str, session: SessionState) -> SessionState:
        """Emit what is due of the open segment: everything once its session has ended or been idle, before that what
        was stated."""
        if (session.head is not None and session.head.ended) or tx.clock >= session.touched + SEGMENT_IDLE_MS:
            return self.contribute_open(tx, name, session)
        segment = _open_segment(tx, name, session, session.cursor.index)
        if attempt(tx, "segment_not_mined", False, tells, segment):
            self._contribute(tx, name, segment, session.trace, closed=False, stated=True)
        return _replace(session, speak_at=0)

    def _close(self, tx: Tx, name: str, session: SessionState, end: int) -> SessionState:
        size = self._contribute(tx, name, _open_segment(tx, name, session, end), session.trace, closed=True)
        closed, sizes = (*session.closed, session.segment_first), (*session.closed_bytes, size)
        for first in closed[:-SESSION_SEGMENTS]:
            tx.put(segment_key(name, first), None)
            tx.count("segment_out_of_reach")
        closed, nbytes = closed[-SESSION_SEGMENTS:], session.nbytes + size - sum(sizes[:-SESSION_SEGMENTS])
        sizes = sizes[-SESSION_SEGMENTS:]
        return _replace(session, head=None, dirty=False, closed=closed, closed_bytes=sizes, nbytes=nbytes, speak_at=0)

    def _speak_again(self, tx: Tx, name: str, session: SessionState, step: Step) -> SessionState | None:
        """Add late feedback to the closed segment with its target, and emit that segment again; None if
        there is none."""
        for at, first in enumerate(reversed(session.closed), 1):
            record: SegmentRecord = tx.get(segment_key(name, first))
            segment = record.segment
            if segment is not None and any(known.event_id == step.target for known in segment.steps):
                steps = segment.steps
                if len(steps) >= SEGMENT_EVENTS + LATE_FEEDBACK:
                    steps = steps[:-1]
                    tx.count("feedback_replaced")
                return self._again(tx, name, session, _replace(segment, steps=(*steps, step)), at)
        return None

    def claimed(self, tx: Tx, name: str, session: SessionState, subject: str, at: int) -> SessionState:
        """Return the session once its subject is known: what its segments have contributed is this subject's. `at`:
        `claimed_at`."""
        session = _replace(session, subject=subject, claimed_at=at)
        for place, first in enumerate(reversed(session.closed), 1):
            segment: Segment | None = tx.get(segment_key(name, first)).segment
            if segment is not None:
                session = self._again(tx, name, session, _replace(segment, subject=subject, claimed_at=at), place)
        open_record: SegmentRecord | None = tx.get(segment_key(name, session.segment_first))
        if session.head is not None and open_record is not None and open_record.said:
            session = self.contribute_open(tx, name, session)
        return session

    def _again(self, tx: Tx, name: str, session: SessionState, segment: Segment, at: int) -> SessionState:
        """Emit a closed segment again, the one at this place from the end."""
        size = self._contribute(tx, name, segment, session.trace, closed=True)
        sizes = list(session.closed_bytes)
        if at > len(sizes):
            return session
        grown, sizes[-at] = size - sizes[-at], size
        return _replace(session, closed_bytes=tuple(sizes), nbytes=session.nbytes + grown)

    def _contribute(
        self, tx: Tx, name: str, segment: Segment, trace: str, *, closed: bool, stated: bool = False
    ) -> int:
        """Emit what has changed, and store the segment. `stated`: statements alone. Return the bytes stored if it is
        closed."""
        key = segment_key(name, segment.steps[0].index)
        record: SegmentRecord | None = tx.get(key)
        before = record.said if record is not None else {}
        said = {
            pattern: digest for pattern, digest in before.items() if stated and not is_statement(split_key(pattern)[0])
        }
        mined = attempt(tx, "segment_not_mined", None, statements if stated else contributions, segment)
        for contribution in mined or ():
            value = contribution.to_json()
            if len(evidence_key(contribution)) + len(value) > CONTRIBUTION_BYTES:
                tx.count("contribution_too_large")
                continue
            digest = fingerprint(value)
            said[contribution.pattern.text] = digest
            if before.get(contribution.pattern.text) != digest:
                self._emit(tx, contribution, value, digest, trace)
        if mined is None:
            said = before
        for pattern in sorted(before.keys() - said.keys()):
            gone = withdrawal(segment, Pattern(*split_key(pattern)))
            value = gone.to_json()
            self._emit(tx, gone, value, fingerprint(value), trace)
        if not closed and said == before:
            return 0
        record = SegmentRecord(said=said, segment=segment if closed else None)
        size = len(key) + len(encode_state(key, record)) if closed else 0
        if size > RECORD_BYTES:
            record = SegmentRecord(said=said)
            tx.count("segment_out_of_reach")
            size = len(key) + len(encode_state(key, record))
        tx.put(key, record)
        return size

    def _emit(self, tx: Tx, contribution: Contribution, value: bytes, digest: str, trace: str) -> None:
        partition = tenant_partition(contribution.tenant_id, self._evidence_partitions)
        headers = output_headers(CONTRIBUTION, EVENTS, tx.partition, tx.offset, digest)
        headers += [(KIND, b"contribution"), *trace_headers(trace.encode())]
        tx.emit(Output(EVIDENCE, partition, evidence_key(contribution).encode(), value, headers))
        tx.count("withdrawn" if contribution.withdrawn else "contributed")


def _speak_at(clock: int, step: Step, *, ends: bool) -> int:
    """Return when the segment contributes after this step; 0 if it can wait."""
    by_user = step.role is _MESSAGE and step.actor == "user"
    asserts = step.name == _ASSERTS.get(step.role)
    tells = step.role is _FEEDBACK or by_user or asserts or step.projected is not None
    return clock + STATED_MS if tells or ends else 0


def _text_of(tx: Tx, name: str, index: int) -> str:
    """Return the text of the open segment's step at an index."""
    traces: Sequence[ReleasedEvent] = tx.items(name, index)
    step = traces[0].step
    return step.text if step is not None else ""


def only_reinforces(tx: Tx, name: str, firsts: Iterable[int]) -> bool:
    """Return True if the segments that begin there say nothing but what a pack has shown."""
    segments: list[SegmentRecord | None] = [tx.get(segment_key(name, first)) for first in firsts]
    return all(
        segment is not None and segment.said and {split_key(pattern)[0] for pattern in segment.said} == {LEDGER}
        for segment in segments
    )


def _open_segment(tx: Tx, name: str, session: SessionState, end: int) -> Segment:
    """Return the open segment up to index `end`. Late events, and feedback to closed segments, have no steps."""
    tenant_id, session_id = split_key(name)
    traces: Sequence[ReleasedEvent] = tx.items(name, session.segment_first)
    return Segment(
        tenant_id=tenant_id,
        session_id=session_id,
        agent_id=session.agent_id,
        segment_id=session.segment_id,
        subject=session.subject,
        claimed_at=session.claimed_at,
        steps=tuple(trace.step for trace in traces if trace.step is not None and trace.step.index < end),
    )
