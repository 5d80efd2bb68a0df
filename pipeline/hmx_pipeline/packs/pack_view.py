"""Pack view: the fetched sources that a pack may choose from, scored, with the reason if one is excluded.

Input: a request and what was fetched for it. Output: a `PackView`. Sources that do not concern the request are left
out: drafts, those for other agents, and those later than `as_of`.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Any, Final

from msgspec.structs import replace

from hmx_pipeline.advice.recommendations import guide
from hmx_pipeline.compiler import decision_policy, failure_playbook, task_schema
from hmx_pipeline.compiler.knowledge.authority import is_for
from hmx_pipeline.compiler.lifecycle import decayed, status_at
from hmx_pipeline.contracts.artifact import UNCONFIRMED, Artifact
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.ledger import Reinforced, felt, salience
from hmx_pipeline.contracts.options import Filling, Past, Status
from hmx_pipeline.contracts.pack import DropReason, WorkflowHints
from hmx_pipeline.packs.candidates import NOT_CONFIRMED, UNSOUND, Exclusion, Scored, Source
from hmx_pipeline.packs.cutoff import OF_ARTIFACTS, OF_EPISODES, TAKES_IDS
from hmx_pipeline.packs.knowledge_view import began, beside_messages, concerning, holds, is_own, scored_knowledge
from hmx_pipeline.packs.pack_query import PackQuery
from hmx_pipeline.packs.rendered import episode, kept
from hmx_pipeline.packs.workflow_hints import workflow_hints
from hmx_pipeline.retrieval.fit import UNBOUND, WISHES, Bound, Question, bound, taken
from hmx_pipeline.retrieval.paraphrase import nearness
from hmx_pipeline.retrieval.related_words import UNIT
from hmx_pipeline.retrieval.rerank import reranked
from hmx_pipeline.retrieval.retrieval_plan import ARTIFACTS, EPISODES
from hmx_pipeline.retrieval.score import FoundSource, MemorySnapshot, artifact_components, document_scores, instant
from hmx_pipeline.retrieval.searchable import Document
from hmx_pipeline.retrieval.terms import terms

_UNFIT: Final = 0.95
"""How much of its score a procedure loses at most whose slots the question fits worse."""
_DENIES: Final = re.compile(
    r"\b(?:avoid\w*|never|not?|without|don['’]?t|stop\w*|instead of|rather than)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class PackView:
    """The scored sources that sections choose from."""

    artifacts: tuple[Scored[Artifact], ...]
    episodes: tuple[Scored[Document], ...]
    knowledge: tuple[Scored[KnowledgeRecord], ...]
    schema: Scored[Artifact] | None
    """The best-matching task_schema; `hints` are made from it."""
    hints: WorkflowHints | None
    precedents: Mapping[str, str]
    """Contribution ids in the hints → session ids."""
    bound: Mapping[str, Bound]
    """Procedure id → slot values in the question."""
    diagnoses: bool
    """True if the request includes what is no guidance."""
    asked: frozenset[str]
    """Stems of the question."""
    weights: Mapping[str, int]
    """The same with the related stems."""
    fails: bool
    """True if it is about a failure."""


def view(ask: PackQuery, fetched: MemorySnapshot) -> PackView:
    values = _bound(ask, fetched)
    artifacts = _artifacts(ask, fetched, values)
    shown = [
        found
        for found in artifacts
        if found.helps and found.barred is None and (ask.looks_back or found.source.status is Status.ACTIVE)
    ]
    schemas = [found for found in shown if found.source.artifact_type == task_schema.NAME]
    schema = min(schemas, key=lambda a: (-a.relevance, a.source.artifact_id), default=None)
    playbooks = [found.source for found in shown if found.source.artifact_type == failure_playbook.NAME]
    session = [step for step in fetched.session if ask.existed(step.at)]
    others = [found for found in fetched.precedents if found.source.session_id != ask.request.session_id]
    guidance = guide(ask.request.query, session, ask.request.agent_id or "", others)
    hints = workflow_hints(schema.source if schema else None, session, playbooks, guidance)
    named = {step.artifact_id for step in hints.suggested_next_steps} if hints else set()
    known = scored_knowledge(ask, fetched)
    if schema is not None:
        wanted = {name for name, slot in schema.source.content.get("slots", {}).items() if slot["source"] == "user"}
        known = tuple(replace(each, least=0.0) if is_own(ask, each.source, wanted) else each for each in known)
    if schema is not None and ask.request.fill is Filling.RELEVANT:
        steps = "\n".join(task_schema.lines(schema.source.content))
        known = tuple(concerning(steps, found) for found in known)
    told = (found.source for found in others)
    precedents = {one.contribution_id: one.session_id for one in told if one.contribution_id in named}
    diagnoses = Past.DIAGNOSTIC in (ask.request.include or ())
    episodes = _episodes(ask, fetched, _outdated(ask, known))
    known = beside_messages(ask, known, episodes)
    if (ledger := fetched.ledger) is not None:  # the order alone changes: what is barred or helps stays so
        episodes = tuple(_weighed(ask, ledger, one, one.source.event_id, one.source.at) for one in episodes)
        known = tuple(
            _weighed(
                ask,
                ledger,
                one,
                one.source.record_id,
                began(one.source),
                one.source.body.get("properties"),
            )
            for one in known
        )
        artifacts = tuple(
            _weighed(ask, ledger, one, one.source.artifact_id, instant(one.source.created_at)) for one in artifacts
        )
    asked, fails = frozenset(ask.plan.terms), ask.plan.classification.intent == "failure"
    weights = {each.stem: each.share for each in ask.plan.related} | dict.fromkeys(asked, UNIT)
    return PackView(artifacts, episodes, known, schema, hints, precedents, values, diagnoses, asked, weights, fails)


def _weighed(
    ask: PackQuery,
    ledger: Mapping[str, Reinforced],
    found: Scored[Source],
    name: str,
    created: int,
    properties: Mapping[str, Any] | None = None,
) -> Scored[Source]:
    now = salience(ledger.get(name, Reinforced()), created, ask.now)
    return replace(found, score=felt(found.score, now, properties or {}, ask.request.cues or {}))


def _bound(ask: PackQuery, fetched: MemorySnapshot) -> dict[str, Bound]:
    procedures = [found.source for found in fetched.artifacts if found.source.artifact_type == task_schema.NAME]
    given = dict.fromkeys([each.artifact_id for each in procedures], UNBOUND)
    if asking := [each for each in procedures if each.content.get("slots")]:
        wishes = (found.source.text for found in fetched.episodes if found.source.actor == "user")
        question = Question(ask.request.query, islice(wishes, WISHES), [each.content for each in asking])
        given |= {each.artifact_id: bound(each.content, question) for each in asking}
    return given


def _raw(
    ask: PackQuery, found: Sequence[FoundSource[Artifact]], values: Mapping[str, Bound], whole: int
) -> list[float]:
    """Return BM25 scores. Procedures gain by how similar their goals are, and lose if the question fits their slots
    worse; both are relative to the best of them. Goals as similar as one sentence of the question are worth as much
    as that share of its words."""
    procedures = [each for each in found if each.source.artifact_id in values]
    own = [values[each.source.artifact_id] for each in procedures]
    claimed = len({word for each in own for word in each.sure.values()})
    fits = [each.share(claimed) for each in own]
    best, most = max((each.bm25 for each in procedures), default=0), max(fits, default=0.0)
    near = nearness(ask.request.query, [each.source.content.get("goals", ()) for each in procedures])
    if not any(near) and min(fits, default=0.0) == most:
        return [float(each.bm25) for each in found]
    raised = {
        each.source.artifact_id: max(each.bm25 + best * share, share * whole)
        * (1 - _UNFIT * (most - fit) / (most or 1.0))
        for each, share, fit in zip(procedures, near, fits, strict=True)
    }
    return [raised.get(each.source.artifact_id, float(each.bm25)) for each in found]


def _artifacts(ask: PackQuery, fetched: MemorySnapshot, values: Mapping[str, Bound]) -> tuple[Scored[Artifact], ...]:
    shown = {Status.ACTIVE, *(str(past) for past in ask.request.include or ())}
    standing = [
        (found, _artifact_barred(ask, found, status, shown), status is not Status.ACTIVE)
        for found, status in _statuses(ask, fetched.artifacts)
        if status is not Status.DRAFT and _applies(ask, found.source)
    ]
    standing = ask.best(standing, ARTIFACTS)
    forbidden = _forbidden(ask, fetched.policies)
    bests = _raw(ask, [found for found, *_ in standing], values, fetched.whole.artifacts)
    highest, focus = max(fetched.whole.artifacts, *bests, 1), ask.focus
    scored, top = [], max(bests, default=0.0) / highest
    least = ask.cutoff.least(OF_ARTIFACTS, top)
    looks = ask.plan.shapes
    taking = [bool(looks) and taken(found.source, looks) for found, *_ in standing]
    takers = max((best for best, takes_ids in zip(bests, taking, strict=True) if takes_ids), default=0.0) / highest
    for (found, barred, past), best, takes_ids in zip(standing, bests, taking, strict=True):
        source, parts = found.source, artifact_components(found.source, best / highest, focus)
        why = barred or (_against(source, forbidden) if forbidden else None)
        score = parts.mean(ask.shares, top)
        if ask.priors is not None:
            pattern = str(source.metadata.get("pattern", ""))
            score = ask.favour(score, pattern, f"{source.title} {source.summary}")
        enough = min(least, TAKES_IDS * takers) if takes_ids else least
        scored.append(Scored(source, parts, score, why, enough, found.made, past))
    return tuple(scored)


def _forbidden(ask: PackQuery, policies: Iterable[KnowledgeRecord]) -> list[tuple[str, frozenset[str]]]:
    """Return the rules that forbid something: the rule's id, and the stems of what it forbids."""
    standing = (policy for policy in policies if ask.existed(began(policy)) and holds(ask, policy))
    rules = (policy for policy in standing if policy.body.get("negated") and is_for(policy.body, ask.plan.subject))
    found = ((rule.record_id, frozenset(terms(str(rule.body.get("subject", ""))))) for rule in rules)
    return [(name, stems) for name, stems in found if stems]


