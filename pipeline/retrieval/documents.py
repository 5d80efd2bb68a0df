"""What of an episode and of an artifact is searched and shown. Pure.

Enters: plain JSON values of an episode or artifact record. Leaves: a bounded document or step, or None where the record
has nothing worth finding. What is said and what failed is indexed; raw output of what went well is not.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from pipeline.contracts.episode import RESERVED
from pipeline.contracts.event_types import EventType, Places, Role, event_type
from pipeline.contracts.instants import NS_PER_MS, parse_instant
from pipeline.contracts.limits import CLOCK_SKEW_MS
from pipeline.retrieval.terms import terms

TEXT: Final = 2_000
"""Characters of what was said."""
EXCERPT: Final = 300
"""Characters of a tool's output."""
ARTIFACT_TEXT: Final = 6_000
STEP_TEXT: Final = 160
SALIENCE: Final = 0.5
"""Of an event that carries none."""

_SAID: Final = frozenset({Role.MESSAGE, Role.DECISION, Role.ERROR, Role.FEEDBACK, Role.STATE, Role.OBSERVATION})
_DONE: Final = frozenset({Role.CALL, Role.RESULT, Role.ACTION, Role.TEST, Role.ERROR})


class Document(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """What a pack shows of one episode."""

    event_id: str
    session_id: str
    agent_id: str
    role: Role
    actor: str
    """Who speaks or what is named: `user`, a tool, an error class."""
    at: int
    """Event time in milliseconds, capped to append time + 5 minutes."""
    salience: float
    text: str
    expires: int | None = None
    """Event time + ttl in milliseconds (HMX-E §6.10)."""


class SessionStep(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """One thing that a session did or ran into."""

    index: int
    event_id: str
    role: Role
    name: str
    ok: bool | None
    text: str


def event_time(record: Mapping[str, Any]) -> int:
    """Milliseconds; a clock that runs ahead counts as the append time (law: time is data)."""
    log_time = int(record["metadata"][RESERVED]["origin"]["log_time"])
    instant = parse_instant(record["timestamp"])
    return log_time if instant is None else min(instant // NS_PER_MS, log_time + CLOCK_SKEW_MS)


def document(record: Mapping[str, Any]) -> Document | None:
    """None where the episode is neither said nor failed, or has no text."""
    row = event_type(record["eventType"])
    payload = record["payload"]
    if row.role in _SAID:
        limit = TEXT
    elif succeeded(row, payload) is False:
        limit = EXCERPT
    else:
        return None
    text = _clip(first_text(payload, row.text), limit)
    if not text:
        return None
    carried = record["metadata"][RESERVED]
    at, ttl = event_time(record), carried.get("ttl_seconds")
    return Document(
        event_id=record["id"],
        session_id=record["sessionId"],
        agent_id=carried["agent_id"],
        role=row.role,
        actor=_clip(first_text(payload, row.actor) or name_of(row, payload) or row.role.value, 60),
        at=at,
        salience=float(record.get("salienceScore", SALIENCE)),
        text=text,
        expires=None if ttl is None else at + ttl * 1000,
    )


def document_terms(found: Document) -> list[str]:
    """Also the month and year, so that a question may name them."""
    when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=found.at)
    return terms(f"{found.actor} {found.text}\n{when:%B} {when:%Y}")


def session_step(record: Mapping[str, Any]) -> SessionStep | None:
    """None where the episode is nothing done."""
    row = event_type(record["eventType"])
    if row.role not in _DONE:
        return None
    payload = record["payload"]
    return SessionStep(
        index=int(record["metadata"][RESERVED]["release"]["index"]),
        event_id=record["id"],
        role=row.role,
        name=name_of(row, payload),
        ok=False if row.role is Role.ERROR else succeeded(row, payload),
        text=_clip(first_text(payload, row.text), STEP_TEXT),
    )


def artifact_terms(record: Mapping[str, Any]) -> list[str]:
    """Of title, summary, tags and every text in the content."""
    texts = [record["title"], record["summary"], *(record.get("tags") or ()), *_strings(record["content"])]
    return terms("\n".join(texts)[:ARTIFACT_TEXT])


def name_of(row: EventType, payload: Mapping[str, Any]) -> str:
    return row.fixed_name or _clip(first_text(payload, row.name), STEP_TEXT)


def succeeded(row: EventType, payload: Mapping[str, Any]) -> bool | None:
    """None where the event does not say."""
    ok = next((value for place in row.ok if isinstance(value := _at(payload, place), bool)), None)
    if ok is not None:
        return ok
    code = next((value for place in row.exit_code if isinstance(value := _at(payload, place), int)), None)
    return None if code is None else code == 0


def first_text(payload: Mapping[str, Any], places: Places) -> str:
    """The first place that holds something, as text."""
    for place in places:
        value = _at(payload, place)
        if isinstance(value, str):
            if value.strip():
                return value.strip()
        elif value not in (None, [], {}):
            return json.dumps(value, ensure_ascii=False, sort_keys=True)
    return ""


def _at(payload: Mapping[str, Any], place: str) -> Any:
    value: Any = payload
    for part in place.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key in sorted(value):
            yield from _strings(value[key])
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
