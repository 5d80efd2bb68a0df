"""Assembly of a context pack from a retrieval plan and what was fetched for it (HMX-C §2).

The same request on the same state gives the same pack; the caller fills in `assembly_duration_ms`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, NamedTuple

from msgspec.structs import replace
from pydantic import TypeAdapter

from hmx_pipeline.compiler.knowledge.authority import authority_of, why
from hmx_pipeline.contracts.canonical import canonical_json
from hmx_pipeline.contracts.ids import content_id
from hmx_pipeline.contracts.limits import PACK_BYTES, PACK_DROPS
from hmx_pipeline.contracts.options import Filling, Section, SourceType
from hmx_pipeline.contracts.pack import (
    AssemblyMetadata,
    ContextPack,
    DecisionConstraint,
    Dropped,
    DropReason,
    Entry,
    QueryClassification,
    SectionBudget,
    TokenBudget,
)
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.packs import render
from hmx_pipeline.packs.assembly_strategies import fill_of, section_weight
from hmx_pipeline.packs.before_call import before_call
from hmx_pipeline.packs.budget import Allocation, Offer, allocate
from hmx_pipeline.packs.candidates import EntryCandidate, FaintCandidate, SaidElsewhere, duplicates, folds
from hmx_pipeline.packs.decision_constraints import decision_constraints
from hmx_pipeline.packs.excerpt import LongMessage
from hmx_pipeline.packs.explain import Drop, Offered, explained
from hmx_pipeline.packs.markdown import EMPTY, as_text
from hmx_pipeline.packs.pack_query import PackQuery, asked
from hmx_pipeline.packs.pack_view import PackView, view
from hmx_pipeline.packs.rendered import again
from hmx_pipeline.packs.sections import SECTIONS, SectionRule
from hmx_pipeline.packs.tokens import estimate
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.retrieval_plan import RetrievalPlan
from hmx_pipeline.retrieval.score import MemorySnapshot
from hmx_pipeline.segments.targets import CallTargets, targets_of

_ORDER: Final = attrgetter("order")
_NEVER: Final = format_ms(0)
_ESCAPED: Final = 6
"""Most bytes of a character in JSON."""
_FIELDS: Final = 400
"""More bytes than all else of an entry or drop takes: its fields' names, numbers and options."""
_ENTRIES: Final = TypeAdapter(list[Entry])  # for as many at once, half the time of a call each
_DROPPED: Final = TypeAdapter(list[Dropped])
_RULES: Final = frozenset({Section.CORE, Section.CONSTRAINTS})


def assemble(
    request: PackRequest, plan: RetrievalPlan, fetched: MemorySnapshot, call: CallTargets | None = None
) -> ContextPack:
    """`call`: the tool call that the pack is about, if it is."""
    ask = asked(request, plan, fetched)
    seen = view(ask, fetched)
    if call is None and (planned := request.before_call) is not None:
        call = CallTargets(targets_of(planned.tool, [planned.command] if planned.command else []))
    if call is not None:
        seen = before_call(seen, call)
    found: dict[SectionRule, list[EntryCandidate]] = {}
    faint: list[FaintCandidate] = []
    for rule in SECTIONS:
        if request.sections is None or rule.section in request.sections:
            helping = found[rule] = []
            for each in rule.candidates(seen):
                if isinstance(each, EntryCandidate):
                    helping.append(each)
                else:
                    faint.append(each)
            helping.sort(key=_ORDER)
    tellers = [each for ordered in found.values() for each in ordered if each.barred is None and each.events]
    spread = _spread(ask, found, tellers)
    kept = {each.key for each in spread.allocation.placed}
    if not spread.told_by <= kept:
        # Some entries did not fit, so what they said is said nowhere. Choose again without them.
        spread = _spread(ask, found, [each for each in tellers if each.key in kept])
    offered, allocation, drops, _ = spread
    drops += [Drop(each, DropReason.BUDGET_EXCEEDED, "no tokens were left for it") for each in allocation.dropped]
    return _Draft(ask, plan, fetched, seen, offered, allocation, faint).within_size(drops)


class _Spread(NamedTuple):
    offered: Offered
    allocation: Allocation
    drops: list[Drop]
    told_by: set[tuple[str, str, str]]
    """Keys of the candidates that made others duplicates."""