def _against(source: Artifact, forbidden: Iterable[tuple[str, frozenset[str]]]) -> Exclusion | None:
    """Exclude a recommendation that a rule forbids. A recommendation against something does not conflict."""
    recommendation = str(source.content.get("recommendation", ""))
    if source.artifact_type != decision_policy.NAME or _DENIES.search(recommendation):
        return None
    advised = frozenset(terms(recommendation))
    rule = next((name for name, stems in forbidden if stems <= advised), None)
    return None if rule is None else Exclusion(DropReason.CONFLICT, f"the rule {rule} forbids it")


def _statuses(
    ask: PackQuery, artifacts: Iterable[FoundSource[Artifact]]
) -> Iterator[tuple[FoundSource[Artifact], Status]]:
    """Yield artifacts with their status at `as_of`. Those compiled later are left out, and of a chain only the newest
    version stands."""
    if not ask.looks_back:
        yield from ((found, found.source.status) for found in artifacts)
        return
    existed = [found for found in artifacts if instant(found.source.created_at) <= ask.now]
    newest: dict[tuple[str, int], int] = defaultdict(int)
    for found in existed:
        newest[_chain(found.source)] = max(newest[_chain(found.source)], found.source.version)
    for found in existed:
        last = found.source.version == newest[_chain(found.source)]
        yield found, status_at(found.source, ask.now) if last else Status.SUPERSEDED


