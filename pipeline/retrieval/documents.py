"""What of an episode and of an artifact is searched and shown. Pure.

Enters: plain JSON values of an episode or artifact record. Leaves: a bounded step and document, or None where there
is nothing worth finding. What is said and what failed is indexed; raw output of what went well is not.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from pipeline.contracts.artifact import Status
from pipeline.contracts.episode import RESERVED
from pipeline.contracts.event_types import Role
from pipeline.contracts.evidence import Step
from pipeline.contracts.instants import NS_PER_MS, parse_instant, utc
from pipeline.contracts.knowledge import Memory
from pipeline.contracts.limits import CLOCK_SKEW_MS, STEP_TEXT, TAG
from pipeline.intake.view import step_of, usable_tags
from pipeline.retrieval.catalogue import Corrected
from pipeline.retrieval.terms import shapes, terms
from pipeline.segments.lexicon import PLEASANTRIES

TEXT: Final = 2_000
"""Characters of what was said."""
EXCERPT: Final = 300
"""Characters of a tool's output."""
ACTOR: Final = 60
COMMAND: Final = 400
"""Of what was run: half a command may do something else."""
ARTIFACT_TEXT: Final = 6_000
SESSION_TEXT: Final = 160
SPOKEN_TEXT: Final = 240
"""Of a user's message its beginning, and of an agent's its end: there it says what it does next."""
SALIENCE: Final = 0.5
"""Of an event that carries none."""
_COURTESY: Final = 60
"""Characters: what says more is longer."""
_WORD: Final = re.compile(r"\w+")
_POLITE: Final = frozenset(map(str.casefold, PLEASANTRIES))
_DAY_MS: Final = 86_400_000
_NEVER: Final = 2**53
"""Later than any event, and exact as a score; a time to live has no upper bound (HMX-E §6.10)."""

_SAID: Final = frozenset({Role.MESSAGE, Role.DECISION, Role.ERROR, Role.FEEDBACK, Role.STATE, Role.OBSERVATION})
_RUN: Final = frozenset({Role.ACTION, Role.TEST})
_DONE: Final = frozenset({Role.CALL, Role.RESULT, Role.ACTION, Role.TEST, Role.ERROR})


class Document(msgspec.Struct, frozen=True, array_like=True, kw_only=True, gc=False):
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