def _spread(
    ask: PackQuery, found: Mapping[SectionRule, Sequence[EntryCandidate]], tellers: Sequence[EntryCandidate]
) -> _Spread:
    """Drop duplicates and excluded candidates of each section, then spread the budget over the rest."""
    drops: list[Drop] = []
    offers: list[Offer] = []
    told, told_by = SaidElsewhere(tellers, ask.request.query), set[tuple[str, str, str]]()
    standing = [each for each in tellers if each.always]
    for rule, ordered in found.items():
        beside = standing if SourceType.EPISODE in rule.section.permitted else ()
        kept, dropped, by = _sift(ordered, beside, told, _short if ask.request.fill is Filling.RELEVANT else _whole)
        offers.append(Offer(rule.section, section_weight(ask.priors, rule.section, rule.weight), kept))
        drops += dropped
        told_by |= by
    offered = Offered(offers, fill_of(ask.request.strategy), ask.request.token_budget)
    return _Spread(offered, allocate(offers, offered.total, fill=offered.fill), drops, told_by)


def size_bound(pack: ContextPack) -> int:
    """Return what the pack's JSON has at most, for less than it costs to write entries and drops."""
    entries, drops = pack.entries, pack.dropped_entries or ()
    texts = [len(each.content) + len(each.provenance.origin) for each in entries]
    names = [len(each.source_id) for each in (*entries, *drops)]
    rest = pack.model_copy(update={"entries": [], "dropped_entries": None}).to_json()
    return len(rest) + _ESCAPED * (sum(texts) + sum(names)) + _FIELDS * (len(names) + 1)


def timed(pack: ContextPack, milliseconds: float, now_ms: int) -> ContextPack:
    """Return the pack with how long it took, and of a memory without events with the time at which it was asked."""
    metadata = pack.assembly_metadata.model_copy(update={"assembly_duration_ms": milliseconds})
    at = format_ms(now_ms) if pack.created_at == _NEVER else pack.created_at
    return pack.model_copy(update={"assembly_metadata": metadata, "created_at": at})


def _sift(
    ordered: Sequence[EntryCandidate],
    standing: Sequence[EntryCandidate],
    told: SaidElsewhere,
    shown_as: Callable[[EntryCandidate], EntryCandidate],
) -> tuple[list[EntryCandidate], list[Drop], set[tuple[str, str, str]]]:
    """Split a section's candidates: entries, drops (excluded, or duplicates), and the keys of the
    candidates that made others duplicates. Repetitions of one event become one entry."""
    drops: list[Drop] = []
    by: set[tuple[str, str, str]] = set()
    near = list(standing)
    for each in ordered:
        if each.barred is not None:
            drops.append(Drop(each, each.barred.reason, each.barred.because))
        elif told.by_question(each):
            drops.append(Drop(each, DropReason.DUPLICATE, "the question says the same"))
        elif (teller := told.by(each)) is not None:
            by.add(teller.key)
            drops.append(Drop(each, DropReason.DUPLICATE, f"{teller.source_id} says the same"))
        else:
            near.append(each)
    repeated = duplicates(near)
    shown = folds(near, repeated)
    instead = {i: members[0] for members in shown.values() for i in members[1:]}
    for i in sorted({*repeated, *instead} - shown.keys()):
        first = instead.get(i, repeated.get(i, i))
        by.add(near[first].key)
        drops.append(Drop(near[i], DropReason.DUPLICATE, f"{near[first].source_id} says the same"))
    gone = instead.keys() | (repeated.keys() - shown.keys())
    kept = [
        _again(shown_as(each), [near[j] for j in shown[i]]) if i in shown else shown_as(each)
        for i, each in enumerate(near)
        if i >= len(standing) and i not in gone
    ]
    return sorted(kept, key=_ORDER) if shown else kept, drops, by - {each.key for each in kept}


def _short(each: EntryCandidate) -> EntryCandidate:
    """Show a long message by its excerpt."""
    text = next(each.lines.shorter(), None) if isinstance(each.lines, LongMessage) else None
    return each if text is None else replace(each, text=text, tokens=estimate(text))


