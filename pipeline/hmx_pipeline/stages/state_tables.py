"""The stages' state as tables for dashboards: one row per session, one row per pattern.

Input: records of a state topic in order, tombstones included; a tenant limits the rows. Output: rows, sorted, and their
totals. Unreadable records are left out.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from hmx_pipeline.contracts.evidence import Pattern
from hmx_pipeline.contracts.keys import join_key, split_key
from hmx_pipeline.contracts.limits import INTEGER_MAX
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.stages import pattern_state, session_state
from hmx_pipeline.stages.pattern_state import PatternState
from hmx_pipeline.stages.session_state import SessionState

Key = tuple[str, ...]


class StateRecord(NamedTuple):
    key: str
    value: bytes | None
    timestamp: int


@dataclass(frozen=True, slots=True)
class SessionRow:
    tenant: str
    session: str
    released: int
    """Number of released events, late ones included."""
    run: int
    """How often the sequence has started over."""
    next: int | None
    """The expected sequence; None after the highest possible one."""
    waiting: int
    """Number of events behind a gap."""
    segment: int
    """Number of events in the open segment."""
    changed: int
    """When its state was last written, in milliseconds."""

    @property
    def name(self) -> Key:
        return self.tenant, self.session

    @property
    def said(self) -> str:
        """The text by which it is searched."""
        return self.session

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"changed": format_ms(self.changed)}


@dataclass(frozen=True, slots=True)
class PatternRow:
    tenant: str
    type: str
    key: str
    contributions: int
    """Number of contributions that are not withdrawn."""
    sessions: int
    """Number of sessions they come from."""
    status: str
    """Status of the newest artifact; empty if none was published."""
    artifact: str
    """Id of the newest artifact."""
    version: str
    confidence: float
    title: str
    pending: bool
    """True if it is about to be compiled."""
    changed: int
    """When any of its records was last written, in milliseconds."""

    @property
    def name(self) -> Key:
        return self.tenant, self.type, self.key

    @property
    def said(self) -> str:
        """The text by which it is searched."""
        return f"{self.title} {self.type} {self.key}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"changed": format_ms(self.changed)}


class SessionSort(StrEnum):
    CHANGED = "changed"
    RELEASED = "released"
    WAITING = "waiting"
    SEGMENT = "segment"
    SESSION = "session"


class PatternSort(StrEnum):
    CONTRIBUTIONS = "contributions"
    SESSIONS = "sessions"
    CONFIDENCE = "confidence"
    CHANGED = "changed"
    TITLE = "title"


R = TypeVar("R", SessionRow, PatternRow)


def in_order(rows: Iterable[R], by: SessionSort | PatternSort) -> list[R]:
    """Sort rows: numbers and times descending, texts ascending, ties by name."""

    def order(row: R) -> Any:
        value = getattr(row, by)
        return (value if isinstance(value, str) else -value, *row.name)

    return sorted(rows, key=order)


def session_totals(rows: Sequence[SessionRow]) -> dict[str, int]:
    return {
        "sessions": len(rows),
        "released": sum(row.released for row in rows),
        "waiting": sum(row.waiting for row in rows),
        "sessions_waiting": sum(row.waiting > 0 for row in rows),
        "open_segments": sum(row.segment > 0 for row in rows),
    }


def pattern_totals(rows: Sequence[PatternRow]) -> dict[str, int]:
    """Count patterns, also by the status of their newest artifacts; `silent` are those that published nothing yet."""
    return {
        "patterns": len(rows),
        "contributions": sum(row.contributions for row in rows),
        **dict(sorted(Counter(row.status or "silent" for row in rows).items())),
        "pending": sum(row.pending for row in rows),
    }


def latest(records: Iterable[StateRecord], prefixes: tuple[str, ...], tenant: str | None) -> dict[str, StateRecord]:
    """Return the last record of each key with these prefixes, without deleted ones."""
    if tenant is not None:
        prefixes = tuple(f"{kind}{join_key(tenant)}/" for kind in prefixes)
    found: dict[str, StateRecord] = {}
    for record in records:
        if not record.key.startswith(prefixes):
            continue
        if record.value is None:
            found.pop(record.key, None)
        else:
            found[record.key] = record if record.key[0] != "w" else record._replace(value=b"")  # only counted
    return found


def session_rows(records: Iterable[StateRecord], tenant: str | None = None) -> list[SessionRow]:
    sessions: dict[Key, tuple[SessionState, int]] = {}
    waiting: dict[Key, int] = {}
    for key, record in latest(records, ("s/", session_state.HELD), tenant).items():
        name = _parts(key)[:2]
        if key.startswith(session_state.HELD):
            waiting[name] = waiting.get(name, 0) + 1
        elif (session := _decoded(session_state.decode_state, record)) is not None:
            sessions[name] = session, record.timestamp
    return [
        SessionRow(
            tenant=name[0],
            session=name[1],
            released=session.cursor.index,
            run=session.cursor.run,
            next=session.cursor.next if session.cursor.next <= INTEGER_MAX else None,
            waiting=waiting.get(name, 0),
            segment=session.head.events if session.head is not None else 0,
            changed=changed,
        )
        for name, (session, changed) in sessions.items()
    ]


def pattern_rows(records: Iterable[StateRecord], tenant: str | None = None) -> list[PatternRow]:
    patterns: dict[Key, PatternState] = {}
    maps: dict[Key, list[str]] = {}
    changed: dict[Key, int] = {}
    for key, record in latest(records, ("p/", "m/"), tenant).items():
        value, name = _decoded(pattern_state.decode_state, record), _parts(key)[:2]
        if value is None:
            continue
        changed[name] = max(changed.get(name, 0), record.timestamp)
        if isinstance(value, PatternState):
            patterns[name] = value
        elif not value.withdrawn:
            maps.setdefault(name, []).append(value.session_id)
    return [
        _pattern_row(name, patterns.get(name, PatternState()), changed[name], maps.get(name, []))
        for name in patterns | maps
    ]


def _decoded(decode: Callable[[str, bytes], Any], record: StateRecord) -> Any:
    """Return None for an unreadable record: its partition is reported elsewhere, and the other rows are correct."""
    try:
        return decode(record.key, record.value or b"")
    except (ValueError, LookupError, RecursionError):
        return None


def _pattern_row(name: Key, state: PatternState, changed: int, sessions: list[str]) -> PatternRow:
    pattern = Pattern(*split_key(name[1]))
    said = state.said.artifact if state.said is not None else None
    return PatternRow(
        tenant=name[0],
        type=pattern.type,
        key=pattern.key,
        contributions=len(sessions),
        sessions=len(set(sessions)),
        status=said.status.value if said is not None else "",
        artifact=said.artifact_id if said is not None else "",
        version=str(said.version) if said is not None else "",
        confidence=said.confidence if said is not None else 0.0,
        title=said.title if said is not None else "",
        pending=state.speak_at is not None,
        changed=changed,
    )


def _parts(key: str) -> Key:
    """Return the parts of a state key without its prefix: the tenant, then session or pattern, …"""
    return tuple(split_key(key[2:]))
