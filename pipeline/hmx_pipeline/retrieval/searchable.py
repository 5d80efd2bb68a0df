"""Indexed documents: what of an episode, artifact or knowledge record is searched and shown, and its labels.

Input: records as plain JSON values. Output: a bounded step and `Document`, or None if there is nothing worth finding.
Messages and failures are indexed; the raw output of successful actions is not.
"""

import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from hmx_pipeline.contracts.episode import RESERVED, subject_of
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Step
from hmx_pipeline.contracts.knowledge import Memory
from hmx_pipeline.contracts.limits import CLOCK_SKEW_MS, STEP_TEXT, TAG
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.contracts.timestamps import NS_PER_MS, parse_instant, utc
from hmx_pipeline.intake.steps import EXTRACTED_KEY, step_of, usable_tags
from hmx_pipeline.retrieval.memory_index import Corrected
from hmx_pipeline.retrieval.terms import shapes, strings, terms
from hmx_pipeline.segments.lexicon import PLEASANTRIES

TEXT: Final = 2_000
"""Most characters of a message."""
EXCERPT: Final = 300
"""Most characters of a tool's output."""
ACTOR: Final = 60
COMMAND: Final = 400
"""Most characters of a command; longer than other names, because half a command may do something else."""
ARTIFACT_TEXT: Final = 6_000
SESSION_TEXT: Final = 160
SPOKEN_TEXT: Final = 240
"""Characters of a user's message from its start, or of an agent's from its end, where it says what it does next."""
SALIENCE: Final = 0.5
"""Salience of an event without one."""
_COURTESY: Final = 60
"""A courtesy is shorter than this many characters."""
_WORD: Final = re.compile(r"\w+")
_POLITE: Final = frozenset(map(str.casefold, PLEASANTRIES))
_DAY_MS: Final = 86_400_000
_NEVER: Final = 2**53
"""Later than any event, and exact as a Redis score; a time to live has no upper bound (HMX-E §6.10)."""

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
    """The speaker or the thing: `user`, a tool, an error class."""
    at: int
    """Event time in milliseconds, capped to append time + 5 minutes."""
    salience: float
    text: str
    expires: int | None = None
    """Event time + ttl in milliseconds (HMX-E §6.10)."""
    subject: str = ""
    """Whose it is; empty if it names nobody. Then it belongs to whoever its session does."""


def event_time(record: Mapping[str, Any]) -> int:
    """Return milliseconds, capped to the append time + the allowed clock skew."""
    log_time = int(record["metadata"][RESERVED]["origin"]["log_time"])
    instant = parse_instant(record["timestamp"])
    return log_time if instant is None else min(instant // NS_PER_MS, log_time + CLOCK_SKEW_MS)


def episode_step(record: Mapping[str, Any]) -> Step:
    """Return the step without the fields that only mining needs: parent, correlation, tags. Its subject is that of the
    episode."""
    index = int(record["metadata"][RESERVED]["release"]["index"])
    fields = {"event_id": record["id"], "event_type": record["eventType"], "content": record["payload"]}
    if EXTRACTED_KEY in record["metadata"]:
        fields["metadata"] = record["metadata"]
    step, subject = step_of(fields, event_time(record), index, TEXT), subject_of(record)
    return msgspec.structs.replace(step, subject=subject) if subject else step


def document(record: Mapping[str, Any], step: Step) -> Document | None:
    """Return the document; None if nothing was said and nothing failed, or the text has no content."""
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
        subject=step.subject,
    )


