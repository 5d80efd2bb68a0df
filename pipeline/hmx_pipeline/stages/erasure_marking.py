"""Erasure marking: names what the sessions stage holds of the erased, and tells readers; `stages/sessions` forgets it.

Enters: an `Erasure` or a `Retention` from a signed control record. Leaves: an `ErasureMark` in the erasures and
evidence topics; the sessions and waiting events to forget; whether an event that comes only now is erased. Each
partition of the events topic gets the erasure. It passes it on as a mark, with the sessions that it held itself: to the
erasures topic for readers, and to the tenant's evidence, whose contributions it ends. A tenant's retention goes the
same way: at midnight of the log's clock its cuts rise, and what was before them is forgotten.
"""

from collections.abc import Container, Mapping

import orjson
from msgspec.structs import replace

from hmx_pipeline.contracts.episode import named_subject
from hmx_pipeline.contracts.erasure import ErasedScope, Erasure, ErasureMark, covered, mark_of, marks_on
from hmx_pipeline.contracts.evidence import EvidenceControl
from hmx_pipeline.contracts.headers import ERASURE, EVIDENCE_ERASURE, KIND, output_headers
from hmx_pipeline.contracts.keys import join_key, split_key, tenant_partition
from hmx_pipeline.contracts.limits import ERASURE_KEPT_MS
from hmx_pipeline.contracts.retention import DAY_MS, RETENTION, RetainedPast, Retention, cuts_of, risen
from hmx_pipeline.contracts.timestamps import NS_PER_MS
from hmx_pipeline.intake.accepted import Accepted
from hmx_pipeline.stages.fold import Output, Tx
from hmx_pipeline.stages.session_state import (
    HELD,
    BufferedEvent,
    ErasedPast,
    Indexes,
    erased_key,
    retained_key,
    session_of,
)
from hmx_pipeline.topology import ERASURES, EVENTS, EVIDENCE


def erased_sessions(tx: Tx, erasure: Erasure) -> list[str]:
    """Return the names of the sessions in the state that the erasure covers, in order."""
    prefix, marks = f"s/{join_key(erasure.tenant_id)}/", erasure.marks
    names = sorted(key[2:] for key in tx.values() if key.startswith(prefix))
    return [
        name for name in names if covered(marks, erasure.tenant_id, split_key(name)[1], tx.get(f"s/{name}").subject)
    ]


def waiting_and_erased(tx: Tx, erasure: Erasure, names: Container[str]) -> list[str]:
    """Return the keys of the events that wait in these sessions, or that the erasure covers by the subject which they
    name: their session may not know it yet."""
    prefix, marks = f"{HELD}{join_key(erasure.tenant_id)}/", erasure.marks

    def covers(key: str) -> bool:
        name = session_of(key)
        if name in names:
            return True
        held: BufferedEvent = tx.get(key)
        subject = named_subject(orjson.loads(bytes(held.event)).get("metadata") or {})
        return covered(marks, erasure.tenant_id, split_key(name)[1], subject)

    return sorted(key for key in tx.values() if key.startswith(prefix) and covers(key))


def pass_on(
    tx: Tx,
    erasure: Erasure,
    newest: Mapping[str, int],
    forgotten: Mapping[str, int],
    partitions: int,
    evidence_partitions: int,
) -> None:
    """Remember the erasure, and tell readers and the patterns stage. `newest`: session → time of its last event;
    `forgotten`: mark of a session that is not held → such a time. An event may be dated later than it was appended, so
    it is still of the erased past when it is sent again."""
    held = {mark_of(erasure.tenant_id, ErasedScope.SESSION, split_key(name)[1]): at for name, at in newest.items()}
    found = {**forgotten, **{mark: max(at, forgotten.get(mark, at)) for mark, at in held.items()}}
    marks = sorted(erasure.marks | found.keys())
    ahead = {mark: at for mark, at in sorted(found.items()) if at > erasure.at}
    past = ErasedPast(deadline=tx.clock + ERASURE_KEPT_MS, at=erasure.at, marks=tuple(marks), newest=ahead)
    tx.put(erased_key(erasure.tenant_id, erasure.erasure_id), past)
    mark = ErasureMark(
        erasure_id=erasure.erasure_id,
        tenant_id=erasure.tenant_id,
        at=erasure.at,
        marks=marks,
        partition=tx.partition,
        before=tx.offset,
    )
    _tell(tx, mark, partitions, evidence_partitions)
    tx.count("erased_session", len(newest))


def _tell(tx: Tx, mark: ErasureMark, partitions: int, evidence_partitions: int, what: str | None = None) -> None:
    key, value = mark.key.encode(), mark.to_json()
    told = output_headers(ERASURE, EVENTS, tx.partition, tx.offset, what)
    tx.emit(Output(ERASURES, tx.partition, key, value, told))
    control = EvidenceControl(kind="erasure", partition=tx.partition, partitions=partitions, erased=mark)
    headers = [*output_headers(EVIDENCE_ERASURE, EVENTS, tx.partition, tx.offset, what), (KIND, b"erasure")]
    target = tenant_partition(mark.tenant_id, evidence_partitions)
    tx.emit(Output(EVIDENCE, target, key, control.to_json(), headers))


def retain(tx: Tx, given: Retention, partitions: int, evidence_partitions: int) -> None:
    """Keep to what an operator has set from here on."""
    key = retained_key(given.tenant_id)
    known: RetainedPast = tx.get(key) or RetainedPast(tenant_id=given.tenant_id, deadline=None)
    if given.days is not None:
        known = replace(known, days=given.days, sessions=given.sessions)
    forget_past(tx, replace(known, cuts=risen(known.cuts, given.cuts)), partitions, evidence_partitions)


def forget_past(
    tx: Tx, known: RetainedPast, partitions: int, evidence_partitions: int, what: str | None = None
) -> None:
    """Raise the cuts to the day of the clock, and tell readers and the patterns stage. `what`: at midnight, which is
    told besides what the record itself says."""
    cuts = risen(known.cuts, cuts_of(known.days, tx.clock))
    deadline = (tx.clock // DAY_MS + 1) * DAY_MS if known.days else None
    tx.put(retained_key(known.tenant_id), replace(known, cuts=cuts, deadline=deadline))
    mark = ErasureMark(
        erasure_id=RETENTION,
        tenant_id=known.tenant_id,
        at=max(cuts.values(), default=0),
        marks=[],
        partition=tx.partition,
        before=0,
        policy=str(Retention(tenant_id=known.tenant_id, days=known.days, sessions=known.sessions)),
        cuts=cuts,
    )
    _tell(tx, mark, partitions, evidence_partitions, what)


def is_erased(indexes: Indexes, accepted: Accepted) -> bool:
    """Return True for an event of the erased past that comes only now."""
    event = accepted.event
    past = indexes.erased.get(join_key(event.tenant_id))
    if past is None:
        return False
    subject = named_subject(accepted.fields["metadata"])
    at = accepted.instant // NS_PER_MS
    own, *others = marks_on(event.tenant_id, event.session_id, subject)
    return any(
        (at <= erased.at and not marks.isdisjoint((own, *others)))
        or (own in erased.newest and at <= erased.newest[own])
        for erased, marks in past.values()
    )
