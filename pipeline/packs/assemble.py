"""A plan and what was fetched for it → a context pack (HMX-C §2). Pure.

The same request on the same state gives the same pack; only `assembly_duration_ms` is the caller's to fill in.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipeline.contracts.canonical import canonical_json
from pipeline.contracts.ids import content_id
from pipeline.contracts.instants import format_ms
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
from pipeline.packs.sections import SECTIONS
from pipeline.packs.view import LOW_RELEVANCE, View
from pipeline.packs.view import view as view_of
from pipeline.retrieval.plan import Plan
from pipeline.retrieval.request import PackRequest
from pipeline.retrieval.score import Fetched

Drop = tuple[Candidate, DropReason]


def assemble(request: PackRequest, plan: Plan, fetched: Fetched) -> ContextPack:
    now = fetched.newest if plan.as_of is None else min(plan.as_of, fetched.newest)
    view = view_of(request, fetched, now)
    wanted = [rule for rule in SECTIONS if request.sections is None or rule.section in request.sections]
    drops: list[Drop] = []
    offers: list[Offer] = []
    for rule in wanted:
        kept, dropped = _sift(sorted(rule.candidates(view), key=lambda c: c.order))
        offers.append(Offer(rule.section, rule.weight, kept))
        drops += dropped
    allocation = allocate(offers, request.token_budget)
    drops += [(candidate, DropReason.BUDGET_EXCEEDED) for candidate in allocation.dropped]
    draft = _Draft(request, plan, fetched, now, view, allocation.section_budgets)
    return draft.within_size(allocation.placed, drops)


def with_duration(pack: ContextPack, milliseconds: float) -> ContextPack:
    metadata = pack.assembly_metadata.model_copy(update={"assembly_duration_ms": milliseconds})
    return pack.model_copy(update={"assembly_metadata": metadata})


def _sift(ordered: Sequence[Candidate]) -> tuple[list[Candidate], list[Drop]]:
    """Apart from what is too far from the query, what must not be shown, and what a better one says already."""
    drops: list[Drop] = []
    near: list[Candidate] = []
    for candidate in ordered:
        if not candidate.always and candidate.relevance < LOW_RELEVANCE:
            drops.append((candidate, DropReason.LOW_RELEVANCE))
        elif candidate.barred is not None:
            drops.append((candidate, candidate.barred))
        else:
            near.append(candidate)
    repeated = duplicates(near)
    drops += [(candidate, DropReason.DUPLICATE) for i, candidate in enumerate(near) if i in repeated]
    return [candidate for i, candidate in enumerate(near) if i not in repeated], drops


@dataclass(frozen=True, slots=True)
class _Draft:
    """Everything of a pack but its entries and drops."""

    request: PackRequest
    plan: Plan
    fetched: Fetched
    now: int
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
            created_at=format_ms(self.now),
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
