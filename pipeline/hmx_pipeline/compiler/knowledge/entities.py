"""Entities and relations of the knowledge graph, from typed events.

Input of `extract`: a segment's typed events, as `intake/event_projection` reads them. Output: a contribution for each
entity and relation. Input of `state`: all contributions on one. Output: one statement, or none. A segment contributes
what its events say of one entity or relation. The last value of each property and the last non-empty summary count, in
event-time order. Outcomes are kept as a list: a command may fail and pass later.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

import orjson

from hmx_pipeline.compiler.evidence_kind import Extracted
from hmx_pipeline.compiler.knowledge.knowledge_kind import KnowledgeKind, Statement, sureness
from hmx_pipeline.compiler.knowledge.tellers import first_of_each, last_of_each
from hmx_pipeline.contracts.agent_types import AGENT_TYPES, SHELVES
from hmx_pipeline.contracts.event_rows import Shelf
from hmx_pipeline.contracts.evidence import Contribution, Projected, Segment, SegmentOutcome, Step
from hmx_pipeline.contracts.keys import join_key
from hmx_pipeline.contracts.limits import SEGMENT_UNKNOWN
from hmx_pipeline.contracts.memory_types import LEDGER
from hmx_pipeline.contracts.options import Kind
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.segments.pairing import Action

_OUTCOMES: Final = 16
_UNKNOWN: Final = "event"
"""Entity type of events of an unknown type."""
_FOUNDS: Final = {
    edge.relation for row in AGENT_TYPES.values() if row.projection for edge in row.projection.edges if edge.founds
}
"""Relations whose source is an entity because of them."""
Seen = dict[str, Any]
Told = tuple[str, Seen]
"""The agent that tells it, and what an event says."""


def _projected(segment: Segment) -> list[tuple[Step, Projected]]:
    return [(step, step.projected) for step in segment.steps if step.projected is not None]


def _extract_entities(segment: Segment, _: SegmentOutcome, __: Sequence[Action]) -> list[Extracted]:
    found = [(step, made) for step, made in _projected(segment) if made.entity not in ("", LEDGER)]
    unknown = {step.event_id for step, made in found if made.entity == _UNKNOWN}
    surplus = set(list(dict.fromkeys(s.event_id for s, _ in found if s.event_id in unknown))[:-SEGMENT_UNKNOWN])
    return _extracted(
        (
            step.teller,
            join_key(entity, name),
            {"type": entity, "name": name},
            {
                "at": step.at,
                "event": step.event_id,
                "summary": summary,
                "properties": properties,
                **({"again": True} if made.again else {}),
            },
        )
        for step, made in found
        if step.event_id not in surplus
        for entity, name, summary, properties in _entities(made)
    )


def _entities(made: Projected) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    yield made.entity, made.name, made.summary, made.properties
    for source_type, source, relation, *target in made.edges:
        if relation in _FOUNDS and target == [made.entity, made.name]:
            yield source_type, source, str(made.properties.get("name", "")), {}


def _extract_relations(segment: Segment, _: SegmentOutcome, __: Sequence[Action]) -> list[Extracted]:
    return _extracted(
        (
            step.teller,
            join_key(*edge),
            dict(zip(("source_type", "source", "relation", "target_type", "target"), edge, strict=True)),
            {
                "at": step.at,
                "event": step.event_id,
                "summary": made.summary,
                **({} if made.expires is None else {"expires": made.expires}),
            },
        )
        for step, made in _projected(segment)
        for edge in made.edges
    )


def _extracted(found: Iterable[tuple[str, str, dict[str, str], Seen]]) -> list[Extracted]:
    about: dict[str, dict[str, str]] = {}
    seen: dict[str, list[Told]] = defaultdict(list)
    for teller, key, named, one in found:
        about[key] = named
        seen[key].append((teller, one))
    kept = {key: _kept(seen[key]) for key in first_of_each(seen, itemgetter(0))}
    return [
        Extracted(
            key=key,
            source_events=list(dict.fromkeys(one["event"] for one in told)),
            body={**about[key], "seen": told},
        )
        for key, told in kept.items()
    ]


def _kept(seen: Sequence[Told]) -> list[Seen]:
    """Return the last ones of each teller, and its last that only adds to others."""
    added = {one[0]: one for one in seen if "again" in one[1]}
    told = [one for one in seen if "again" not in one[1]]
    return [one for _, one in last_of_each([*told, *added.values()], lambda one: (one[0], "again" in one[1]))]


def _in_order(contributions: Sequence[Contribution]) -> list[Seen]:
    seen: Iterator[Seen] = (one for c in contributions for one in c.body["seen"])
    return sorted(seen, key=lambda one: (one["at"], one["event"]))


def _entity(contributions: Sequence[Contribution], _: Sequence[Contribution] = ()) -> list[Statement]:
    told = _in_order(contributions)
    seen = [one for one in told if "again" not in one]
    if not seen:
        return []
    about = contributions[-1].body
    properties: dict[str, Any] = {}
    for one in told:
        properties.update(one["properties"])
        if "again" in one and "status" not in one["properties"]:
            properties["last_reinforced_at"] = format_ms(one["at"])
    events = {one["event"] for one in seen}
    contributions = [c for c in contributions if not events.isdisjoint(c.source_events)]
    summary = _summary(seen)
    outcomes = [[format_ms(o["at"]), o["properties"]["outcome"]] for o in seen if o["properties"].get("outcome")]
    body = {"entity_type": about["type"], "name": about["name"], "summary": summary, "properties": properties}
    if seen[-1]["at"] > seen[0]["at"]:
        body["last_at"] = format_ms(seen[-1]["at"])
    if outcomes:
        body["outcomes"] = outcomes[-_OUTCOMES:]
    status = properties.get("status")
    # What is diagnostic goes by an id, which tells a reader nothing.
    what = f" {about['name']}" if SHELVES.get(about["type"]) is not Shelf.QUESTION else ""
    named = f"{about['type'].replace('_', ' ')}{what}" + (f" ({status})" if status else "")
    text = summary if about["type"] == _UNKNOWN and summary else f"{named}: {summary}" if summary else named
    return [_statement(Kind.ENTITY, text, body, seen, contributions, Projected(properties=properties).expires)]


def _relation(contributions: Sequence[Contribution], _: Sequence[Contribution] = ()) -> list[Statement]:
    seen = _in_order(contributions)
    about = {name: value for name, value in contributions[-1].body.items() if name != "seen"}
    # What a skill says is shown with its status alone, or a rejected one would still be told.
    summary = "" if SHELVES.get(about["target_type"]) is Shelf.PROCEDURE else _summary(seen)
    text = f"{about['source']} {about['relation'].replace('_', ' ')} {about['target']}"
    body = {**about, "summary": summary}
    expires = next((one["expires"] for one in reversed(seen) if "expires" in one), None)
    return [_statement(Kind.RELATION, f"{text}: {summary}" if summary else text, body, seen, contributions, expires)]


def _summary(seen: Sequence[Seen]) -> str:
    return next((str(one["summary"]) for one in reversed(seen) if one["summary"]), "")


def _statement(
    kind: Kind,
    text: str,
    body: dict[str, Any],
    seen: Sequence[Seen],
    contributions: Sequence[Contribution],
    expires: int | None,
) -> Statement:
    sessions = len({c.session_id for c in contributions})
    return Statement(
        name=kind.value,
        kind=kind,
        text=text,
        body={**body, "sessions": sessions},
        confidence=round(sureness(sessions), 4),
        source_events=[one["event"] for one in seen],
        sources=contributions,
        start=int(seen[0]["at"]),
        end=expires,
    )


def _named(one: Mapping[str, Any]) -> str:
    return orjson.dumps([one["summary"], one.get("properties")], option=orjson.OPT_SORT_KEYS).decode()


ENTITY: Final = KnowledgeKind(
    "entity", _extract_entities, None, _entity, items="seen", named=_named, whole=Kind.ENTITY.value
)
RELATION: Final = KnowledgeKind(
    "relation", _extract_relations, None, _relation, items="seen", named=_named, whole=Kind.RELATION.value
)
