"""Knowledge records of a pattern, and the difference to those published before.

Input: a pattern's contributions in any order, its rulings, the tenant's trust and endings. Output: its records by id
(`records`); then which to publish and which ids to erase, given those before (`difference`). Records and their ids
depend on the pattern's map alone: the same map gives the same bytes (law 5). Only withdrawn records depend on history,
because their end is the time of withdrawal.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

from hmx_pipeline.compiler.candidate import alone, counting
from hmx_pipeline.compiler.knowledge.authority import SHOWN, Trust
from hmx_pipeline.compiler.knowledge.knowledge_kind import KnowledgeKind, Statement, Under
from hmx_pipeline.compiler.knowledge.rulings import ruled, without_claimed
from hmx_pipeline.compiler.knowledge.scopes import in_scope, scope_key, scope_of
from hmx_pipeline.compiler.registry import KINDS
from hmx_pipeline.contracts.artifact import UNCONFIRMED, TimeRange
from hmx_pipeline.contracts.evidence import Contribution, Pattern, mean_salience
from hmx_pipeline.contracts.knowledge import KnowledgeRecord, knowledge_id
from hmx_pipeline.contracts.limits import KNOWLEDGE_SOURCES, WITHDRAWN_RECORDS
from hmx_pipeline.contracts.options import Standing
from hmx_pipeline.contracts.ruling import Ruling
from hmx_pipeline.contracts.timestamps import format_ms

_NONE_CLAIMED: Final[Mapping[str, int]] = MappingProxyType({})


def _none(_: str, __: bool) -> Sequence[Contribution]:
    return ()


def records(
    contributions: Sequence[Contribution],
    pattern: Pattern | None = None,
    under: Under = _none,
    *,
    rulings: Sequence[Ruling] = (),
    trust: Trust | None = None,
    team: bool = False,
    taken_back: Container[str] = (),
    claimed: Mapping[str, int] = _NONE_CLAIMED,
) -> list[KnowledgeRecord]:
    """Make the records of one pattern's map, sorted by id. The order of the contributions does not matter.

    `pattern`: None stands for the pattern of the contributions. `under`: looks up the tenant's endings by form.
    `rulings`: the pattern's rulings, which hold without evidence too. `trust`: None unless the tenant names subjects or
    trusted agents. `team`: True if the tenant's subjects share what is not their own. `taken_back`: ids of private
    records that no longer hold; what their subjects said of them does not count. `claimed`: ids of the tenant's
    contributions whose sessions got their subject late → when.
    """
    kept: Sequence[Contribution] = counting(contributions)
    if not kept and not rulings:
        return []
    about = pattern or kept[0].pattern
    kind = KINDS[about.type]
    if not isinstance(kind, KnowledgeKind):
        return []
    tenant_id = kept[0].tenant_id if kept else ""
    if taken_back and kind.items:
        kept = [each for one in kept if (each := _testifying(kind, about, one, taken_back)) is not None]
    stated = _stated(kind, about, kept, under, trust, team=team)
    if claimed and rulings and not scope_of(about.key)[0]:
        shared = {source.contribution_id for statement in stated for source in statement.sources}
        rulings = [without_claimed(ruling, claimed, shared) for ruling in rulings]
    found = [_record(tenant_id, about, statement) for statement in stated]
    return sorted(ruled(found, rulings, rivals=kind.rivals), key=lambda record: record.record_id)


def _testifying(
    kind: KnowledgeKind, about: Pattern, c: Contribution, taken_back: Container[str]
) -> Contribution | None:
    """Return the contribution without what its subject has taken back; None if nothing remains."""
    if not c.subject:
        return c
    own = Pattern(about.type, scope_key(c.subject, about.key))
    told = [
        one
        for one in c.body[kind.items]
        if knowledge_id(c.tenant_id, own, kind.whole or kind.named(one)) not in taken_back
    ]
    if len(told) == len(c.body[kind.items]):
        return c
    return c.saying(**{kind.items: told}) if told else None


def _stated(
    kind: KnowledgeKind, about: Pattern, kept: Sequence[Contribution], under: Under, trust: Trust | None, *, team: bool
) -> list[Statement]:
    """Return what the contributions state together, within the pattern's scope."""
    if not kept:
        return []
    if kind.made_of:  # such a pattern is not compiled again when trust changes
        trust = Trust() if any(one.subject for one in kept) else None
    beside: Sequence[Contribution] = kind.beside(kept, lambda key, chained: counting(under(key, chained)))
    shared = not team and not scope_of(about.key)[0]
    if trust is not None:
        kept = [trust.ranked(one, shared=shared) for one in kept]
        kept = [one for one in kept if not kind.items or one.body[kind.items]]
    if kind.items:
        kept, beside = in_scope(kind, about.key, kept, beside, team=team)
    said = kind.state(kept, beside) if kept else []
    return said if trust is None else [_with_authority(one, trust, shared=shared) for one in said]


