"""Records and events for tests of the folds, without Kafka."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from hmx_pipeline.contracts.headers import Headers
from hmx_pipeline.contracts.keys import session_key
from hmx_pipeline.contracts.timestamps import format_ms

START_MS = 1_760_000_000_000


@dataclass(frozen=True)
class LogRecord:
    """What the client library gives for a record of the log."""

    partition: int = 0
    offset: int = 0
    timestamp: int = START_MS
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = field(default=())


def event(
    session: str = "s", sequence: int = 0, *, at: int | None = None, event_id: str | None = None, **fields: Any
) -> dict[str, Any]:
    """A valid event; `at` is its own clock in milliseconds, one second a sequence unless given."""
    return {
        "hmx_version": "HMX-1.0",
        "event_id": event_id or f"{session}-{sequence}",
        "event_type": "message",
        "agent_id": "agent",
        "tenant_id": "acme",
        "session_id": session,
        "timestamp": format_ms(START_MS + 1_000 * sequence if at is None else at),
        "sequence": sequence,
        "content": {"role": "user", "text": f"event {sequence}"},
        "metadata": {},
        **fields,
    }


def log(events: Sequence[tuple[int, dict[str, Any] | bytes | None]], partition: int = 0) -> list[LogRecord]:
    """(append time in ms after START_MS, event) → records with offsets from 0."""
    records = []
    for offset, (at, item) in enumerate(events):
        value = orjson.dumps(item) if isinstance(item, dict) else item
        key = session_key(item["tenant_id"], item["session_id"]).encode() if isinstance(item, dict) else None
        records.append(LogRecord(partition, offset, START_MS + at, key, value))
    return records
