"""Extraction: a segment becomes one contribution for each pattern of each kind of evidence.

Input: a segment, open or closed. Output: its contributions in the registry's order, of which `stages/segmenting` emits
those that changed. What other subjects say in a subject's session is left out.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from hmx_pipeline.compiler import usage_counts
from hmx_pipeline.compiler.evidence_kind import EvidenceKind
from hmx_pipeline.compiler.knowledge.scopes import scoped
from hmx_pipeline.compiler.registry import KINDS, is_statement
from hmx_pipeline.contracts.episode import NOBODY_KNOWN
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Contribution, Pattern, Segment, Step, contribution_id, mean_salience
from hmx_pipeline.segments.outcome import outcome_of
from hmx_pipeline.segments.pairing import actions

_SPOKEN: Final = (Role.MESSAGE, Role.FEEDBACK)
_STATEMENTS: Final = tuple(kind for kind in KINDS.values() if is_statement(kind.name))


def contributions(segment: Segment) -> list[Contribution]:
    """Return contributions in the order of the registry and, within a kind, of appearance. A segment of somebody's that
    teaches nothing still tells whose its session is: it may have spoken before it named anybody and was forgotten."""
    said = _extracted(segment, KINDS.values())
    if said or not segment.steps or segment.whose in ("", NOBODY_KNOWN):
        return said
    return [withdrawal(segment, Pattern(usage_counts.NAME, usage_counts.key_of(segment)))]


def statements(segment: Segment) -> list[Contribution]:
    """Return those contributions that are statements: they hold as soon as they are made, whatever follows."""
    return _extracted(segment, _STATEMENTS)


def _extracted(segment: Segment, kinds: Iterable[EvidenceKind]) -> list[Contribution]:
    whose = segment.whose
    if not segment.steps or whose == NOBODY_KNOWN:
        return []
    segment = _own_words(segment, whose)
    acted = actions(segment)
    outcome = outcome_of(segment, acted)
    tags = {step.event_id: step.tags for step in segment.steps} if any(step.tags for step in segment.steps) else None
    last_at = max(step.at for step in segment.steps)
    salient = {step.event_id: step.salience for step in segment.steps if step.salience is not None}
    return [
        _about(
            segment,
            Pattern(found.kind or kind.name, found.key),
            last_at,
            outcome=found.outcome,
            source_events=found.source_events,
            tags=found.tags,
            lineage_tags=_lineage_tags(tags, found.source_events) if tags else [],
            salience=mean_salience(map(salient.get, found.source_events)) if salient else None,
            body=_with_tellers(segment, found.body, tellers),
            tellers=tellers,
            subject=whose,
        )
        for kind in kinds
        for told in kind.extract(segment, outcome, acted)
        for found in (scoped(told, whose) if is_statement(told.kind or kind.name) else (told,))
        for tellers in (_tellers(segment, found.source_events) if is_statement(found.kind or kind.name) else [],)
    ]


def _own_words(segment: Segment, whose: str) -> Segment:
    """Return the segment without what others say in a subject's session: it is theirs, and goes with them."""
    own = ("", whose)

    def others(step: Step) -> bool:
        return step.subject not in own and (step.role in _SPOKEN or step.projected is not None)

    if not any(map(others, segment.steps)):
        return segment
    nothing = {"text": "", "values": (), "found": (), "listed": (), "projected": None}
    steps = (msgspec.structs.replace(step, **nothing) if others(step) else step for step in segment.steps)
    return msgspec.structs.replace(segment, steps=tuple(steps))


def withdrawal(segment: Segment, pattern: Pattern) -> Contribution:
    """Return the contribution that withdraws what the segment contributed to a pattern."""
    last_at = max(step.at for step in segment.steps)
    return _about(segment, pattern, last_at, subject=segment.whose, withdrawn=True)


def _tellers(segment: Segment, source_events: Sequence[str]) -> list[str]:
    """Return the agents of the typed source events, if another than the segment's is among them."""
    sources = set(source_events)
    found = {step.teller for step in segment.steps if step.teller and step.event_id in sources}
    return sorted(found) if found - {segment.agent_id} else []


def _with_tellers(segment: Segment, body: Mapping[str, Any], tellers: Sequence[str]) -> Mapping[str, Any]:
    """Return a body that says of each item which agent tells it, if several do: none of them vouches for another, nor
    takes from what another says."""
    if len(tellers) <= 1:
        return body
    by = {step.event_id: step.teller for step in segment.steps if step.teller}

    def told(one: dict[str, Any]) -> dict[str, Any]:
        return {**one, "teller": by[one["event"]]} if one["event"] in by else one

    return {**body, **{name: list(map(told, body[name])) for name in ("claims", "seen") if name in body}}


def _lineage_tags(tags: Mapping[str, Sequence[str]], source_events: Iterable[str]) -> list[str]:
    """Return the tags that every source event carries."""
    carried = {tags[event] for event in source_events if event in tags}
    return sorted(set.intersection(*map(set, carried))) if carried else []


def _about(segment: Segment, pattern: Pattern, last_at: int, **said: Any) -> Contribution:
    """Make a contribution. Its id depends on the segment's first step, which never changes, so a correction keeps the
    id."""
    first_at = segment.steps[0].at
    return Contribution(
        contribution_id=contribution_id(first_at, segment.tenant_id, pattern, segment.session_id, segment.segment_id),
        tenant_id=segment.tenant_id,
        pattern_type=pattern.type,
        pattern_key=pattern.key,
        session_id=segment.session_id,
        segment_id=segment.segment_id,
        agent_id=segment.agent_id,
        first_at=first_at,
        last_at=last_at,
        claimed_at=segment.claimed_at,
        **said,
    )
