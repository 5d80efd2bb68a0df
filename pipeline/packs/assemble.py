"""A plan and what was fetched for it → a context pack (HMX-C §2). Pure.

The same request on the same state gives the same pack; only `assembly_duration_ms` is the caller's to fill in.
"""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Final

from pipeline.compiler import task_schema
from pipeline.compiler.lifecycle import decayed
from pipeline.contracts.artifact import Artifact
from pipeline.contracts.canonical import canonical_json
from pipeline.contracts.ids import content_id
from pipeline.contracts.instants import format_ms
from pipeline.contracts.knowledge import KnowledgeRecord
from pipeline.contracts.limits import PACK_BYTES, PACK_DROPS
from pipeline.contracts.pack import (
    AssemblyMetadata,
    ContextPack,
    Dropped,
    DropReason,
    Entry,
    SectionBudget,
    SourceType,
    TokenBudget,
)
from pipeline.packs.budget import Offer, allocate
from pipeline.packs.candidates import Candidate, duplicates
from pipeline.packs.hints import workflow_hints
from pipeline.packs.sections import SECTIONS, Scored, View
from pipeline.retrieval.plan import Plan
from pipeline.retrieval.request import PackRequest
from pipeline.retrieval.score import Fetched, Found, artifact_components, document_components, knowledge_components

LOW_RELEVANCE: Final = 0.1
"""Of the best match; what answers the query less is dropped."""

Drop = tuple[Candidate, DropReason]


def assemble(request: PackRequest, plan: Plan, fetched: Fetched) -> ContextPack:
    view = _view(request, fetched)
    wanted = [rule for rule in SECTIONS if request.sections is None or rule.section in request.sections]
    drops: list[Drop] = []
    offers: list[Offer] = []
    stale = {found.source.artifact_id for found in fetched.artifacts if decayed(found.source, fetched.newest)}
    for rule in wanted:
        kept, dropped = _sift(sorted(rule.candidates(view), key=lambda c: c.order), stale)
        offers.append(Offer(rule.section, rule.weight, kept))
        drops += dropped
    allocation = allocate(offers, request.token_budget)
    drops += [(candidate, DropReason.BUDGET_EXCEEDED) for candidate in allocation.dropped]
    draft = _Draft(request, plan, fetched, view, allocation.section_budgets)
    return draft.within_size(allocation.placed, drops)


def with_duration(pack: ContextPack, milliseconds: float) -> ContextPack:
    metadata = pack.assembly_metadata.model_copy(update={"assembly_duration_ms": milliseconds})
    return pack.model_copy(update={"assembly_metadata": metadata})


def _view(request: PackRequest, fetched: Fetched) -> View:
    """Scores everything; what is below the asked confidence or not for this agent is no candidate."""
    highest = max((found.bm25 for found in fetched.artifacts), default=1)
    artifacts: list[Scored[Artifact]] = []
    for found in fetched.artifacts:
        if found.source.confidence >= request.min_confidence and _applies(found.source, request):
            parts = artifact_components(found, highest, fetched.newest)
            artifacts.append(Scored(found.source, parts.score(request.weights), parts.relevance))
    highest = max((found.bm25 for found in fetched.episodes), default=1)
    episodes = []
    for episode in fetched.episodes:
        if episode.source.expires is None or episode.source.expires > fetched.newest:
            parts = document_components(episode, highest, fetched.newest)
            episodes.append(Scored(episode.source, parts.score(request.weights), parts.relevance))
    schemas = [
        a
        for a in artifacts
        if a.source.artifact_type == task_schema.NAME
        and a.relevance >= LOW_RELEVANCE
        and not decayed(a.source, fetched.newest)
    ]
    schema = min(schemas, key=lambda a: (-a.relevance, a.source.artifact_id), default=None)
    hints = workflow_hints(schema.source, fetched.session) if schema else None
    return View(tuple(artifacts), tuple(episodes), _known(request, fetched), schema, hints)


def _known(request: PackRequest, fetched: Fetched) -> tuple[Scored[KnowledgeRecord], ...]:
    """What holds and answers the query, and every policy."""
    highest = max((found.bm25 for found in fetched.knowledge), default=1)
    answering = {found.source.record_id for found in fetched.knowledge}
    standing = [Found(policy, 0) for policy in fetched.policies if policy.record_id not in answering]
    known = []
    for found in (*fetched.knowledge, *standing):
        if found.source.confidence >= request.min_confidence:
            parts = knowledge_components(found, highest, fetched.newest)
            known.append(Scored(found.source, parts.score(request.weights), parts.relevance))
    return tuple(known)


def _applies(source: Artifact, request: PackRequest) -> bool:
    """HMX-A §6."""
    scope = source.validity_scope
    if scope is None:
        return True
    agents, tenants = scope.agent_ids, scope.tenant_ids
    return (not tenants or request.tenant_id in tenants) and (
        not agents or request.agent_id is None or request.agent_id in agents
    )