def _chain(source: Artifact) -> tuple[str, int]:
    return str(source.metadata.get("pattern", source.artifact_id)), int(source.metadata.get("chain", 1))


def _artifact_barred(ask: PackQuery, found: FoundSource[Artifact], status: Status, shown: Set[str]) -> Exclusion | None:
    if status not in shown:
        cause = found.source.metadata.get("transition", {}).get("cause", "")
        return Exclusion(DropReason.DEPRECATED, f"it is {status}: {cause}" if cause else f"it is {status}")
    if ask.plan.subject and UNCONFIRMED in found.source.metadata:
        return NOT_CONFIRMED
    if decayed(instant(found.source.created_at), ask.now):
        return Exclusion(DropReason.DEPRECATED, "no evidence has supported it for a year")
    return ask.unsure(found.source.confidence) or (None if found.sound else UNSOUND)


def _applies(ask: PackQuery, source: Artifact) -> bool:
    """Check the validity scope (HMX-A §6). What the request does not state excludes nothing."""
    scope, request = source.validity_scope, ask.request
    if scope is None:
        return True
    during = scope.time_range
    return (
        (not scope.tenant_ids or request.tenant_id in scope.tenant_ids)
        and (not scope.agent_ids or request.agent_id is None or request.agent_id in scope.agent_ids)
        and (not scope.tags or not request.tags or not set(scope.tags).isdisjoint(request.tags))
        and (during is None or _within(during.start, during.end, ask.now))
    )


