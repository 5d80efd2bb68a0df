"""Knowledge query: lists what a tenant's memory knows, and rules on one record.

Enters: filters, or what was decided. Leaves: a page of records, or a `Ruling` in the log. Raises StoreUnavailableError,
and RulingError for a ruling that would change nothing or make no sense.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

from pydantic import Field

from hmx_pipeline.compiler.knowledge.authority import SHOWN
from hmx_pipeline.compiler.knowledge.claim_names import USER
from hmx_pipeline.compiler.knowledge.claims import claims
from hmx_pipeline.compiler.knowledge.rulings import correction, with_sources
from hmx_pipeline.contracts.base import Model
from hmx_pipeline.contracts.knowledge import Authority, KnowledgeRecord
from hmx_pipeline.contracts.limits import KNOWLEDGE_VALUES
from hmx_pipeline.contracts.options import HOLDS, Kind, Standing
from hmx_pipeline.contracts.ruling import Ruling, RulingVerb
from hmx_pipeline.contracts.timestamps import milliseconds
from hmx_pipeline.kafka.control_producer import append_ruling
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.fetch import Store
from hmx_pipeline.store.subject_view import sees_knowledge

READ: Final = 200
"""Records read from Redis at a time."""
EXAMINED: Final = 2_000
"""Most records read for one page; a page may be short, and its cursor goes on."""

Json = dict[str, Any]


class RulingError(ValueError):
    """The message says why, and what to do instead."""


class OutrankedError(RulingError):
    """An operator has ruled, so a subject's ruling would change nothing."""


class UnknownSourcesError(RulingError):
    """While memory is being filled it may not know what a record rests on, so an erasure could not find the
    correction."""


class KnowledgeFilter(NamedTuple):
    """Empty or None means any."""

    kind: Kind | None = None
    statuses: Sequence[Standing] = HOLDS
    subject: str | None = None
    session: str | None = None
    agent: str | None = None
    text: str = ""
    """Words that all stand in the record's text, in any case."""
    since: int | None = None
    until: int | None = None
    """Event time of the first evidence in milliseconds, both ends included."""
    sees: str | None = None
    """The subject who asks: others' private records are left out. None for an operator."""

    def fits(self, record: Mapping[str, Any]) -> bool:
        at = milliseconds(record["created_at"])
        text = record["text"].casefold()
        return (
            (self.sees is None or sees_knowledge(record, self.sees))
            and all(
                wanted is None or record.get(name) == wanted
                for name, wanted in (
                    ("subject_id", self.subject),
                    ("session_id", self.session),
                    ("agent_id", self.agent),
                )
            )
            and all(word in text for word in self.text.casefold().split())
            and (self.since is None or at >= self.since)
            and (self.until is None or at <= self.until)
        )


class KnowledgePage(NamedTuple):
    records: list[Json]
    cursor: str | None
    """Cursor of the next page; None at the end."""


def list_knowledge(
    store: Store, tenant: str, wanted: KnowledgeFilter, limit: int, cursor: str | None = None
) -> KnowledgePage:
    """Lists records by id, from the one after the cursor."""
    listed = store.knowledge_ids(tenant, wanted.statuses)
    rest = sorted(
        name for name, kind in listed.items() if (cursor is None or name > cursor) and wanted.kind in (None, kind)
    )
    found: list[Json] = []
    for start in range(0, min(len(rest), EXAMINED), READ):
        for record in store.knowledge_records(tenant, rest[start : start + READ]):
            if wanted.fits(record):
                found.append(record)
                if len(found) == limit:
                    last = record["record_id"]
                    return KnowledgePage(found, last if last != rest[-1] else None)
    return KnowledgePage(found, rest[EXAMINED - 1] if len(rest) > EXAMINED else None)


class RulingRequest(Model):
    """What an operator says besides the verb."""

    text: Annotated[str, Field(max_length=2_000)] = ""
    """Of a correction: the whole statement that holds instead."""
    value: Annotated[str, Field(max_length=500)] = ""
    """Of a correction: the new value; without a text, the old text with this value."""
    reason: Annotated[str, Field(max_length=200)] = ""


Look = Callable[[str], Json | None]
"""Finds a record by its id."""


