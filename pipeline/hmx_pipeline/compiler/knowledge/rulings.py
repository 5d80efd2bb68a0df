"""Operators' rulings on statements: what they confirm, correct and retract outranks all evidence.

Input: the records that the evidence makes, and the pattern's rulings, at most one per record, oldest first. Output: the
records that hold with them. Where two rulings of a pattern exclude each other, the later one holds.
"""

from collections.abc import Mapping, Sequence, Set
from typing import Any, Final

from hmx_pipeline.compiler.knowledge.authority import SHOWN
from hmx_pipeline.compiler.knowledge.claims import plain_text, policy_claim
from hmx_pipeline.compiler.knowledge.endings import ENDING
from hmx_pipeline.contracts.artifact import TimeRange
from hmx_pipeline.contracts.erasure import marks_on
from hmx_pipeline.contracts.evidence import Pattern
from hmx_pipeline.contracts.ids import content_id
from hmx_pipeline.contracts.keys import split_key
from hmx_pipeline.contracts.knowledge import Authority, KnowledgeRecord
from hmx_pipeline.contracts.limits import CLOCK_SKEW_MS, KNOWLEDGE_SOURCES, PATTERN_RULINGS
from hmx_pipeline.contracts.options import Kind, Standing
from hmx_pipeline.contracts.ruling import Ruling, RulingSource, RulingVerb
from hmx_pipeline.contracts.timestamps import format_ms

_OTHERS: Final = ("agents", "goal", "summary")
"""What sessions said besides, each its own. A correction keeps none of it, because its sources do not name them all."""
_LEARNT: Final = ("outcomes", "properties")
"""What its sources said of it besides, taken together. A correction keeps it as long as all of them stand."""
_CUES: Final = "cues"
"""A property that sessions give which are no sources, too."""
_ENDED: Final = (Standing.SUPERSEDED, Standing.RESOLVED, Standing.WITHDRAWN)


def with_ruling(rulings: Sequence[Ruling], ruling: Ruling) -> list[Ruling] | None:
    """Return the pattern's rulings after one more, which replaces that on the same record; None beyond the bound. A
    subject replaces no operator's."""
    if ruling.subject and any(each.record_id == ruling.record_id and not each.subject for each in rulings):
        return list(rulings)
    others = [each for each in rulings if each.record_id != ruling.record_id]
    return [*others, ruling] if len(others) < PATTERN_RULINGS else None


def without(ruling: Ruling, erased: Set[str]) -> Ruling:
    """Return a ruling once these contributions are erased. What an operator stated keeps what it rests on besides, but
    neither events nor what they all told, nor a text that one of them may have said: which of it is erased is not known
    when the erasure comes first. If it rests on nothing any more, it goes, and what it corrected stays out."""
    stated = ruling.stated
    if stated is None or erased.isdisjoint(stated.source_memory_ids):
        return ruling
    left = [name for name in stated.source_memory_ids if name not in erased]
    if not left:
        return ruling.model_copy(update={"verb": RulingVerb.RETRACT, "stated": None, "sources": [], "reason": ""})
    body = _emptied(stated.body, *_LEARNT)
    text = plain_text(body, body["object"], denies=body["negated"]) if ruling.reworded else stated.text
    stated = stated.model_copy(update={"source_memory_ids": left, "source_events": [], "body": body, "text": text})
    sources = [each for each in ruling.sources if each.memory_id in left]
    return ruling.model_copy(update={"stated": stated, "sources": sources})


def without_claimed(ruling: Ruling, claimed: Mapping[str, int], shared: Set[str]) -> Ruling:
    """Return a ruling on shared knowledge without the contributions whose sessions have got a subject after it, unless
    all share still what they say. `claimed`: id → append time of the event that named the subject."""
    names = ruling.stated.source_memory_ids if ruling.stated is not None else ()
    before = {name for name in names if name in claimed and ruling.at <= claimed[name] + CLOCK_SKEW_MS}
    return without(ruling, before - shared)


def with_sources(ruling: Ruling, known: Sequence[Mapping[str, Any]]) -> Ruling:
    """Return a correction with the marks of what it was made from, by which erasures find it. `known`: the
    contributions of its record that memory holds. Endings name no thing: it keeps none of them, nor their events and
    tags. Earlier releases published records that rest on endings alone; of such a one nothing is known."""
    stated, found = ruling.stated, {each["contribution_id"]: each for each in known}
    if stated is None:
        return ruling
    names = set(stated.source_memory_ids)
    endings = {name for name in names & found.keys() if found[name]["pattern_type"] == ENDING}
    naming = [found[name] for name in stated.source_memory_ids if name in found.keys() - endings]
    tags = [tag for tag in stated.tags if all(tag in each["lineage_tags"] for each in naming)]
    sources = [
        RulingSource(
            memory_id=each["contribution_id"],
            marks=marks_on(each["tenant_id"], each["session_id"], each.get("subject", "")),
            first_at=each["first_at"],
        )
        for each in naming
    ]
    told = {"stated": stated.model_copy(update={"tags": tags}), "sources": sources}
    return without(ruling.model_copy(update=told), endings if endings < names else set())


