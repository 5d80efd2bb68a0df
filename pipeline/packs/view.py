"""What of all that was fetched a pack may choose from, each with its score and, where it must not be shown, why. Pure.

Enters: a request and what was fetched for it. Leaves: a `View`; of what does not concern the request at all (drafts,
what is for others, what came later than the time asked for) nothing. Nothing fails.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from pipeline.compiler import task_schema
from pipeline.compiler.lifecycle import decayed, status_at
from pipeline.contracts.artifact import Artifact, Status
from pipeline.contracts.instants import milliseconds
from pipeline.contracts.knowledge import HOLDS, KnowledgeRecord, Standing
from pipeline.contracts.knowledge import Kind as Known
from pipeline.contracts.pack import DropReason, WorkflowHints
from pipeline.packs.hints import workflow_hints
from pipeline.retrieval.documents import Document
from pipeline.retrieval.plan import ARTIFACTS, EPISODES, KNOWLEDGE
from pipeline.retrieval.request import PackRequest, Past
from pipeline.retrieval.score import (
    Components,
    Fetched,
    Found,
    artifact_components,
    document_components,
    knowledge_components,
)

LOW_RELEVANCE: Final = 0.1
"""Of the best match; what answers the query less is dropped."""

Source = TypeVar("Source")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Scored(Generic[Source]):
    source: Source
    parts: Components
    score: float
    barred: DropReason | None = None
    """Why it must not be shown, whatever its score."""

    @property
    def relevance(self) -> float:
        return self.parts.relevance


@dataclass(frozen=True, slots=True)
class View:
    """All that sections choose from."""

    artifacts: tuple[Scored[Artifact], ...]
    episodes: tuple[Scored[Document], ...]
    knowledge: tuple[Scored[KnowledgeRecord], ...]
    schema: Scored[Artifact] | None
    """The task_schema that matches best; `hints` are made of it."""
    hints: WorkflowHints | None


def view(request: PackRequest, fetched: Fetched, now: int) -> View:
    """`now`: the newest event time, or the time asked for."""
    artifacts = _artifacts(request, fetched, now)
    schemas = [
        found
        for found in artifacts
        if found.source.artifact_type == task_schema.NAME
        and found.relevance >= LOW_RELEVANCE
        and found.barred is None
        and (request.as_of is not None or found.source.status is Status.ACTIVE)
    ]
    schema = min(schemas, key=lambda a: (-a.relevance, a.source.artifact_id), default=None)
    session = [step for step in fetched.session if request.as_of is None or step.at <= now]
    hints = workflow_hints(schema.source, session) if schema else None
    return View(artifacts, _episodes(request, fetched, now), _known(request, fetched, now), schema, hints)


def _best(request: PackRequest, found: list[T], limit: int) -> list[T]:
    """As many as usual; they come best first, and for a time in the past more are fetched than there are to be."""
    return found if request.as_of is None else found[:limit]


def _artifacts(request: PackRequest, fetched: Fetched, now: int) -> tuple[Scored[Artifact], ...]:
    standing = [
        (found, barred)
        for found, status in _statuses(request, fetched.artifacts, now)
        if status is not Status.DRAFT
        and found.source.confidence >= request.min_confidence
        and _applies(found.source, request, now)
        for barred in (_artifact_barred(request, found, status, now),)
    ]
    standing = _best(request, standing, ARTIFACTS)
    highest = max((found.bm25 for found, _ in standing), default=1)
    return tuple(
        Scored(found.source, parts, parts.score(request.weights), barred)
        for found, barred in standing
        for parts in (artifact_components(found, highest, now),)
    )


def _statuses(
    request: PackRequest, artifacts: Iterable[Found[Artifact]], now: int
) -> Iterator[tuple[Found[Artifact], Status]]:
    """Each with its status at that time; what was compiled later did not exist. Of a chain's versions one stands."""
    if request.as_of is None:
        yield from ((found, found.source.status) for found in artifacts)
        return
    existed = [found for found in artifacts if milliseconds(found.source.created_at) <= now]
    newest: dict[tuple[str, int], int] = defaultdict(int)
    for found in existed:
        newest[_chain(found.source)] = max(newest[_chain(found.source)], found.source.version)
    for found in existed:
        last = found.source.version == newest[_chain(found.source)]
        yield found, status_at(found.source, now) if last else Status.SUPERSEDED