def make_ruling(
    record: Json,
    verb: RulingVerb,
    said: RulingRequest,
    at: int,
    subject: str = "",
    look: Look = lambda _: None,
    sources: Sequence[Json] = (),
) -> Ruling:
    """`subject`: who decides about the own memory; empty for an operator. `sources`: the contributions of the record
    that memory holds. Raises RulingError."""
    known = KnowledgeRecord.model_validate(record)
    if subject and _is_outranked(record, verb, look):
        raise OutrankedError("an operator has ruled on this; only an operator can change it: ask one")
    if known.kind is Kind.CONFLICT and verb is not RulingVerb.RETRACT:
        raise RulingError("a conflict cannot hold: confirm or correct one of its sides")
    if known.status is Standing.WITHDRAWN and "ruling" not in known.body and verb is not RulingVerb.CORRECT:
        raise RulingError("it has no evidence any more: state it again with correct and its text")
    end = known.validity.end if known.validity else None
    if verb is RulingVerb.CONFIRM and known.status in HOLDS and end is not None and milliseconds(end) <= at:
        raise RulingError(f"it expired at {end}: state it again with correct and its text")
    stated = None
    if verb is RulingVerb.CORRECT:
        text = said.text.strip() or _with_value(known, said.value.strip())
        value = said.value.strip() or _value_in(known, text)
        stated = correction(known, text, value, at, Authority.USER if subject else Authority.OPERATOR)
    elif said.text or said.value:
        raise RulingError(f"{verb} takes a reason only; a new text or value is a correction")
    ruling = Ruling(
        tenant_id=known.tenant_id,
        pattern=known.pattern,
        record_id=known.record_id,
        verb=verb,
        at=at,
        reason=said.reason.strip(),
        subject=subject,
        stated=stated,
    )
    reworded = stated is not None and not said.text.strip()
    return with_sources(ruling, sources).model_copy(update={"reworded": reworded})


def _is_outranked(record: Json, verb: RulingVerb, look: Look) -> bool:
    """Return True if an operator has ruled on the record, or on what holds instead of it. Retracting what does not hold
    is always possible."""
    if record["body"].get("ruling", {}).get("by") == Authority.OPERATOR:
        return True
    above, chain = record, range(KNOWLEDGE_VALUES if verb is not RulingVerb.RETRACT else 0)
    for _ in chain:
        heir = look(above["superseded_by"]) if above.get("superseded_by") else None
        if heir is None:
            break
        above = heir
    return above is not record and above["body"].get(SHOWN) == Authority.OPERATOR


def rule(
    settings: Settings,
    store: Store,
    record: Json,
    verb: RulingVerb,
    said: RulingRequest,
    subject: str = "",
    look: Look = lambda _: None,
) -> Ruling:
    """Rules on a record: the ruling is in the log. Raises RulingError, and what reading Kafka raises."""
    names = record["source_memory_ids"] if verb is RulingVerb.CORRECT else []
    found = store.get_contributions(record["tenant_id"], names)
    sources = [each for each in found if each is not None]
    ruling = make_ruling(record, verb, said, int(time.time() * 1000), subject, look, sources)
    if len(sources) < len(names) and not (memory := store.completeness(record["tenant_id"])).complete:
        raise UnknownSourcesError(f"memory does not know yet what this rests on ({memory}): ask again when it does")
    append_ruling(settings, ruling)
    return ruling


def _with_value(known: KnowledgeRecord, value: str) -> str:
    old = str(known.body.get("object", ""))
    if not value:
        raise RulingError("a correction needs a text or a value")
    if not old or old not in known.text:
        raise RulingError("its text does not show its value: send the whole text")
    return known.text.replace(old, value)


def _value_in(known: KnowledgeRecord, text: str) -> str:
    """Return what a whole statement says of the record's subject: what stands where the old value stood, else what
    reads like it."""
    old = str(known.body.get("object", ""))
    if not old:
        return text
    before, found, after = known.text.partition(old)
    if found and (before or after) and text.startswith(before) and text.endswith(after):
        between = text[len(before) : len(text) - len(after)].strip()
        if between:
            return between
    alike = [c.value for c in claims(text, USER) if c.predicate == known.body.get("predicate") and c.value]
    if not alike:
        raise RulingError("the text does not show the new value: give the value, too")
    return alike[0]


def earlier(record: Json) -> str | None:
    """Returns the verb of the ruling that stands so far; a later one replaces it."""
    ruling = record["body"].get("ruling")
    return None if ruling is None else str(ruling["verb"])