def _whole(each: EntryCandidate) -> EntryCandidate:
    return each


def _again(each: EntryCandidate, members: Sequence[EntryCandidate]) -> EntryCandidate:
    """Return one entry for all of them."""
    text = again(each.text, len(members), max(one.at for one in members))
    return replace(each, text=text, tokens=estimate(text), times=len(members))


@dataclass(frozen=True, slots=True)
class _Draft:
    """Everything of a pack except its entries and drops."""

    ask: PackQuery
    plan: RetrievalPlan
    fetched: MemorySnapshot
    view: PackView
    offered: Offered
    allocation: Allocation
    faint: Sequence[FaintCandidate]

    def within_size(self, drops: list[Drop]) -> ContextPack:
        """Return a pack of at most 256 KB (HMX-C §12): drop the least relevant entries first, then shorten the list of
        drops."""
        placed: Sequence[EntryCandidate] = self.allocation.placed
        listed = PACK_DROPS
        while True:
            pack = self._pack(placed, drops, listed)
            excess = 0 if size_bound(pack) <= PACK_BYTES else len(pack.to_json()) - PACK_BYTES
            if excess <= 0 or (not placed and not listed):
                return pack
            if not placed:
                listed //= 2
                continue
            gone: set[int] = set()
            for i in sorted(range(len(placed)), key=lambda i: (not placed[i].always, placed[i].order), reverse=True):
                if excess <= 0:
                    break
                gone.add(i)
                excess -= len(Entry(**_entry(1, placed[i])).to_json())
            too_large = "the pack would have had more than 256 KB"
            drops = [*drops, *(Drop(placed[i], DropReason.BUDGET_EXCEEDED, too_large) for i in sorted(gone))]
            placed = [candidate for i, candidate in enumerate(placed) if i not in gone]

    def _pack(self, placed: Sequence[EntryCandidate], drops: Sequence[Drop], listed: int) -> ContextPack:
        request = self.ask.request
        taken: Counter[str] = Counter()
        for candidate in placed:
            taken[candidate.section.value] += candidate.tokens
        used = taken.total()
        sections = {
            name: SectionBudget(budget=given.budget, used=taken[name])
            for name, given in self.allocation.section_budgets.items()
        }
        shown = self._listed(drops, listed)
        dropped = len(drops) + len(self.faint)
        return ContextPack(
            pack_id=self._pack_id(),
            query_context=request.query,
            entries=_ENTRIES.validate_python([_entry(*each) for each in enumerate(placed, 1)]),
            token_budget=TokenBudget(
                total_budget=request.token_budget,
                used=used,
                remaining=request.token_budget - used,
                truncated=any(candidate.is_cut for candidate in placed),
                section_budgets=sections,
                dropped_count=dropped,
            ),
            assembly_metadata=AssemblyMetadata(
                assembly_strategy=request.strategy,
                ranking_weights=self.ask.weights,
                retrieval_sources=sorted({candidate.provenance.origin for candidate in placed}),
                candidate_count=len(placed) + dropped,
                included_count=len(placed),
                assembly_duration_ms=0.0,
                query_classification=self._classification(),
            ),
            created_at=format_ms(self.ask.now),
            metadata=self._metadata(placed, shown),
            tenant_id=request.tenant_id,
            agent_id=request.agent_id,
            session_id=request.session_id,
            workflow_hints=render.hints(self.view.hints),
            decision_constraints=self._constraints() or None,
            dropped_entries=_DROPPED.validate_python([_dropped(*each) for each in enumerate(shown, len(placed) + 1)]),
            fingerprint_priors=self._priors(placed),
            tags=request.tags,
        )

    def _listed(self, drops: Sequence[Drop], listed: int) -> list[Drop]:
        """Return the best-ranked drops; their ranks continue after those of the entries (HMX-C §8)."""
        scores = [drop.candidate.score for drop in drops] + [each.score for each in self.faint]
        least = sorted(scores, reverse=True)[:listed][-1:] or [1.0]
        explains = self.ask.request.explain
        made = (each.make(each.scored) for each in self.faint if each.score >= least[0])
        found = [*drops, *(_faint(candidate, explains=explains) for candidate in made)]
        return sorted(found, key=lambda drop: (drop.candidate.order, drop.candidate.section))[:listed]

    def _pack_id(self) -> str:
        """Hash the state version, the tenant and all request parameters: the same question to the same state has the
        same id."""
        request = self.ask.request
        asked = request.model_dump(mode="json", exclude={"query_vector"})
        if self.plan.vector is not None:  # hex digits, because rendering thousands of numbers as JSON is slow
            asked["query_vector"] = [self.plan.vector.space, self.plan.vector.values.hex()]
        said = canonical_json(asked).decode()
        return content_id(self.fetched.newest, "pack", request.tenant_id, self.fetched.state_version, said)

    def _classification(self) -> QueryClassification:
        time = self.ask.time
        return self.plan.classification.model_copy(update={"time_ref": None if time is None else str(time)})

    def _metadata(self, placed: Sequence[EntryCandidate], shown: Sequence[Drop]) -> dict[str, Any]:
        metadata: dict[str, Any] = {"state_version": self.fetched.state_version, "sources": _sources(placed)}
        metadata |= self.fetched.completeness.metadata()
        held = self.fetched.newest or self.fetched.artifacts or self.fetched.knowledge or self.fetched.policies
        if not held and self.fetched.completeness.complete:
            metadata["memory_empty"] = True
        if self.fetched.failed:
            metadata["provenance_failed"] = list(self.fetched.failed)
        if self.view.precedents:
            named = sorted(self.view.precedents.items())
            metadata["precedents"] = {name: {"session_id": session} for name, session in named}
        if self.ask.request.as_text:
            said = as_text(placed, self.plan.classification.intent, frozenset(self.plan.terms))
            metadata["as_text"] = EMPTY if "memory_empty" in metadata else said
        if self.ask.request.explain:
            query, near = frozenset(self.plan.terms), frozenset(each.stem for each in self.plan.related)
            known = [each.source for each in self.view.knowledge if authority_of(each.source) is not None]
            told = {source.record_id: why(source) for source in known}
            reasons = explained(placed, shown, self.offered, self.ask.weights, query, near, told)
            metadata["explained"] = reasons.model_dump(mode="json", exclude_none=True)
        return metadata

    def _constraints(self) -> list[DecisionConstraint]:
        sections = self.ask.request.sections
        asked = sections is None or _RULES & set(sections)
        return [render.constraint(each) for each in decision_constraints(self.view)] if asked else []

    def _priors(self, placed: Sequence[EntryCandidate]) -> dict[str, Any] | None:
        """Return the priors of the sections, and of the patterns in the pack."""
        if self.ask.priors is None:
            return None
        patterns = self.ask.priors.get("patterns", {})
        used = sorted({each.pattern for each in placed if each.pattern in patterns})
        sections = self.ask.priors.get("sections", {})
        return {"sections": dict(sections), "patterns": {pattern: patterns[pattern] for pattern in used}}


