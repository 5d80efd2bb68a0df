"""Events that tests start from."""

import json
from typing import Any

REQUIRED = (
    "hmx_version", "event_id", "event_type", "agent_id", "tenant_id", "session_id", "timestamp", "sequence", "content",
    "metadata",
)  # fmt: skip
OPTIONAL = (
    "trace_id", "correlation_id", "parent_event_id", "embeddings", "salience", "source", "provenance_ref", "tags",
    "ttl_seconds",
)  # fmt: skip


def event(**fields: Any) -> dict[str, Any]:
    """A small valid event with these fields instead of, or besides, its own."""
    plain: dict[str, Any] = {
        "hmx_version": "HMX-1.0",
        "event_id": "e-1",
        "event_type": "message",
        "agent_id": "agent",
        "tenant_id": "tenant",
        "session_id": "session",
        "timestamp": "2026-03-14T03:00:00.000Z",
        "sequence": 0,
        "content": {"role": "user", "text": "deploy the staging environment"},
        "metadata": {},
    }
    return plain | fields


def full_event(**fields: Any) -> dict[str, Any]:
    """A valid event with all nineteen fields."""
    optional: dict[str, Any] = {
        "trace_id": "trace",
        "correlation_id": "correlation",
        "parent_event_id": "e-0",
        "embeddings": [0.25, 1, -3.5],
        "salience": 0.5,
        "source": "tool:gh",
        "provenance_ref": "file:1",
        "tags": ["deployment"],
        "ttl_seconds": 60,
    }
    return event(**optional) | fields


def encoded(fields: Any) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
