"""Sections of a pack: each one's share of the budget, and its entry candidates from the pack view (HMX-C §3.1, §4).

A new section is a row of `contracts.options.Section` and its rule here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final, TypeVar

import msgspec

from hmx_pipeline.compiler import task_schema
from hmx_pipeline.compiler.knowledge.claim_names import USER
from hmx_pipeline.compiler.registry import ARTIFACT_TYPES
from hmx_pipeline.contracts.agent_types import ASIDE, SHELVES
from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.event_rows import Shelf
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.keys import CONTROL_PREFIX
from hmx_pipeline.contracts.knowledge import KnowledgeRecord, Memory
from hmx_pipeline.contracts.options import Kind, Section, SourceType
from hmx_pipeline.contracts.pack import DropReason, Provenance
from hmx_pipeline.packs import render, rendered, skills
from hmx_pipeline.packs.candidates import EntryCandidate, Exclusion, FaintCandidate, Scored
from hmx_pipeline.packs.entry_lines import EntryLines
from hmx_pipeline.packs.excerpt import LONG, LongMessage
from hmx_pipeline.packs.pack_view import PackView
from hmx_pipeline.packs.rendered import RenderedEntry
from hmx_pipeline.retrieval.searchable import Document

Source = TypeVar("Source")


@dataclass(frozen=True, slots=True)
class SectionRule:
    section: Section
    weight: int
    """Its share of the budget: this divided by the weights of all sections that have candidates."""
    candidates: Callable[[PackView], "Found"]


Found = Iterator[EntryCandidate | FaintCandidate]
_EPISODE: Final = SourceType.EPISODE  # looking up a member takes as long as a call
_SPOKEN: Final = frozenset({Role.MESSAGE, Role.DECISION})


def _core(view: PackView) -> Found:
    """Standing instructions, in every pack."""
    return _known(view, Section.CORE, lambda record: record.kind is Kind.POLICY, always=True)


def _goals(view: PackView) -> Found:
    return _known(view, Section.GOALS, _is_goal)


def _facts(view: PackView) -> Found:
    """Facts on people and things, and users' corrections."""
    return _known(
        view,
        Section.FACTS,
        lambda record: (
            (record.kind is Kind.ENTITY and _shelf(record) is Shelf.FACT)
            or (record.kind is Kind.MEMORY and not _is_goal(record))
        ),
    )


def _relations(view: PackView) -> Found:
    """Relations, and what memory does not know. What is only said or doubted of skills and claims is on request."""

    def belongs(record: KnowledgeRecord) -> bool:
        if record.kind not in (Kind.RELATION, Kind.ENTITY):
            return False
        shelf = _shelf(record)
        usual = Shelf.FACT if record.kind is Kind.RELATION else Shelf.QUESTION
        return shelf is usual or (shelf is Shelf.DIAGNOSTIC and view.diagnoses)

    return _known(view, Section.GRAPH_RELATIONS, belongs)


def _shelf(record: KnowledgeRecord) -> Shelf:
    if record.kind is Kind.ENTITY:
        return SHELVES.get(record.body.get("entity_type", ""), Shelf.FACT)
    return Shelf.DIAGNOSTIC if record.body.get("relation") in ASIDE else Shelf.FACT


def _conflicts(view: PackView) -> Found:
    return _known(view, Section.CONFLICTS, lambda record: record.kind is Kind.CONFLICT)


def _is_goal(record: KnowledgeRecord) -> bool:
    return record.kind is Kind.MEMORY and record.body.get("memory") == Memory.GOAL


def _constraints(view: PackView) -> Found:
    return _compiled(view, Section.CONSTRAINTS)