def correction(record: KnowledgeRecord, text: str, value: str, at: int, by: Authority) -> KnowledgeRecord:
    """Return the record that is stated instead. `value`: what the statement says of its subject."""
    pattern = Pattern(*split_key(record.pattern))
    kept = {k: v for k, v in record.body.items() if k not in ("ruling", "source_events_omitted")}
    all_named = len(record.source_memory_ids) < KNOWLEDGE_SOURCES
    body = _emptied(kept, *_OTHERS, *(() if all_named else _LEARNT))
    if told := body.get("properties"):
        body["properties"] = {name: value for name, value in told.items() if name != _CUES}
    if record.kind is Kind.POLICY:
        claim = policy_claim(text)
        body |= {"subject": claim.subject, "negated": claim.denies}
    elif "object" in body:
        body |= {"object": value, "negated": False}
    elif "said" in body:
        body["said"] = value
    return record.model_copy(
        update={
            "record_id": content_id(0, "knowledge", record.tenant_id, *pattern, "stated", record.record_id, text),
            "text": text,
            "body": body | {"said_by": [by.value], SHOWN: by.value},
            "confidence": 1.0,
            "status": Standing.ACTIVE,
            "session_id": None,
            "agent_id": None,
            "created_at": format_ms(at),
            "validity": TimeRange(start=format_ms(at)),
            "superseded_by": None,
        }
    )


def ruled(found: Sequence[KnowledgeRecord], rulings: Sequence[Ruling], *, rivals: bool) -> list[KnowledgeRecord]:
    """Apply the rulings. `rivals`: the records of this pattern exclude each other, so what an operator states ends the
    others."""
    if not rulings:
        return list(found)
    last = {ruling.record_id: ruling for ruling in rulings}
    known = {record.record_id: record for record in found}
    known |= {r.stated.record_id: _own_words(r.stated) for r in rulings if r.stated is not None}
    made = _handed_back(known, {name for name in known if name in last and last[name].verb is RulingVerb.RETRACT})
    holding = [
        made_id
        for ruling in rulings
        if (made_id := _holds(ruling)) in known and (made_id == ruling.record_id or made_id not in last)
    ]
    for name, record in known.items():
        ruling = last.get(name)
        if ruling is not None and ruling.verb is RulingVerb.RETRACT:
            made[name] = _ended(record, Standing.WITHDRAWN, ruling)
        elif ruling is not None and ruling.stated is not None:
            made[name] = _ended(record, Standing.SUPERSEDED, ruling, by=ruling.stated.record_id)
        elif ruling is not None:
            made[name] = _confirmed(record, ruling)
    if rivals and holding:
        stating = [ruling for ruling in rulings if _holds(ruling) in holding]
        since = max(enumerate(stating), key=lambda one: (one[1].authority.rank, one[0]))[1]
        holder = _holds(since)
        for name, record in made.items():
            if name != holder and record.kind is not Kind.CONFLICT and record.status is Standing.ACTIVE:
                made[name] = _ended(record, Standing.SUPERSEDED, since, by=holder, said=False)
    return _with_conflicts(made, rulings[-1])


def _own_words(stated: KnowledgeRecord) -> KnowledgeRecord:
    """Return what an operator has stated; earlier releases kept with it what sessions had said besides."""
    return stated.model_copy(update={"body": _emptied(stated.body, *_OTHERS)})


def _emptied(body: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: type(said)() if name in names else said for name, said in body.items()}


def _holds(ruling: Ruling) -> str:
    """Return the id of the record that a ruling states; empty for a retraction."""
    if ruling.verb is RulingVerb.RETRACT:
        return ""
    return ruling.stated.record_id if ruling.stated is not None else ruling.record_id


def _handed_back(known: Mapping[str, KnowledgeRecord], retracted: set[str]) -> dict[str, KnowledgeRecord]:
    """Return the records as they would stand if the retracted ones had ended none of them."""
    made = dict(known)
    for name, record in known.items():
        heir = record
        for _ in known:
            if heir.superseded_by not in retracted:
                break
            heir = known[heir.superseded_by]
        if heir is not record and record.validity is not None:
            end = heir.validity.end if heir.validity is not None else None
            made[name] = record.model_copy(
                update={
                    "status": heir.status,
                    "superseded_by": heir.superseded_by,
                    "validity": TimeRange(start=record.validity.start, end=end),
                }
            )
    return made


def _confirmed(record: KnowledgeRecord, ruling: Ruling) -> KnowledgeRecord:
    if record.kind is Kind.CONFLICT:
        return record
    start = record.validity.start if record.validity is not None else record.created_at
    return record.model_copy(
        update={
            "status": Standing.ACTIVE,
            "confidence": 1.0,
            "superseded_by": None,
            "validity": TimeRange(start=start),
            "body": _with(record, ruling) | {SHOWN: ruling.authority.value},
        }
    )


def _ended(
    record: KnowledgeRecord, status: Standing, ruling: Ruling, by: str | None = None, *, said: bool = True
) -> KnowledgeRecord:
    validity = record.validity or TimeRange()
    end = validity.end or max(format_ms(ruling.at), validity.start or "")
    return record.model_copy(
        update={
            "status": status,
            "superseded_by": by,
            "validity": TimeRange(start=validity.start, end=end),
            "body": _with(record, ruling) if said else record.body,
        }
    )


def _with(record: KnowledgeRecord, ruling: Ruling) -> dict[str, Any]:
    told = {"verb": ruling.verb.value, "at": format_ms(ruling.at), "by": ruling.authority.value}
    return record.body | {"ruling": told | ({"reason": ruling.reason} if ruling.reason else {})}


def _with_conflicts(made: Mapping[str, KnowledgeRecord], last: Ruling) -> list[KnowledgeRecord]:
    """Resolve a conflict that has fewer than two sides left."""
    sides = sum(each.kind is not Kind.CONFLICT and each.status is Standing.ACTIVE for each in made.values())
    return [
        _ended(each, Standing.RESOLVED, last, said=False)
        if each.kind is Kind.CONFLICT and each.status not in _ENDED and sides < 2
        else each
        for each in made.values()
    ]