def event_time(record: Mapping[str, Any]) -> int:
    """Milliseconds; a clock that runs ahead counts as the append time and what clocks may differ by."""
    log_time = int(record["metadata"][RESERVED]["origin"]["log_time"])
    instant = parse_instant(record["timestamp"])
    return log_time if instant is None else min(instant // NS_PER_MS, log_time + CLOCK_SKEW_MS)


def episode_step(record: Mapping[str, Any]) -> Step:
    """Without what only mining asks for: parent, correlation, tags."""
    index = int(record["metadata"][RESERVED]["release"]["index"])
    fields = {"event_id": record["id"], "event_type": record["eventType"], "content": record["payload"]}
    return step_of(fields, event_time(record), index, TEXT)


def document(record: Mapping[str, Any], step: Step) -> Document | None:
    """None where the episode is neither said nor failed, or its text says nothing."""
    if step.role in _SAID:
        limit = TEXT
    elif step.ok is False:
        limit = EXCERPT
    else:
        return None
    if not step.text.strip() or (step.role is Role.MESSAGE and is_courtesy(step.text)):
        return None
    carried = record["metadata"][RESERVED]
    return Document(
        event_id=step.event_id,
        session_id=record["sessionId"],
        agent_id=carried["agent_id"],
        role=step.role,
        actor=shortened(step.actor or step.name or step.role.value, COMMAND if step.role in _RUN else ACTOR),
        at=step.at,
        salience=float(record.get("salienceScore", SALIENCE)),
        text=shortened(step.text, limit),
        expires=expiry(record, step.at),
    )


def shortened(text: str, limit: int) -> str:
    """A text that is cut says so."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def is_courtesy(text: str) -> bool:
    """Is it thanks, or assent, and nothing else? What it answers would lend it words that it does not have."""
    return len(text) < _COURTESY and all(word in _POLITE for word in _WORD.findall(text.casefold()))


def expiry(record: Mapping[str, Any], at: int) -> int | None:
    """When the event of that time is to be forgotten, milliseconds (HMX-E §2.2)."""
    ttl = record["metadata"][RESERVED].get("ttl_seconds")
    return None if ttl is None else min(at + ttl * 1000, _NEVER)


def document_terms(found: Document) -> list[str]:
    """Also the month and year, so that a question may name them."""
    return terms(f"{found.actor} {found.text}\n{_month(found.at // _DAY_MS)}")


@lru_cache
def _month(day: int) -> str:
    when = utc(day * _DAY_MS)
    return f"{when:%B} {when.year}"


def label(kind: str, name: str) -> str:
    """What a pack can be filtered by: where something comes from, by `tag`, `session`, `agent`, `trace` or `source`
    (HMX-E §2.2)."""
    return f"{kind}:{name}"


def _labels(tags: Any, **names: Any) -> tuple[str, ...]:
    named = [label(kind, name) for kind, name in names.items() if type(name) is str and 0 < len(name) <= TAG]
    return (*(label("tag", tag) for tag in usable_tags(tags)), *named)


def document_labels(record: Mapping[str, Any]) -> tuple[str, ...]:
    carried = record["metadata"][RESERVED]
    return _labels(
        carried.get("tags"),
        session=record["sessionId"],
        agent=carried["agent_id"],
        trace=carried.get("trace_id"),
        source=record.get("source"),
    )


def session_step(step: Step) -> Step | None:
    """What is kept to tell where a session stands; None where nothing was done."""
    if step.role not in _DONE:
        return None
    ok = False if step.role is Role.ERROR else step.ok
    return msgspec.structs.replace(
        step, values=(), arguments=(), tags=(), ok=ok, text=shortened(step.text, SESSION_TEXT)
    )


def spoken_step(step: Step) -> Step | None:
    """What a session's user, or its assistant, says: the last is kept to tell what it is about to do."""
    if step.role is not Role.MESSAGE or step.actor not in ("user", "assistant"):
        return None
    seen = step.text[:STEP_TEXT]
    said = seen[:SPOKEN_TEXT] if step.actor == "user" else seen[-SPOKEN_TEXT:]
    return msgspec.structs.replace(step, values=(), tags=(), text=said)


def artifact_terms(record: Mapping[str, Any]) -> list[str]:
    """Of title, summary, tags and every text in the content; and how the ids look that it takes."""
    texts = [record["title"], record["summary"], *(record.get("tags") or ()), *_strings(record["content"])]
    text = "\n".join(texts)[:ARTIFACT_TEXT]
    return [*terms(text), *dict.fromkeys(shapes(text))]


def is_searched(record: Mapping[str, Any]) -> bool:
    """Of an artifact: it is active, or was so to the end. What it has superseded is found through it."""
    if record["status"] in (Status.DEPRECATED, Status.ARCHIVED):
        return bool(record["metadata"].get("transition", {}).get("from") == Status.ACTIVE)
    return bool(record["status"] == Status.ACTIVE)


def artifact_labels(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Those that every event it rests on has."""
    known = record["metadata"]
    return _labels(known.get("lineage_tags"), session=known.get("lineage_session"), agent=known.get("lineage_agent"))


def knowledge_labels(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Likewise."""
    return _labels(record["tags"], session=record.get("session_id"), agent=record.get("agent_id"))


def contribution_labels(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Likewise."""
    return _labels(record["lineage_tags"], session=record["session_id"], agent=record["agent_id"])


def artifact_time(record: Mapping[str, Any]) -> int:
    """Milliseconds since when it stands; 0 where that cannot be told."""
    instant = parse_instant(record["created_at"])
    return 0 if instant is None else instant // NS_PER_MS


def knowledge_terms(record: Mapping[str, Any]) -> list[str]:
    """Of what a reader sees, and of what it is about; that a user says it stands in every correction."""
    body = record["body"]
    if body.get("memory") == Memory.CORRECTION:
        return terms(f"{body['target']}\n{body['said']}")
    about = (body.get(name) for name in ("subject", "predicate", "object"))
    return terms("\n".join([record["text"], *(text for text in about if isinstance(text, str))])[:ARTIFACT_TEXT])


def corrected(record: Mapping[str, Any]) -> Corrected | None:
    """Of a correction; None of all else."""
    body = record["body"]
    if body.get("memory") != Memory.CORRECTION:
        return None
    goal: Counter[str] = Counter()
    for word, sessions in body["goal"].items():
        for term in terms(word):
            goal[term] = max(goal[term], sessions)
    return Corrected(body["target"], body["tool"], body["sessions"], tuple(body["agents"]), dict(sorted(goal.items())))


def knowledge_time(record: Mapping[str, Any]) -> int:
    """Milliseconds since when it holds."""
    instant = parse_instant(record["validity"]["start"])
    return 0 if instant is None else instant // NS_PER_MS


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key in sorted(value):
            yield from _strings(value[key])
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
