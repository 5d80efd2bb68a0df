"""The stages' state as tables: a row per session, a row per pattern.

Enters: records of a state topic, tombstones too, in their order; a tenant, to see no other's. Leaves: rows, put in
order, and what they come to. Pure. What a state record is made of, `session_state` and `pattern_state` say; raises what
their decoders raise.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from pipeline.contracts.evidence import Pattern
from pipeline.contracts.instants import format_ms
from pipeline.contracts.keys import join_key, split_key
from pipeline.contracts.limits import INTEGER_MAX
from pipeline.stages import pattern_state, session_state
from pipeline.stages.pattern_state import PatternState
from pipeline.stages.session_state import Session

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
    """Events, late ones too."""
    run: int
    """How often its counter has started over."""
    next: int | None
    """The sequence that is expected; none after the highest that an event can have."""
    waiting: int
    """Events behind a gap."""
    segment: int
    """Events of the open segment."""
    changed: int
    """When its state was written last, milliseconds."""

    @property
    def name(self) -> Key:
        return self.tenant, self.session

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"changed": format_ms(self.changed)}


@dataclass(frozen=True, slots=True)
class PatternRow:
    tenant: str
    type: str
    key: str
    contributions: int
    """That stand: withdrawn ones are not counted."""
    sessions: int
    """They come from."""
    status: str
    """Of its newest artifact; empty where it has said nothing yet."""
    artifact: str
    """Its id."""
    version: str
    confidence: float
    title: str
    pending: bool
    """It is to be compiled."""
    changed: int
    """When any record of it was written last, milliseconds."""

    @property
    def name(self) -> Key:
        return self.tenant, self.type, self.key

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
    """Numbers and times the highest first; ties by name, so that the same state is shown alike."""

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
    """By the status of their newest artifacts too; `silent` are those that have said nothing yet."""
    return {
        "patterns": len(rows),
        "contributions": sum(row.contributions for row in rows),
        **dict(sorted(Counter(row.status or "silent" for row in rows).items())),
        "pending": sum(row.pending for row in rows),
    }


def latest(records: Iterable[StateRecord], prefixes: tuple[str, ...], tenant: str | None) -> dict[str, StateRecord]:
    """The last record of each key of these kinds, but for what was deleted."""
    if tenant is not None:
        prefixes = tuple(f"{kind}{join_key(tenant)}/" for kind in prefixes)
    found: dict[str, StateRecord] = {}
    for record in records:
        if not record.key.startswith(prefixes):
            continue
        if record.value is None:
            found.pop(record.key, None)
        else:
            found[record.key] = record if record.key[0] != "w" else record._replace(value=b"")  # it is only counted
    return found


def session_rows(records: Iterable[StateRecord], tenant: str | None = None) -> list[SessionRow]:
    sessions: dict[Key, tuple[Session, int]] = {}
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
    """None where it can't be read: its partition is set aside and named, and the other rows are still true."""
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
    """Of a state key without its prefix: the tenant, then the session or the pattern, …"""
    return tuple(split_key(key[2:]))