def _sift(ordered: Sequence[Candidate], stale: Set[str]) -> tuple[list[Candidate], list[Drop]]:
    """Apart from what is too far from the query, from what a better one says already, and from artifacts whose evidence
    has decayed (HMX-A §5): their ids are `stale`."""
    drops = [(c, DropReason.LOW_RELEVANCE) for c in ordered if not c.always and c.relevance < LOW_RELEVANCE]
    near = [candidate for candidate in ordered if candidate.always or candidate.relevance >= LOW_RELEVANCE]
    drops += [(candidate, DropReason.DEPRECATED) for candidate in near if candidate.source_id in stale]
    near = [candidate for candidate in near if candidate.source_id not in stale]
    repeated = duplicates(near)
    drops += [(candidate, DropReason.DUPLICATE) for i, candidate in enumerate(near) if i in repeated]
    return [candidate for i, candidate in enumerate(near) if i not in repeated], drops


@dataclass(frozen=True, slots=True)
class _Draft:
    """Everything of a pack but its entries and drops."""

    request: PackRequest
    plan: Plan
    fetched: Fetched
    view: View
    section_budgets: dict[str, SectionBudget]

    def within_size(self, placed: Sequence[Candidate], drops: list[Drop]) -> ContextPack:
        """The pack of at most 256 KB (HMX-C §12): the least relevant entries go first, then listed drops."""
        listed = PACK_DROPS
        while True:
            pack = self._pack(placed, drops, listed)
            excess = len(pack.to_json()) - PACK_BYTES
            if excess <= 0 or (not placed and not listed):
                return pack
            if not placed:
                listed //= 2
                continue
            gone: set[int] = set()
            for i in sorted(range(len(placed)), key=lambda i: placed[i].order, reverse=True):
                if excess <= 0:
                    break
                gone.add(i)
                excess -= len(_entry(placed[i], 1).to_json())
            drops = [*drops, *((placed[i], DropReason.BUDGET_EXCEEDED) for i in sorted(gone))]
            placed = [candidate for i, candidate in enumerate(placed) if i not in gone]

    def _pack(self, placed: Sequence[Candidate], drops: Sequence[Drop], listed: int) -> ContextPack:
        used = sum(candidate.tokens for candidate in placed)
        sections = {
            name: SectionBudget(budget=given.budget, used=sum(c.tokens for c in placed if c.section == name))
            for name, given in self.section_budgets.items()
        }
        request = self.request
        return ContextPack(
            pack_id=self._pack_id(),
            query_context=request.query,
            entries=[_entry(candidate, rank) for rank, candidate in enumerate(placed, 1)],
            token_budget=TokenBudget(
                total_budget=request.token_budget,
                used=used,
                remaining=request.token_budget - used,
                truncated=any(candidate.is_cut for candidate in placed),
                section_budgets=sections,
                dropped_count=len(drops),
            ),
            assembly_metadata=AssemblyMetadata(
                assembly_strategy=request.strategy,
                ranking_weights=request.weights,
                retrieval_sources=sorted({candidate.provenance.origin for candidate in placed}),
                candidate_count=len(placed) + len(drops),
                included_count=len(placed),
                assembly_duration_ms=0.0,
                query_classification=self.plan.classification,
            ),
            created_at=format_ms(self.fetched.newest),
            metadata={"state_version": self.fetched.state_version, "sources": _sources(placed)},
            tenant_id=request.tenant_id,
            agent_id=request.agent_id,
            session_id=request.session_id,
            workflow_hints=self.view.hints,
            dropped_entries=_dropped(drops, len(placed), listed),
            tags=request.tags,
        )

    def _pack_id(self) -> str:
        """Of the state's version and every request parameter with the tenant: the same question to the same state."""
        asked = canonical_json(self.request.model_dump(mode="json")).decode()
        return content_id(self.fetched.newest, "pack", self.request.tenant_id, self.fetched.state_version, asked)


def _entry(candidate: Candidate, rank: int) -> Entry:
    return Entry(
        section=candidate.section,
        content=candidate.text,
        source_id=candidate.source_id,
        source_type=candidate.source_type,
        relevance_score=candidate.score,
        token_estimate=candidate.tokens,
        rank=rank,
        provenance=candidate.provenance,
    )


def _dropped(drops: Sequence[Drop], entries: int, listed: int) -> list[Dropped]:
    """The best-ranked; ranks go on where the entries' end (HMX-C §8)."""
    ranked = sorted(drops, key=lambda drop: (drop[0].order, drop[0].section))[:listed]
    return [
        Dropped(
            source_id=candidate.source_id,
            source_type=candidate.source_type,
            section=candidate.section,
            relevance_score=candidate.score,
            token_estimate=candidate.tokens,
            drop_reason=reason,
            rank=rank,
        )
        for rank, (candidate, reason) in enumerate(ranked, entries + 1)
    ]


def _sources(placed: Iterable[Candidate]) -> dict[str, dict[str, str]]:
    """An event's id is unique within its session: where to look each episode up."""
    return {
        candidate.source_id: {"session_id": candidate.session_id}
        for candidate in placed
        if candidate.source_type is SourceType.EPISODE and candidate.session_id is not None
    }