def _faint(each: EntryCandidate, *, explains: bool) -> Drop:
    because = ""
    if explains:
        because = f"it answers {each.relevance:.2f} of the question, and here less than {each.least:.2f} is no help"
    return Drop(each, DropReason.LOW_RELEVANCE, because)


def _entry(rank: int, candidate: EntryCandidate) -> dict[str, Any]:
    return {
        "section": candidate.section,
        "content": candidate.text,
        "source_id": candidate.source_id,
        "source_type": candidate.source_type,
        "relevance_score": candidate.score,
        "token_estimate": candidate.tokens,
        "rank": rank,
        "provenance": candidate.provenance,
    }


def _dropped(rank: int, drop: Drop) -> dict[str, Any]:
    candidate = drop.candidate
    return {
        "source_id": candidate.source_id,
        "source_type": candidate.source_type,
        "section": candidate.section,
        "relevance_score": candidate.score,
        "token_estimate": candidate.tokens,
        "drop_reason": drop.reason,
        "rank": rank,
    }


def _sources(placed: Iterable[EntryCandidate]) -> dict[str, dict[str, str]]:
    """Map each episode to its session, because event ids are unique within a session only."""
    return {
        candidate.source_id: {"session_id": candidate.session_id}
        for candidate in placed
        if candidate.source_type is SourceType.EPISODE and candidate.session_id is not None
    }