def _chain(source: Artifact) -> tuple[str, int]:
    return str(source.metadata.get("pattern", source.artifact_id)), int(source.metadata.get("chain", 1))


def _artifact_barred(request: PackRequest, found: Found[Artifact], status: Status, now: int) -> DropReason | None:
    shown = {Status.ACTIVE, *(Status(past) for past in request.include or ())}
    if status not in shown or decayed(found.source, now):
        return DropReason.DEPRECATED
    return None if found.sound else DropReason.PROVENANCE_FAILED


def _applies(source: Artifact, request: PackRequest, now: int) -> bool:
    """HMX-A §6. What a request does not say is no reason to leave anything out."""
    scope = source.validity_scope
    if scope is None:
        return True
    during = scope.time_range
    return (
        (not scope.tenant_ids or request.tenant_id in scope.tenant_ids)
        and (not scope.agent_ids or request.agent_id is None or request.agent_id in scope.agent_ids)
        and (not scope.tags or not request.tags or not set(scope.tags).isdisjoint(request.tags))
        and (during is None or _within(during.start, during.end, now))
    )


def _within(start: str | None, end: str | None, now: int) -> bool:
    return (start is None or milliseconds(start) <= now) and (end is None or now < milliseconds(end))


def _episodes(request: PackRequest, fetched: Fetched, now: int) -> tuple[Scored[Document], ...]:
    """What has outlived its time to live is not shown again, not even as it was before (HMX-E §2.2)."""
    alive = [
        found
        for found in fetched.episodes
        if (request.as_of is None or found.source.at <= now)
        and (found.source.expires is None or found.source.expires > fetched.newest)
    ]
    alive = _best(request, alive, EPISODES)
    highest = max((found.bm25 for found in alive), default=1)
    return tuple(
        Scored(found.source, parts, parts.score(request.weights))
        for found in alive
        for parts in (document_components(found, highest, now),)
    )


def _known(request: PackRequest, fetched: Fetched, now: int) -> tuple[Scored[KnowledgeRecord], ...]:
    """What answers the query, and every policy that holds."""
    answering = {found.source.record_id for found in fetched.knowledge}
    found = _best(request, [each for each in fetched.knowledge if _existed(request, each.source, now)], KNOWLEDGE)
    found += [
        Found(policy, 0)
        for policy in fetched.policies
        if policy.record_id not in answering and _existed(request, policy, now)
    ]
    found = [each for each in found if each.source.confidence >= request.min_confidence]
    highest = max((each.bm25 for each in found), default=0) or 1
    holding = [each.source for each in found if _holds(request, each.source, now)]
    outdone = _outdone(holding)
    return tuple(
        Scored(each.source, parts, parts.score(request.weights), _record_barred(request, each, outdone, now))
        for each in found
        for parts in (knowledge_components(each, highest, now),)
    )


def _existed(request: PackRequest, source: KnowledgeRecord, now: int) -> bool:
    began = (source.validity.start if source.validity else None) or source.created_at
    return request.as_of is None or milliseconds(began) <= now


def _holds(request: PackRequest, source: KnowledgeRecord, now: int) -> bool:
    if request.as_of is None:
        return source.status in HOLDS
    end = source.validity.end if source.validity else None
    return end is None or now < milliseconds(end)


def _outdone(holding: Sequence[KnowledgeRecord]) -> Mapping[str, float]:
    """Of each pattern that is in conflict the highest confidence of its sides."""
    disputed = {record.pattern for record in holding if record.kind is Known.CONFLICT}
    best: dict[str, float] = {}
    for record in holding:
        if record.kind is not Known.CONFLICT and record.pattern in disputed:
            best[record.pattern] = max(record.confidence, best.get(record.pattern, 0.0))
    return best


def _record_barred(
    request: PackRequest, found: Found[KnowledgeRecord], outdone: Mapping[str, float], now: int
) -> DropReason | None:
    source = found.source
    if not _holds(request, source, now):
        past = source.status is Standing.SUPERSEDED and Past.SUPERSEDED in (request.include or ())
        return None if past else DropReason.DEPRECATED
    if not found.sound:
        return DropReason.PROVENANCE_FAILED
    if source.kind is not Known.CONFLICT and source.confidence < outdone.get(source.pattern, 0.0):
        return DropReason.CONFLICT
    return None
