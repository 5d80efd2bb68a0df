"""Rows for typed agent events: what agents report about their own work beyond the standard event types.

Each row names the event's entity in the graph, its edges, and its statements. For mining, a command, a check or a
decision counts like the standard type.
"""

from collections.abc import Mapping
from typing import Final

from hmx_pipeline.contracts.event_rows import (
    EventType,
    ProjectedEdge,
    Projection,
    Role,
    Saying,
    Shelf,
    Template,
    by_actor,
    observed,
)
from hmx_pipeline.contracts.memory_types import MEMORY_TYPES

RETENTION: Final = ("expires_at", "importance", "last_reinforced_at", "reinforcement_count")
"""Properties that say how long something is worth remembering."""
_SESSION: Final = "{session_id|@session_id}"
_TASK: Final = "{task_id|taskId|task}"
_IDS: Final = ("session_id", "task_id")


def _by_session(relation: str, session: Template = _SESSION) -> ProjectedEdge:
    return ProjectedEdge(relation, "session", session)


AGENT_TYPES: Final[Mapping[str, EventType]] = {
    "decision.made": EventType(
        Role.DECISION, name=("question",), text=("decision",), arguments=("alternatives_considered",),
        projection=Projection(
            "decision", "{decision|@sequence}", ("summary", "rationale", "alternatives_considered"), RETENTION,
            edges=(by_actor("made_decision"),),
        ),
    ),
    "issue.diagnosed": observed(
        "issue", "{issue|=issue}", ("root_cause", "evidence", "fix"), RETENTION, text=("root_cause", "issue"),
        status="diagnosed", edges=(by_actor("diagnosed_issue"),),
    ),
    "verification.recorded": EventType(
        Role.TEST, name=("command",), text=("summary", "outcome"), ok=("outcome",),
        projection=Projection(
            "verification", "{command|=verification}", ("outcome", "summary", "evidence"), ("outcome",),
            edges=(by_actor("recorded_verification"),),
        ),
    ),
    "handoff.created": observed(
        "handoff", "{title|@session_id}", ("summary", "next_steps", "risks"), ("next_steps", "risks"),
        text=("summary",), status="created", edges=(by_actor("created_handoff"),),
    ),
    "context.policy": observed(
        "context_policy", "{project|=any}:{source|=context}", ("status", "instructions"),
        ("source", "project", *RETENTION), text=("status",), edges=(by_actor("set_context_policy"),),
        says=(Saying("policy", "{item}", each="instructions"),),
    ),
    "user.preference_changed": observed(
        "preference", "{userId|user_id|@agent_id}:{key}", (), RETENTION, text=("key",),
        edges=(ProjectedEdge("has_{key}", "user", "{userId|user_id|@agent_id}"),),
        says=(Saying("preference", "{userId|user_id|=user}'s {key}", "is", "{value}"),),
    ),
    "goal.created": observed(
        "goal", "{title|=untitled}", ("description",), RETENTION, text=("title",), edges=(by_actor("created_goal"),),
        says=(Saying("goal", "{userId|user_id|=team}", "aims at", "{title}"),),
    ),
    "task.proposed": observed(
        "task", "{taskId|task_id|@sequence}", ("summary", "title"), RETENTION, text=("summary", "title"),
        status="proposed", edges=(by_actor("proposed_task"), ProjectedEdge("has_task", "goal", "{goalTitle}")),
    ),
    "task.claimed": observed("task", _TASK, status="claimed", edges=(by_actor("claimed_task"),)),
    "task.completed": observed(
        "task", _TASK, ("summary",), RETENTION, text=("summary",), status="completed",
        edges=(by_actor("completed_task"),),
    ),
    "tool.call.completed": EventType(
        Role.RESULT, name=("tool_name",), text=("result_summary",), ok=("status",), call_id=("call_id",),
        projection=Projection(
            "tool_call", _SESSION + ":{tool_name|=tool}:{call_id|@sequence}", ("status", "result_summary"),
            ("tool_name", "status", "call_id", *_IDS),
            edges=(_by_session("completed_tool_call"), ProjectedEdge("observed_tool_call", "task", _TASK)),
        ),
    ),
    "command.completed": EventType(
        Role.ACTION, name=("command",), text=("command",), arguments=("command",), ok=("outcome",),
        exit_code=("exit_code",),
        projection=Projection(
            "command_run", _SESSION + ":{command|=command}:{@sequence}", ("outcome", "command"),
            ("command", "exit_code", "outcome", "duration_ms", "stdout_excerpt", "stderr_excerpt", *_IDS),
            edges=(_by_session("completed_command"), ProjectedEdge("observed_command", "task", _TASK)),
        ),
    ),
    "file.edit.applied": EventType(
        Role.ACTION, fixed_name="edit", text=("path",), arguments=("path",),
        projection=Projection(
            "file_edit", _SESSION + ":{path|=file}:{@sequence}", ("operation", "summary"),
            ("path", "operation", "line_count", *_IDS), edges=(_by_session("applied_file_edit"),),
        ),
    ),
    "subagent.completed": observed(
        "subagent_run", "{parent_session_id|=default}:{subagent_session_id|@session_id}:{@sequence}",
        ("status", "summary"), ("parent_session_id", "subagent_session_id", "status"), text=("summary",),
        edges=(_by_session("completed_subagent", "{parent_session_id|=default}"),),
    ),
    "compaction.completed": observed(
        "compaction_run", _SESSION + ":compaction:{@sequence}", ("status", "mode", "log_path"),
        ("mode", "status", "log_path", "event_count", "output_path", "projection_path", "snapshot_path", "strategy"),
        edges=(_by_session("completed_compaction"),), shelf=Shelf.DIAGNOSTIC,
    ),
    "hook.checkpoint": observed(
        "hook_checkpoint", _SESSION + ":checkpoint:{@sequence}", ("summary",),
        ("source", "reason", "turn_count", "workspace", "trigger", *_IDS), text=("summary",),
        edges=(_by_session("recorded_checkpoint"), ProjectedEdge("has_checkpoint", "task", "{task_id|taskId}")),
    ),
    "session.ended": observed(
        "session_end", _SESSION + ":session-ended:{@sequence}", ("status", "reason"),
        ("reason", "status", "session_id"), edges=(_by_session("ended_session"),), shelf=Shelf.DIAGNOSTIC,
    ),
    **{
        f"schema.migration.{status}": observed(
            "schema_migration", _SESSION + ":migration:{proposal_event_seq|@sequence}",
            ("surface", "change", "compatibility", "release_note"),
            ("surface", "from_version", "to_version", "tests", "docs", "verification", "release_note"),
            text=("change", "surface"), status=status,
            edges=(
                ProjectedEdge("affects_surface", target_type="contract_surface", target="{surface}"),
                ProjectedEdge("targets_version", target_type="release_version", target="{to_version|release_note}"),
            ),
        )
        for status in ("proposed", "applied")
    },
    "coordination.finding.reported": observed(
        "finding", "{finding_id}", ("summary", "claim", "evidence"), ("mission_id", "worker_id", *RETENTION),
        status="pending", edges=(ProjectedEdge("worker_reported_finding", "worker", "{worker_id|@agent_id}"),),
    ),
    "coordination.finding.promoted": observed(
        "finding", "{finding_id}", status="accepted", edges=(by_actor("finding_promoted_to_parent"),), again=True,
    ),
    **MEMORY_TYPES,
}  # fmt: skip
"""Event types of agents' own work. Vendor-prefixed names count as the same type."""
SHELVES: Final[Mapping[str, Shelf]] = {
    "skill": Shelf.DIAGNOSTIC,
    **{row.projection.entity: row.projection.shelf for row in AGENT_TYPES.values() if row.projection is not None},
}
"""Entity type → where packs show it."""
ASIDE: Final = frozenset(
    edge.relation
    for row in AGENT_TYPES.values()
    if row.projection is not None and row.projection.shelf is not Shelf.FACT
    for edge in row.projection.edges
)
"""Relations that packs show on request only."""