def _within(start: str | None, end: str | None, now: int) -> bool:
    return (start is None or instant(start) <= now) and (end is None or now < instant(end))


def _outdated(ask: PackQuery, known: Iterable[Scored[KnowledgeRecord]]) -> dict[str, Scored[KnowledgeRecord]]:
    """Map events to the outdated record they support, unless a current record rests on them too."""
    gone: dict[str, Scored[KnowledgeRecord]] = {}
    holding: set[str] = set()
    for each in known:
        if holds(ask, each.source):
            holding.update(each.source.source_events)
        elif each.barred is not None:
            gone.update(dict.fromkeys(each.source.source_events, each))
    return {event: each for event, each in gone.items() if event not in holding}


def _document_barred(found: Document, outdated: Mapping[str, Scored[KnowledgeRecord]]) -> Exclusion | None:
    """Return the exclusion of a turn that says little more than an outdated record."""
    record = outdated.get(found.event_id)
    return None if record is None or 2 * len(record.source.text) < len(found.text) else record.barred


def _episodes(
    ask: PackQuery, fetched: MemorySnapshot, outdated: Mapping[str, Scored[KnowledgeRecord]]
) -> tuple[Scored[Document], ...]:
    """Score the episodes. One past its time to live is never shown again, not even with `as_of` (HMX-E §2.2). An event
    that came again after its session had forgotten its id is indexed once more, and shown once."""
    alive = [
        found
        for found in fetched.episodes
        if ask.existed(found.source.at) and (found.source.expires is None or found.source.expires > fetched.newest)
    ]
    if len({found.source.event_id for found in alive}) < len(alive):
        once: dict[tuple[str, str], FoundSource[Document]] = {}
        for found in alive:
            once.setdefault((found.source.session_id, found.source.event_id), found)
        alive = list(once.values())
    alive = reranked(ask.request.query, ask.best(alive, EPISODES), ask.time)
    best = max((found.bm25 for found in alive), default=0)
    highest = max(fetched.whole.episodes, best, 1)
    top, spent = best / highest, 0
    weighed = document_scores(alive, highest, ask.focus, ask.shares, top)
    if ask.priors is not None:
        weighed = [(ask.favour(score, "", found.source.text), parts, found) for score, parts, found in weighed]
    weighed.sort(key=itemgetter(0), reverse=True)
    least, ordered = ask.cutoff.least(OF_EPISODES, top), []
    for score, parts, found in weighed:
        barred = _document_barred(found.source, outdated) if outdated else None
        ordered.append(Scored(found.source, parts, score, barred, least, found.made))
        if parts.relevance >= least and barred is None:
            spent += kept(found.made, episode, found.source).tokens
            least = ask.cutoff.least(OF_EPISODES, top, spent)
    return tuple(ordered)
