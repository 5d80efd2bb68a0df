"""The reinforcement ledger: how often a memory was surfaced, confirmed, promoted or invalidated (taxonomy).

Input: `memory.reinforcement` events, which name memories by hash. Output: one record per memory, with the product of
its reinforcements' weights and the time of the last one. It is a function of the events alone, so a replay rebuilds it
exactly. Whatever it says changes nothing but the order of packs in one profile.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import exp, fsum, log
from typing import Any, Final

from hmx_pipeline.compiler.evidence_kind import Extracted
from hmx_pipeline.compiler.knowledge.knowledge_kind import KnowledgeKind, Statement, sureness
from hmx_pipeline.compiler.knowledge.scopes import scope_key
from hmx_pipeline.contracts.evidence import Contribution, Pattern, Projected, Segment, SegmentOutcome
from hmx_pipeline.contracts.keys import join_key
from hmx_pipeline.contracts.knowledge import knowledge_id
from hmx_pipeline.contracts.ledger import LEAST, MOST, WEIGHTS, memory_hash
from hmx_pipeline.contracts.limits import QUORUM, SEGMENT_STATEMENTS
from hmx_pipeline.contracts.memory_types import INVALIDATION, LEDGER
from hmx_pipeline.contracts.options import Kind
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.segments.pairing import Action

_NAME: Final = "factor"
_BY_RELATION: Final = {"finding_promoted_to_parent": "promoted"}
_LIKED: Final = ("helpful", "used", "useful", "relevant", "positive", "confirmed", "accepted")
"""Feedback that confirms a memory. Other feedback is kept and changes nothing."""


def ledger_id(tenant_id: str, source_id: str, subject: str = "") -> str:
    """Return the id of the record that the ledger has of a memory; with a subject, of that subject's own."""
    key = memory_hash(source_id)
    return knowledge_id(tenant_id, Pattern(LEDGER, scope_key(subject, key) if subject else key), _NAME)


def _extract(segment: Segment, _: SegmentOutcome, __: Sequence[Action]) -> list[Extracted]:
    said: dict[str, Counter[tuple[str, float]]] = defaultdict(Counter)
    last: dict[str, int] = defaultdict(int)
    events: dict[str, list[str]] = defaultdict(list)
    for step in segment.steps:
        for kind, weight, target in _reinforces(segment, step.projected) if step.projected is not None else ():
            said[target][kind, weight] += 1
            last[target] = max(last[target], step.at)
            events[target].append(step.event_id)
    return [
        Extracted(
            key=target,
            source_events=events[target][-SEGMENT_STATEMENTS:],
            body={
                "said": [
                    {"kind": kind, "weight": weight, "count": count, "at": last[target]}
                    for (kind, weight), count in sorted(said[target].items())
                ]
            },
        )
        for target in list(said)[:SEGMENT_STATEMENTS]
    ]


def _reinforces(segment: Segment, made: Projected) -> Iterator[tuple[str, float, str]]:
    """Yield kind, weight and target: what the ledger's own event names, or the entity that feedback, a promotion or an
    invalidation is about."""
    if made.entity == LEDGER:
        if (weight := _weight(made.properties)) is not None:
            for ref in made.properties["target_refs"]:
                yield made.name, weight, ref.partition(":")[2]
        return
    kinds = [_BY_RELATION[edge[2]] for edge in made.edges if edge[2] in _BY_RELATION]
    entity, name = made.entity, made.name
    if made.entity == INVALIDATION or made.properties.get("feedback") in _LIKED:
        kinds = ["invalidated" if made.entity == INVALIDATION else "confirmed"]
        entity, name = (str(made.properties.get(place, "")) for place in ("entity_type", "entity_name"))
    for kind in kinds if entity and name else ():
        key = join_key(entity, name)
        for whose in dict.fromkeys((key, scope_key(segment.whose, key) if segment.whose else key)):
            record_id = knowledge_id(segment.tenant_id, Pattern(Kind.ENTITY, whose), Kind.ENTITY)
            yield kind, WEIGHTS[kind], memory_hash(record_id)


def _weight(properties: Mapping[str, Any]) -> float | None:
    """Return what the event weighs; None if it is malformed."""
    kind, weight = str(properties.get("kind")), properties.get("weight")
    if kind not in WEIGHTS:
        return None
    if weight is None:
        return WEIGHTS[kind]
    return float(weight) if type(weight) in (int, float) and 0 < weight <= MOST else None


def _state(contributions: Sequence[Contribution], _: Sequence[Contribution]) -> list[Statement]:
    said = [one for c in contributions for one in c.body["said"]]
    counts: Counter[str] = Counter()
    for one in said:
        counts[one["kind"]] += one["count"]
    product = fsum(one["count"] * log(one["weight"]) for one in said)  # the same in any order
    factor = round(min(MOST, max(LEAST, exp(min(product, log(MOST))))), 6)
    last = format_ms(max(one["at"] for one in said))
    target = contributions[-1].pattern_key.rpartition("/")[2]
    properties = {"factor": factor, "last_reinforced_at": last, **dict(sorted(counts.items()))}
    return [
        Statement(
            name=_NAME,
            kind=Kind.ENTITY,
            text=f"{LEDGER} of {target}: {factor:g}",
            body={"entity_type": LEDGER, "name": target, "summary": "", "properties": properties},
            confidence=round(sureness(len({c.session_id for c in contributions})), 4),
            source_events=[event for c in contributions for event in c.source_events],
            sources=contributions,
            start=min(c.first_at for c in contributions),
        )
    ]


def _named(one: Mapping[str, Any]) -> str:
    """With its weight: who says another one does not agree."""
    return f"{one['kind']} {one['weight']}"


def _evenly(said: Sequence[Contribution]) -> list[Contribution]:
    """Let no subject count more often than a quorum says the same, else one of them decides for all. The last ones
    count."""
    often: dict[str, Counter[str]] = defaultdict(Counter)
    for c in said:
        for one in c.body["said"] if c.subject else ():
            often[_named(one)][c.subject] += one["count"]
    most = {what: sorted(by.values())[-QUORUM] for what, by in often.items() if len(by) >= QUORUM}
    left = {(what, subject): most[what] for what in most for subject in often[what]}
    kept = [_taken(c, left) if c.subject else c for c in reversed(said)]
    return [c for c in reversed(kept) if c.body["said"]]


def _taken(c: Contribution, left: dict[tuple[str, str], int]) -> Contribution:
    """Return what still counts of a contribution, and take it from what is left of its subject."""
    told = []
    for one in c.body["said"]:
        key = (_named(one), c.subject)
        count = min(one["count"], left.get(key, 0))
        if count:
            left[key] -= count
            told.append({**one, "count": count})
    return c.saying(said=told)


REINFORCEMENT: Final = KnowledgeKind(
    LEDGER, _extract, None, _state, items="said", named=_named, whole=_NAME, agreed_text=_evenly
)
