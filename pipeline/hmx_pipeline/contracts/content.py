"""The six content schemas of HMX-E §4: what `content` of a standard event type should contain.

A mismatch is noted but never rejected, and further fields are allowed. The specification marks no field as optional;
its examples write empty values.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class Content(BaseModel):
    """Strict types; further fields are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore")


class Attachment(Content):
    type: str
    url: str


class Message(Content):
    """HMX-E §4.1."""

    role: Literal["user", "assistant", "system"]
    text: str
    attachments: list[Attachment]


class ToolCall(Content):
    """HMX-E §4.2."""

    tool_name: str
    arguments: dict[str, Any]
    call_id: str


class ToolResult(Content):
    """HMX-E §4.3."""

    tool_name: str
    call_id: str
    result: dict[str, Any]
    success: bool
    duration_ms: float


class Decision(Content):
    """HMX-E §4.4."""

    question: str
    chosen_option: str
    alternatives: list[str]
    reasoning: str
    confidence: float


class Error(Content):
    """HMX-E §4.5."""

    error_type: str
    message: str
    stack: str
    recoverable: bool


class Feedback(Content):
    """HMX-E §4.6."""

    signal: Literal["positive", "negative", "correction"]
    target_event_id: str
    comment: str