def _procedures(view: PackView) -> Found:
    """Compiled procedures, and the skills that apply; those that nobody has validated on request."""
    yield from _compiled(view, Section.PROCEDURES)
    found = (one for one in view.knowledge if one.source.kind is Kind.ENTITY and _shelf(one.source) is Shelf.PROCEDURE)
    shown = 0
    for scored in sorted(found, key=lambda one: (-one.score, one.source.record_id)):
        why, applies = skills.excluded(scored.source), skills.is_applicable(scored.source)
        if not why and not applies and not view.diagnoses:
            continue
        if applies and scored.barred is None and scored.helps:
            shown += 1
            why = f"{skills.SHOWN} better skills are shown" if shown > skills.SHOWN else ""
        barred = scored.barred or (Exclusion(DropReason.DEPRECATED, why) if why else None)
        one = msgspec.structs.replace(scored, barred=barred)
        yield from _offered([one], _record, Section.PROCEDURES, SourceType.MEMORY)


def _episodes(view: PackView) -> Found:
    """Messages and decisions."""
    said = [one for one in view.episodes if one.source.role in _SPOKEN]
    return _offered(said, _episode, Section.EPISODES, view)


def _workflow(view: PackView) -> Found:
    """The next steps of the procedure, once the session has begun it. Before that, the procedure itself says them."""
    if view.schema is None or view.hints is None or (view.hints.current_step or 1) == 1:
        return
    source = view.schema.source
    steps = [step for step in view.hints.suggested_next_steps if step.artifact_id == source.artifact_id]
    if steps:
        hints = view.hints.model_copy(update={"suggested_next_steps": steps})
        text = render.workflow(source.title, hints)
        yield _artifact(Section.WORKFLOW, view.schema, rendered.shown(text, text))


def _evidence(view: PackView) -> Found:
    """Observations: errors, failed actions, feedback, changes."""
    seen = [one for one in view.episodes if one.source.role not in _SPOKEN]
    return _offered(seen, _episode, Section.EVIDENCE, view)


SECTIONS: Final = (
    SectionRule(Section.CORE, 10, _core),
    SectionRule(Section.CONSTRAINTS, 10, _constraints),
    SectionRule(Section.GOALS, 5, _goals),
    SectionRule(Section.PROCEDURES, 35, _procedures),
    SectionRule(Section.FACTS, 20, _facts),
    SectionRule(Section.EPISODES, 40, _episodes),
    SectionRule(Section.GRAPH_RELATIONS, 5, _relations),
    SectionRule(Section.WORKFLOW, 5, _workflow),
    SectionRule(Section.CONFLICTS, 5, _conflicts),
    SectionRule(Section.EVIDENCE, 20, _evidence),
)
"""The order of HMX-C §3.3."""
assert {rule.section for rule in SECTIONS} == set(Section), "every section needs a rule"

ORIGINS: Final = {
    SourceType.ARTIFACT: "compiler",
    SourceType.EPISODE: "episodic",
    SourceType.MEMORY: "semantic",
    SourceType.POLICY: "semantic",
    SourceType.CONFLICT: "semantic",
    SourceType.ENTITY: "graph",
    SourceType.RELATION: "graph",
}
"""Provenance and retrieval source by source type (HMX-C §5)."""
IMPORTED: Final = "fingerprint"
"""Provenance of an imported artifact."""


def _compiled(view: PackView, section: Section) -> Found:
    """The artifacts whose type belongs to this section."""
    belonging = [scored for scored in view.artifacts if _section_of(scored.source.artifact_type) is section]
    return _offered(belonging, _bound, section, view)


def _bound(section: Section, view: PackView, scored: Scored[Artifact]) -> EntryCandidate:
    given = view.bound.get(scored.source.artifact_id)
    if given is not None and given.sure:
        told = rendered.artifact(scored.source, given.sure)
    else:
        told = rendered.kept(scored.made, rendered.artifact, scored.source)
    return _artifact(section, scored, told, EntryLines(told.text, view.asked, fails=view.fails))