def shortened(text: str, limit: int) -> str:
    """Cut a text to `limit` characters; a cut text ends in "…"."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def is_courtesy(text: str) -> bool:
    """Return True for thanks or assent and nothing else. It is not indexed, because its neighbours would lend it their
    words."""
    return len(text) < _COURTESY and all(word in _POLITE for word in _WORD.findall(text.casefold()))


def expiry(record: Mapping[str, Any], at: int) -> int | None:
    """Return when the episode expires, in milliseconds (HMX-E §2.2)."""
    ttl = record["metadata"][RESERVED].get("ttl_seconds")
    return None if ttl is None else min(at + ttl * 1000, _NEVER)


def document_terms(found: Document) -> list[str]:
    """Return the indexed terms. Month and year are included, so that a question may name them."""
    return terms(f"{found.actor} {found.text}\n{_month(found.at // _DAY_MS)}")


@lru_cache
def _month(day: int) -> str:
    when = utc(day * _DAY_MS)
    return f"{when:%B} {when.year}"


def label(kind: str, name: str) -> str:
    """Return a label, by which packs are filtered: `kind` is `tag`, `session`, `agent`, `trace` or `source` (HMX-E
    §2.2)."""
    return f"{kind}:{name}"


def _labels(tags: Any, **names: Any) -> tuple[str, ...]:
    named = [f"{kind}:{name}" for kind, name in names.items() if type(name) is str and 0 < len(name) <= TAG]
    return (*[label("tag", tag) for tag in usable_tags(tags)], *named)


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
    """Keep a step that shows a session's progress, shortened; None if nothing was done."""
    if step.role not in _DONE:
        return None
    ok = False if step.role is Role.ERROR else step.ok
    return msgspec.structs.replace(
        step, values=(), arguments=(), tags=(), ok=ok, text=shortened(step.text, SESSION_TEXT)
    )


def spoken_step(step: Step) -> Step | None:
    """Keep a message of the user or assistant, shortened. The last one shows what the session is about to do."""
    if step.role is not Role.MESSAGE or step.actor not in ("user", "assistant"):
        return None
    seen = step.text[:STEP_TEXT]
    said = seen[:SPOKEN_TEXT] if step.actor == "user" else seen[-SPOKEN_TEXT:]
    return msgspec.structs.replace(step, values=(), tags=(), text=said)


def artifact_terms(record: Mapping[str, Any]) -> list[str]:
    """Return the terms of title, summary, tags and content, and the shapes of its ids."""
    texts = [record["title"], record["summary"], *(record.get("tags") or ()), *strings(record["content"])]
    text = "\n".join(texts)[:ARTIFACT_TEXT]
    return [*terms(text), *dict.fromkeys(shapes(text))]


def is_searched(record: Mapping[str, Any]) -> bool:
    """Return True if an artifact is active, or was until it was deprecated. Superseded versions are found through their
    successor."""
    if record["status"] in (Status.DEPRECATED, Status.ARCHIVED):
        return bool(record["metadata"].get("transition", {}).get("from") == Status.ACTIVE)
    return bool(record["status"] == Status.ACTIVE)


def artifact_labels(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the labels that all source events of an artifact share."""
    known = record["metadata"]
    return _labels(known.get("lineage_tags"), session=known.get("lineage_session"), agent=known.get("lineage_agent"))


def knowledge_labels(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the labels that all source events of a record share."""
    return _labels(record["tags"], session=record.get("session_id"), agent=record.get("agent_id"))


def contribution_labels(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the labels that all source events of a contribution share."""
    return _labels(record["lineage_tags"], session=record["session_id"], agent=record["agent_id"])


def artifact_time(record: Mapping[str, Any]) -> int:
    """Return when the artifact was created, in milliseconds; 0 if unknown."""
    instant = parse_instant(record["created_at"])
    return 0 if instant is None else instant // NS_PER_MS


def knowledge_terms(record: Mapping[str, Any]) -> list[str]:
    """Return the terms of text, subject, predicate and object. Of a correction only target and text: the rest is the
    same in all."""
    body = record["body"]
    if body.get("memory") == Memory.CORRECTION:
        return terms(f"{body['target']}\n{body['said']}")
    about = (body.get(name) for name in ("subject", "predicate", "object"))
    return terms("\n".join([record["text"], *(text for text in about if isinstance(text, str))])[:ARTIFACT_TEXT])


def corrected(record: Mapping[str, Any]) -> Corrected | None:
    """Return the indexed fields of a correction; None for other records."""
    body = record["body"]
    if body.get("memory") != Memory.CORRECTION:
        return None
    goal: Counter[str] = Counter()
    for word, sessions in body["goal"].items():
        for term in terms(word):
            goal[term] = max(goal[term], sessions)
    return Corrected(body["target"], body["tool"], body["sessions"], tuple(body["agents"]), dict(sorted(goal.items())))


def knowledge_time(record: Mapping[str, Any]) -> int:
    """Return when the record began to hold, in milliseconds; 0 if unknown."""
    instant = parse_instant(record["validity"]["start"])
    return 0 if instant is None else instant // NS_PER_MS
