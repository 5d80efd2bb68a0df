"""The event type table: role, content schema, field paths and graph projection of each event type.

Input: the type of an event, also with a vendor's prefix `x-{vendor}-`. Output: its row (`event_type`). A row has a
role, the content schema (if HMX-E §4 has one), and the paths in `content` of the values that later rooms use; the first
present path counts. Payload dialects (HMX-E §4, the overview's and the clients') are further paths in the same row.
Later rooms use the role, never the name. An unknown type is an OBSERVATION.
"""

import re
from collections.abc import Mapping
from typing import Final

from hmx_pipeline.contracts.agent_types import AGENT_TYPES, RETENTION
from hmx_pipeline.contracts.content import Decision, Error, Feedback, Message, ToolCall, ToolResult
from hmx_pipeline.contracts.event_rows import ACTS, EventType, Places, Projection, Role, Saying, by_actor

__all__ = ["ACTS", "AGENT_TYPES", "EVENT_TYPES", "EventType", "Places", "Role", "event_type", "namespaced"]

NAMESPACED: Final = r"x-[A-Za-z0-9_]+-[A-Za-z0-9_.-]+"
"""Form of custom type names, x-{vendor}-{type} (HMX-E §3, HMX-A §3)."""

_TEXT: Final = ("text", "message", "content", "summary", "description")

EVENT_TYPES: Final[Mapping[str, EventType]] = {
    "message": EventType(Role.MESSAGE, Message, text=("text", "content"), actor=("role",)),
    "tool_call": EventType(
        Role.CALL, ToolCall, name=("tool_name", "tool", "name"), arguments=("arguments", "input", "args"),
        call_id=("call_id",),
    ),
    "tool_result": EventType(
        Role.RESULT, ToolResult, name=("tool_name", "tool", "name"), text=("result.text", "result", "output", "error"),
        ok=("success",), exit_code=("exit_code",), call_id=("call_id",),
    ),
    "file_edit": EventType(
        Role.ACTION, fixed_name="edit", text=("path",), arguments=("path",), ok=("success",), exit_code=("exit_code",)
    ),
    "test_run": EventType(
        Role.TEST, name=("command", "runner"), text=("output", "stderr", "error", "command"), ok=("success", "passed"),
        exit_code=("exit_code",),
    ),
    "command_exec": EventType(
        Role.ACTION, name=("command",), text=("output", "stderr", "error", "command"), arguments=("command",),
        ok=("success",), exit_code=("exit_code",),
    ),
    "browser_action": EventType(
        Role.ACTION, name=("action",), text=("url", "selector", "text"), arguments=("url", "selector"), ok=("success",)
    ),
    "api_result": EventType(
        Role.ACTION, name=("api", "endpoint", "name", "url"), text=("result", "output", "error"), ok=("success",)
    ),
    "decision": EventType(
        Role.DECISION, Decision, name=("question",), text=("chosen_option",), arguments=("alternatives",),
        projection=Projection(
            "decision", "{question} → {chosen_option}", ("reasoning", "alternatives"),
            edges=(by_actor("made_decision"),),
        ),
    ),
    "error": EventType(Role.ERROR, Error, name=("error_type", "type", "name"), text=("message", "error", "text")),
    "observation": EventType(Role.OBSERVATION, text=_TEXT),
    "state_change": EventType(
        Role.STATE, name=("state", "key"), text=("state", "to", *_TEXT), arguments=("files_changed",),
        projection=Projection(properties=RETENTION, says=(Saying("fact", "{key}", "is", "{to|value|new_value}"),)),
    ),
    "feedback": EventType(
        Role.FEEDBACK, Feedback, name=("signal",), text=("comment",), target=("target_event_id",),
        about=("metadata.rejected_tool", "metadata.rejected_command"),
    ),
}  # fmt: skip
AUDIT_TYPES: Final = ("memory.", "metacognition.", "skill.")
"""Prefixes of types that record what a memory did or doubts. Nothing is learnt from those without a row."""
AUDIT: Final = EventType(Role.OBSERVATION)
UNKNOWN_TYPE: Final = EventType(
    Role.OBSERVATION,
    text=_TEXT,
    projection=Projection("event", "{@session_id}:{@event_type}:{@sequence}", properties=RETENTION, everything=True),
)
_VENDOR: Final = re.compile(r"x-[A-Za-z0-9_]+-(?=[A-Za-z])", re.ASCII)
_NAMESPACED: Final = re.compile(NAMESPACED, re.ASCII)


def event_type(name: str) -> EventType:
    """Return the row of a type. Every standard type has one (HMX-E §3); any other type is an observation."""
    row = EVENT_TYPES.get(name)
    if row is not None:
        return row
    plain = _VENDOR.sub("", name, count=1) if name.startswith("x-") else name
    return AGENT_TYPES.get(plain) or (AUDIT if plain.startswith(AUDIT_TYPES) else UNKNOWN_TYPE)


def namespaced(name: str) -> bool:
    """Return True if a custom type has the required form."""
    return _NAMESPACED.fullmatch(name) is not None
