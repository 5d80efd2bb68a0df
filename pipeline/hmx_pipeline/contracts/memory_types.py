"""Rows for typed events about memory itself: skills, what an agent doubts, and what reinforces a memory.

None of them states a fact. Packs show skills that apply among the procedures, open questions among the relations, and
the rest on request.
"""

from collections.abc import Mapping
from typing import Any, Final

from hmx_pipeline.contracts.event_rows import EventType, Places, ProjectedEdge, Shelf, by_actor, observed
from hmx_pipeline.contracts.ledger import REINFORCES

INVALIDATION: Final = "memory_invalidation"
LEDGER: Final = "reinforcement"
"""Type of what the reinforcement ledger says of a memory."""
_SKILL: Final = "skill:{skill_id}"
_VERSION: Final = _SKILL + ":v{version|=1}"
_HAS_VERSION: Final = ProjectedEdge("has_version", "skill", _SKILL, "skill_version", _VERSION, founds=True)
SKILL_STATUSES: Final = (
    "proposed", "pending", "deferred", "validated", "revised", "accepted", "rejected", "conflicted", "deprecated",
    "contradicted", "stale", "superseded", "closed",
)  # fmt: skip
"""What a `skill.*` event of that name makes of a version. No other event changes it."""


def _skill(status: str) -> EventType:
    about = ("failure_modes", "rollback", "contradiction_reason", "evidence", "stale", "valid_to", "superseded_by")
    return observed(
        "skill_version",
        _VERSION,
        ("summary", "name", "applicability", "procedure"),
        ("skill_id", "version", "name", "summary", "procedure", "applicability", "citations", *about, "expires_at"),
        status=status,
        edges=(_HAS_VERSION, by_actor(f"{status}_skill")),
        shelf=Shelf.PROCEDURE,
    )


def _use_of_skill(entity: str, place: str, relation: str, summary: Places, properties: Places) -> EventType:
    return observed(
        entity,
        _VERSION + f":{place}:{{@session_id}}:{{@sequence}}",
        summary,
        ("skill_id", "version", "task", *properties),
        edges=(_HAS_VERSION, ProjectedEdge(relation, "skill_version", _VERSION)),
        shelf=Shelf.DIAGNOSTIC,
    )


def _metacognition(
    entity: str, relation: str, summary: str, properties: Places, refs: Places = (), shelf: Shelf = Shelf.DIAGNOSTIC
) -> EventType:
    """The first property is the entity's name."""
    needs = (properties[0], "claim_key", summary, "authority_status")
    told = (*properties, "claim_key", "reason", "authority_status", "expires_at")
    more: dict[str, Any] = {"edges": (by_actor(relation),), "needs": needs, "refs": refs, "shelf": shelf}
    return observed(entity, f"{{{properties[0]}}}", (summary, "reason"), told, **more)


MEMORY_TYPES: Final[Mapping[str, EventType]] = {
    **{f"skill.{status}": _skill(status) for status in SKILL_STATUSES},
    "skill.applied": _use_of_skill(
        "skill_application", "application", "applied_to_task", ("task", "summary"), ("task_id", "taskId", "context")
    ),
    "skill.outcome_recorded": _use_of_skill(
        "skill_outcome", "outcome", "recorded_outcome", ("task", "feedback"), ("success_score", "feedback", "evidence")
    ),
    "memory.reinforced": observed(
        "{entity_type|=memory}", "{entity_name}", (), ("importance", "reinforcement_count"),
        edges=(by_actor("reinforced_memory"),), shelf=Shelf.DIAGNOSTIC, again=True,
    ),
    "memory.invalidated": observed(
        INVALIDATION, "{@session_id}:{@sequence}", ("entity_type", "entity_name", "reason"),
        ("entity_type", "entity_name", "reason"), edges=(by_actor("invalidated_memory"),), shelf=Shelf.DIAGNOSTIC,
    ),
    REINFORCES: observed(
        LEDGER, "{kind}", (), ("kind", "weight"), needs=("authority_status",), refs=("targets",),
        shelf=Shelf.DIAGNOSTIC,
    ),
    "memory.feedback": observed(
        "memory_feedback", "{@session_id}:{@sequence}", ("feedback", "reason", "entity_type", "entity_name"),
        ("feedback", "reason", "entity_type", "entity_name", "citation", "source", "score"), shelf=Shelf.DIAGNOSTIC,
    ),
    "metacognition.unknown.recorded": _metacognition(
        "known_unknown", "recorded_known_unknown", "question",
        ("unknown_id", "status", "gap_type", "question", "reverify_query"), ("source_events",), Shelf.QUESTION,
    ),
    "metacognition.confidence.assessed": _metacognition(
        "confidence_assessment", "assessed_confidence", "claim",
        ("assessment_id", "confidence", "method", "support_count", "conflict_count", "requires_reverify", "claim"),
    ),
    "metacognition.conflict.clustered": _metacognition(
        "conflict_cluster", "clustered_conflicting_evidence", "claim",
        ("cluster_id", "resolution_status", "confidence", "claim"),
        ("supporting_source_events", "conflicting_source_events"),
    ),
    "metacognition.reverify.requested": _metacognition(
        "reverify_request", "requested_reverification", "query",
        ("reverify_id", "status", "priority", "query"), ("source_events",), Shelf.QUESTION,
    ),
}  # fmt: skip
