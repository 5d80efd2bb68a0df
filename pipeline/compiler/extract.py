"""What a segment says. In: a segment. Out: one contribution for each pattern of each artifact type. Nothing fails."""

from pipeline.compiler.registry import ARTIFACT_TYPES
from pipeline.contracts.evidence import Contribution, Pattern, Segment, contribution_id
from pipeline.segments.outcome import outcome_of
from pipeline.segments.pairing import actions


def contributions(segment: Segment) -> list[Contribution]:
    """In the order of the registry and, within a type, of appearance."""
    if not segment.steps:
        return []
    acted = actions(segment)
    outcome = outcome_of(segment, acted)
    first_at = min(step.at for step in segment.steps)
    last_at = max(step.at for step in segment.steps)
    said = []
    for kind in ARTIFACT_TYPES.values():
        for found in kind.extract(segment, outcome, acted):
            pattern = Pattern(kind.name, found.key)
            said.append(
                Contribution(
                    contribution_id=contribution_id(
                        first_at, segment.tenant_id, pattern, segment.session_id, segment.segment_id
                    ),
                    tenant_id=segment.tenant_id,
                    pattern_type=pattern.type,
                    pattern_key=pattern.key,
                    session_id=segment.session_id,
                    segment_id=segment.segment_id,
                    agent_id=segment.agent_id,
                    outcome=found.outcome,
                    first_at=first_at,
                    last_at=last_at,
                    source_events=found.source_events,
                    tags=found.tags,
                    body=found.body,
                )
            )
    return said
