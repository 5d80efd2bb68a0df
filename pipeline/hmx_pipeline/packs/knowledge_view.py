"""Knowledge of a pack view: the records that a pack may choose from, scored, with the reason if one is excluded.

Input: a request and what was fetched for it. Output: scored knowledge records.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from hmx_pipeline.compiler.knowledge.authority import authority_of, is_for, who
from hmx_pipeline.compiler.knowledge.scopes import scope_of
from hmx_pipeline.contracts.keys import split_key
from hmx_pipeline.contracts.knowledge import KnowledgeRecord, is_correction
from hmx_pipeline.contracts.options import HOLDS, Filling, Past, Section, Standing
from hmx_pipeline.contracts.options import Kind as Known
from hmx_pipeline.contracts.pack import DropReason
from hmx_pipeline.packs.candidates import NOT_CONFIRMED, UNSOUND, Exclusion, Scored
from hmx_pipeline.packs.cutoff import LEAST_IF_NAMED, OF_EPISODES, OF_KNOWLEDGE, is_named
from hmx_pipeline.packs.pack_query import PackQuery
from hmx_pipeline.retrieval.retrieval_plan import CORRECTIONS, HANDOFF, KNOWLEDGE, POLICIES
from hmx_pipeline.retrieval.score import (
    FoundSource,
    MemorySnapshot,
    correction_components,
    instant,
    knowledge_components,
)
from hmx_pipeline.retrieval.searchable import Document

ELSEWHERE: Final = Exclusion(DropReason.LOW_RELEVANCE, "it names a command of another task than the procedure does")
_COMMAND: Final = re.compile(r"`([^`]+)`")
_ASKS: Final = ("?", "？", "؟")


def scored_knowledge(ask: PackQuery, fetched: MemorySnapshot) -> tuple[Scored[KnowledgeRecord], ...]:
    """Score the records that answer the query, and every policy that holds."""
    answering = {found.source.record_id for found in fetched.knowledge}
    existing = [each for each in fetched.knowledge if ask.existed(began(each.source))]
    corrections = ask.best([each for each in existing if is_correction(each.source)], CORRECTIONS)
    found = ask.best([each for each in existing if not is_correction(each.source)], KNOWLEDGE)
    policies = ask.best([policy for policy in fetched.policies if ask.existed(began(policy))], POLICIES)
    found += [FoundSource(policy, 0) for policy in policies if policy.record_id not in answering]
    holding = [each.source for each in found if holds(ask, each.source)]
    best, leading = _best_sides(holding), leaders(holding)
    highest, focus = max(fetched.whole.knowledge, *(each.bm25 for each in found), 1), ask.focus
    if ask.plan.resumes:
        found = _last_first(found)
    weighed = [(each, knowledge_components(each, highest, focus)) for each in found]
    weighed += [(each, correction_components(each, focus)) for each in corrections]
    scored, top = [], max((parts.relevance for _, parts in weighed[: len(found)]), default=0.0)
    least = ask.cutoff.least(OF_KNOWLEDGE, top)
    for each, parts in weighed:
        corrects = is_correction(each.source)
        score = ask.score(parts, 1.0 if corrects else top, each.source.pattern, each.source.text)
        past = not holds(ask, each.source)
        enough = min(least, LEAST_IF_NAMED) if corrects or is_named(each.source, ask.plan) else least
        barred = _record_barred(ask, each, best, leading)
        scored.append(Scored(each.source, parts, score, barred, enough, each.made, past))
    return tuple(scored)


def _last_first(found: Sequence[FoundSource[KnowledgeRecord]]) -> list[FoundSource[KnowledgeRecord]]:
    """Let what was handed over last answer best, whatever its length."""
    handed = [each for each in found if each.source.body.get("entity_type") == HANDOFF]
    best = max((each.bm25 for each in handed), default=0)
    handed.sort(key=lambda each: (each.source.body.get("last_at") or each.source.created_at, each.source.record_id))
    scores = {each.source.record_id: best // (place + 1) for place, each in enumerate(reversed(handed))}
    return [replace(each, bm25=scores.get(each.source.record_id, each.bm25)) for each in found]


def is_own(ask: PackQuery, source: KnowledgeRecord, wanted: Collection[str]) -> bool:
    """Return True for the value of the one who asks, which the procedure takes from them."""
    asks = ask.request.subject_id
    return source.body.get("predicate") in wanted and (source.body.get("subject") == asks or is_named(source, ask.plan))


def beside_messages(
    ask: PackQuery, known: Sequence[Scored[KnowledgeRecord]], episodes: Iterable[Scored[Document]]
) -> tuple[Scored[KnowledgeRecord], ...]:
    """Hold facts to what the messages are held to. A fact that shares a common name with the question, and nothing
    else, is no help beside a message that answers it. A message that asks the same answers nothing."""
    facts = {each.source.record_id for each in known if each.least and _is_fact(each.source)}
    shown = ask.request.sections is None or Section.EPISODES in ask.request.sections
    if not facts or not shown or ask.request.fill is Filling.BUDGET:
        return tuple(known)
    best = 0.0
    for each in episodes:
        if each.parts.relevance > best and each.barred is None and not each.source.text.rstrip().endswith(_ASKS):
            best = each.parts.relevance
    enough = OF_EPISODES.share * best
    return tuple(
        replace(each, least=max(each.least, enough)) if each.source.record_id in facts else each for each in known
    )


def _is_fact(source: KnowledgeRecord) -> bool:
    return source.kind is Known.MEMORY and not is_correction(source)


def concerning(steps: str, found: Scored[KnowledgeRecord]) -> Scored[KnowledgeRecord]:
    """Exclude a rule that names a command, if neither the question is about it nor the procedure that answers it, of
    which these are the steps."""
    commands = _COMMAND.findall(found.source.text) if found.source.kind is Known.POLICY else []
    if not commands or found.barred is not None or found.relevance >= LEAST_IF_NAMED:
        return found
    named = any(" ".join(command.split()[:2]) in steps for command in commands)
    return found if named else replace(found, barred=ELSEWHERE)


def began(source: KnowledgeRecord) -> int:
    return instant((source.validity.start if source.validity else None) or source.created_at)


def holds(ask: PackQuery, source: KnowledgeRecord) -> bool:
    end = source.validity.end if source.validity else None
    within = end is None or ask.now < instant(end)
    return within and (ask.looks_back or source.status in HOLDS)


def _best_sides(holding: Sequence[KnowledgeRecord]) -> Mapping[str, float]:
    """Return the highest confidence among the sides of each conflict, by pattern."""
    disputed = {record.pattern for record in holding if record.kind is Known.CONFLICT}
    best: dict[str, float] = {}
    for record in holding:
        if record.kind is not Known.CONFLICT and record.pattern in disputed:
            best[record.pattern] = max(record.confidence, best.get(record.pattern, 0.0))
    return best


def _record_barred(
    ask: PackQuery,
    found: FoundSource[KnowledgeRecord],
    best: Mapping[str, float],
    leading: Mapping[str, KnowledgeRecord],
) -> Exclusion | None:
    source = found.source
    if not holds(ask, source):
        if source.status is Standing.SUPERSEDED and Past.SUPERSEDED in (ask.request.include or ()):
            return None
        by = f"{source.superseded_by} has replaced it" if source.superseded_by else "it does not hold any more"
        return Exclusion(DropReason.DEPRECATED, by)
    if not found.sound:
        return UNSOUND
    if not is_for(source.body, ask.plan.subject):
        return NOT_CONFIRMED
    if (unsure := ask.unsure(source.confidence)) is not None:
        return unsure
    if by := outweighed(source, leading):
        return Exclusion(DropReason.CONFLICT, f"{by} states otherwise, and has more authority")
    surest = best.get(source.pattern, 0.0)
    if source.kind is not Known.CONFLICT and source.confidence < surest:
        return Exclusion(DropReason.CONFLICT, f"what contradicts it is surer: {surest}")
    return None


_VALUE = "object"


def leaders(holding: Iterable[KnowledgeRecord]) -> dict[str, KnowledgeRecord]:
    """Map what statements are about to the one with the most authority; of several to the first.

    A subject's own statement and that of its tenant are compiled apart, so neither ends the other. Where both are about
    the same thing and differ, a pack shows the one with more authority.
    """
    found: dict[str, KnowledgeRecord] = {}
    for record in holding:
        if _VALUE in record.body and authority_of(record) is not None:
            first = found.setdefault(_about(record), record)
            if _rank(record) > _rank(first):
                found[_about(record)] = record
    return found


def outweighed(record: KnowledgeRecord, leading: Mapping[str, KnowledgeRecord]) -> str:
    """Return who says otherwise with more authority; empty if nobody does."""
    if _VALUE not in record.body or authority_of(record) is None:
        return ""
    leader = leading.get(_about(record), record)
    authority = authority_of(leader)
    if authority is None or _rank(leader) <= _rank(record) or _said(leader) == _said(record):
        return ""
    return who(authority)


def _about(record: KnowledgeRecord) -> str:
    """Return the pattern's key without its scope."""
    kind, key = split_key(record.pattern)
    return f"{kind} {scope_of(key)[1]}"


def _rank(record: KnowledgeRecord) -> int:
    authority = authority_of(record)
    return -1 if authority is None else authority.rank


def _said(record: KnowledgeRecord) -> tuple[str, bool]:
    return str(record.body[_VALUE]).casefold(), bool(record.body.get("negated"))
