"""From what a pattern's contributions say to records, and from what was said last to what is to be said now.

`records` is a function of the map alone, ids too: the same map gives the same bytes, whatever way led there (law 5).
Only what is no longer said remembers the way: it was withdrawn at some moment. Nothing fails.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from pipeline.compiler.candidate import alone, counting
from pipeline.compiler.knowledge.model import KnowledgeKind, Statement, Under
from pipeline.compiler.registry import KINDS
from pipeline.contracts.artifact import TimeRange
from pipeline.contracts.evidence import Contribution, Pattern
from pipeline.contracts.ids import content_id
from pipeline.contracts.instants import format_ms
from pipeline.contracts.knowledge import KnowledgeRecord, Standing
from pipeline.contracts.limits import KNOWLEDGE_SOURCES, WITHDRAWN_RECORDS

_TIMELESS: Final = 0
"""An id must not move when earlier evidence comes later."""


def _none(_: str, __: bool) -> Sequence[Contribution]:
    return ()


def records(
    contributions: Sequence[Contribution], pattern: Pattern | None = None, under: Under = _none
) -> list[KnowledgeRecord]:
    """Of one pattern's map, in any order; by id. `pattern`: what they make, else what they are of. `under`: the
    tenant's endings by their form."""
    kept = counting(contributions)
    if not kept:
        return []
    about = pattern or kept[0].pattern
    kind = KINDS[about.type]
    if not isinstance(kind, KnowledgeKind):
        return []
    beside = kind.beside(kept, lambda key, chained: counting(under(key, chained)))
    found = [_record(kept[0].tenant_id, about, statement) for statement in kind.state(kept, beside)]
    return sorted(found, key=lambda record: record.record_id)


def _record(tenant_id: str, about: Pattern, said: Statement) -> KnowledgeRecord:
    events = list(dict.fromkeys(said.source_events))
    body = dict(said.body)
    if len(events) > KNOWLEDGE_SOURCES:
        body["source_events_omitted"] = len(events) - KNOWLEDGE_SOURCES
    return KnowledgeRecord(
        record_id=_id(tenant_id, about, said.name),
        kind=said.kind,
        tenant_id=tenant_id,
        pattern=about.text,
        text=said.text,
        body=body,
        confidence=said.confidence,
        status=said.standing,
        source_events=events[-KNOWLEDGE_SOURCES:],
        source_memory_ids=[c.contribution_id for c in said.sources][-KNOWLEDGE_SOURCES:],
        tags=sorted(set.intersection(*(set(c.lineage_tags) for c in said.sources))),
        session_id=alone(c.session_id for c in said.sources) or None,
        agent_id=alone(c.agent_id for c in said.sources) or None,
        created_at=format_ms(said.start),
        validity=TimeRange(start=format_ms(said.start), end=None if said.end is None else format_ms(said.end)),
        superseded_by=_id(tenant_id, about, said.superseded_by) if said.superseded_by else None,
    )


def _id(tenant_id: str, about: Pattern, name: str) -> str:
    return content_id(_TIMELESS, "knowledge", tenant_id, about.type, about.key, name)


class Known(NamedTuple):
    """What a pattern has said: its records as they stand, and the ids of those that it has withdrawn, oldest first."""

    records: list[KnowledgeRecord]
    withdrawn: list[str]


def difference(
    known: Known, now: Sequence[KnowledgeRecord], now_ms: int
) -> tuple[Known, list[KnowledgeRecord], list[str]]:
    """What is known from now on, the records to publish, and the ids of those to erase."""
    before = {record.record_id: record for record in known.records}
    said = {record.record_id for record in now}
    gone = [_withdrawn(record, now_ms) for record in known.records if record.record_id not in said]
    fresh = [record for record in now if before.get(record.record_id) != record]
    withdrawn = [i for i in known.withdrawn if i not in said] + [record.record_id for record in gone]
    surplus = withdrawn[:-WITHDRAWN_RECORDS] if len(withdrawn) > WITHDRAWN_RECORDS else []
    return Known(list(now), withdrawn[len(surplus) :]), gone + fresh, surplus


def _withdrawn(record: KnowledgeRecord, now_ms: int) -> KnowledgeRecord:
    """It ended when its evidence did, unless something had ended it before."""
    validity = record.validity or TimeRange()
    ended = validity if validity.end is not None else TimeRange(start=validity.start, end=format_ms(now_ms))
    return record.model_copy(update={"status": Standing.WITHDRAWN, "validity": ended})