def _section_of(artifact_type: str) -> Section | None:
    """Return the section of an artifact type. Custom types that are not registered (HMX-A §3) come from imports and
    go to procedures; control types have none."""
    kind = ARTIFACT_TYPES.get(artifact_type)
    if kind is not None:
        return kind.section
    return None if artifact_type.startswith(CONTROL_PREFIX) else Section.PROCEDURES


def _known(
    view: PackView, section: Section, belongs: Callable[[KnowledgeRecord], bool], *, always: bool = False
) -> Found:
    for scored in view.knowledge:
        if belongs(scored.source):
            kind = SourceType(scored.source.kind)
            if always:
                yield _record(section, kind, scored, always=True)
            else:
                yield from _offered([scored], _record, section, kind)


def _offered(found: Iterable[Scored[Any]], made: Callable[..., EntryCandidate], *of: Any) -> Found:
    """Yield the candidates of sources that help; the others are faint."""
    make = partial(made, *of)
    for scored in found:
        yield make(scored) if scored.helps else FaintCandidate(scored.score, make, scored)


def _record(
    section: Section, kind: SourceType, scored: Scored[KnowledgeRecord], *, always: bool = False
) -> EntryCandidate:
    source = scored.source
    return _candidate(
        section,
        source.record_id,
        kind,
        scored,
        rendered.kept(scored.made, rendered.knowledge, source),
        _provenance(ORIGINS[kind], source.confidence, len(source.source_events)),
        source.pattern,
        events=source.source_events,
        always=always,
    )


def _artifact(
    section: Section, scored: Scored[Artifact], told: RenderedEntry, lines: EntryLines | None = None
) -> EntryCandidate:
    source = scored.source
    count = source.observed_count if source.observed_count is not None else len(source.source_events)
    origin = IMPORTED if "imported" in source.metadata else ORIGINS[SourceType.ARTIFACT]
    provenance, pattern = _provenance(origin, source.confidence, count), str(source.metadata.get("pattern", ""))
    # A procedure begins with what users asked for, but does not repeat its other sources.
    events = source.source_events if source.artifact_type == task_schema.NAME else ()
    return _candidate(
        section, source.artifact_id, SourceType.ARTIFACT, scored, told, provenance, pattern, events=events, lines=lines
    )


def _episode(section: Section, view: PackView, scored: Scored[Document]) -> EntryCandidate:
    source = scored.source
    told = rendered.kept(scored.made, rendered.episode, source)
    return _candidate(
        section,
        source.event_id,
        _EPISODE,
        scored,
        told,
        _HAPPENED,
        session_id=source.session_id,
        at=source.at,
        asks=source.actor == USER and source.role is Role.MESSAGE,
        lines=LongMessage(source, view.weights, told) if told.tokens > LONG else None,
    )


def _candidate(
    section: Section,
    source_id: str,
    source_type: SourceType,
    scored: Scored[Source],
    told: RenderedEntry,
    provenance: Provenance,
    pattern: str = "",
    session_id: str | None = None,
    *,
    events: Sequence[str] = (),
    at: int = 0,
    asks: bool = False,
    always: bool = False,
    lines: EntryLines | LongMessage | None = None,
) -> EntryCandidate:
    assert source_type in section.permitted
    # What does not help is compared with nothing.
    said, mark = told.told(source_type is _EPISODE) if always or scored.helps else ("", None)
    return EntryCandidate(
        section,
        source_id,
        source_type,
        scored.score,
        scored.relevance,
        told.text,
        said,
        told.tokens,
        provenance,
        session_id,
        scored.least,
        scored.barred,
        scored.parts,
        pattern,
        at,
        1,
        asks,
        tuple(events),
        always,
        scored.past,
        False,
        mark,
        lines,
    )


@lru_cache(1_024)
def _provenance(origin: str, confidence: float, evidence_count: int) -> Provenance:
    return Provenance(origin=origin, confidence=confidence, evidence_count=evidence_count)


_HAPPENED: Final = _provenance(ORIGINS[SourceType.EPISODE], 1.0, 1)
"""An episode is certain and has one source."""