def _with_authority(said: Statement, trust: Trust, *, shared: bool) -> Statement:
    authority = trust.of(said.body.get("said_by"), said.sources)
    more = {} if not shared or trust.confirmed(said, authority) else {UNCONFIRMED: True}
    return replace(said, body={**said.body, SHOWN: authority.value, **more})


def _record(tenant_id: str, about: Pattern, said: Statement) -> KnowledgeRecord:
    events = list(dict.fromkeys(said.source_events))
    body = dict(said.body)
    if (salience := mean_salience(c.salience for c in said.sources)) is not None:
        body["salience"] = salience
    if len(events) > KNOWLEDGE_SOURCES:
        body["source_events_omitted"] = len(events) - KNOWLEDGE_SOURCES
    return KnowledgeRecord(
        record_id=knowledge_id(tenant_id, about, said.name),
        kind=said.kind,
        tenant_id=tenant_id,
        pattern=about.text,
        text=said.text,
        body=body,
        confidence=said.confidence,
        status=said.standing,
        source_events=events[-KNOWLEDGE_SOURCES:],
        source_memory_ids=_sources(said),
        tags=sorted(set.intersection(*(set(c.lineage_tags) for c in said.sources))),
        session_id=alone(c.session_id for c in said.sources) or None,
        agent_id=alone(c.agent_id for c in said.sources) or None,
        created_at=format_ms(said.start),
        validity=TimeRange(start=format_ms(said.start), end=None if said.end is None else format_ms(said.end)),
        superseded_by=knowledge_id(tenant_id, about, said.superseded_by) if said.superseded_by else None,
        subject_id=said.subject or scope_of(about.key)[0] or None,
    )


def _sources(said: Statement) -> list[str]:
    ids = [c.contribution_id for c in said.sources]
    named_by = [] if said.named_by is None else [said.named_by.contribution_id]
    return named_by + ids[len(named_by) - KNOWLEDGE_SOURCES :]


class PublishedRecords(NamedTuple):
    """What a pattern has published: the current records, and the ids of withdrawn ones, oldest first."""

    records: list[KnowledgeRecord]
    withdrawn: list[str]


def difference(
    known: PublishedRecords, now: Sequence[KnowledgeRecord], now_ms: int
) -> tuple[PublishedRecords, list[KnowledgeRecord], list[str]]:
    """Return the new published state, the records to publish, and the ids of those to erase."""
    before = {record.record_id: record for record in known.records}
    said = {record.record_id for record in now}
    gone = [_withdrawn(record, now_ms) for record in known.records if record.record_id not in said]
    changed = [record for record in (*gone, *now) if before.get(record.record_id) != record]
    withdrawn = [i for i in known.withdrawn if i not in said] + [record.record_id for record in gone]
    surplus = withdrawn[:-WITHDRAWN_RECORDS] if len(withdrawn) > WITHDRAWN_RECORDS else []
    return PublishedRecords(list(now), withdrawn[len(surplus) :]), changed, surplus


def _withdrawn(record: KnowledgeRecord, now_ms: int) -> KnowledgeRecord:
    """Withdraw a record. It ends now, unless it ended earlier."""
    validity = record.validity or TimeRange()
    ended = validity if validity.end is not None else TimeRange(start=validity.start, end=format_ms(now_ms))
    return record.model_copy(update={"status": Standing.WITHDRAWN, "validity": ended})
