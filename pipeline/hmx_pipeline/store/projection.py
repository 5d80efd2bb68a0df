"""Projection of a topic record to memory changes. Pure.

Enters: records. Leaves: their changes (see store.changes): idempotent writes, and appends that the guard on the
position lets through once (see store.atomic_blocks). Raises ProjectionError for a malformed record, before gathering
anything of it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec
import orjson

from hmx_pipeline.advice.similar_sessions import PRECEDENTS, precedent_terms
from hmx_pipeline.contracts.artifact import owner_of
from hmx_pipeline.contracts.episode import NOBODY_KNOWN, RESERVED
from hmx_pipeline.contracts.evidence import Pattern, segment_rank
from hmx_pipeline.contracts.headers import CONTROL_KINDS, KIND, Headers, header, origin_of
from hmx_pipeline.contracts.keys import encoded, split_key
from hmx_pipeline.contracts.knowledge import SEARCHED
from hmx_pipeline.contracts.ledger import REINFORCES
from hmx_pipeline.contracts.memory_types import LEDGER
from hmx_pipeline.contracts.options import HOLDS, Kind, Standing, Status
from hmx_pipeline.retrieval import searchable
from hmx_pipeline.retrieval.memory_index import IndexEntry, KnowledgeIndexEntry, Ranked
from hmx_pipeline.retrieval.postings import document_number, pack_row
from hmx_pipeline.retrieval.vectors import Embed, document_vectors, pack_vector
from hmx_pipeline.store.changes import SESSION_MESSAGES, Changes, Command, Listed, TenantChanges
from hmx_pipeline.store.redis_keys import Keys
from hmx_pipeline.topology import ARTIFACTS, EPISODES, ERASURES, EVIDENCE, KNOWLEDGE

_ENCODER: Final = msgspec.msgpack.Encoder()
_UNSCORED_BITS: Final = 11
"""Rank bits dropped, since sorted set scores are doubles."""
RANKS: Final = 2 ** (64 - _UNSCORED_BITS)
"""Exclusive upper bound of evenly distributed scores."""

CardOf = Callable[[bytes, dict[str, Any]], tuple[str, str, bytes | None]]
"""Returns the status, the kind and the index entry of a record; None if it is not searched."""


class ProjectionError(Exception):
    """A record is malformed; the message quotes no value."""


class TopicRecord(NamedTuple):
    topic: str
    """Topic name without the prefix."""
    partition: int
    offset: int
    key: bytes
    value: bytes | None
    headers: Headers | None = None


def commands_of(keys: Keys, records: Iterable[TopicRecord], embed: Embed | None = None) -> list[Command]:
    """Returns the commands of one block. Raises ProjectionError."""
    changes = Changes(keys, embed)
    for record in records:
        project(changes, record)
    return changes.commands()


def project(changes: Changes, record: TopicRecord) -> None:
    """Gathers the changes of a record. Raises ProjectionError."""
    try:
        _PROJECTIONS[record.topic](changes, record)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ProjectionError(f"not what {record.topic} holds: {type(error).__name__}") from error


def project_episode(changes: Changes, record: TopicRecord) -> None:
    """Stores an event by id, its session's recent steps, and its text for search."""
    value, fields = _read(record)
    if changes.hides is not None and changes.hides.hides_episode(fields):
        return
    tenant = changes.of(fields["metadata"][RESERVED]["tenant_id"])
    step = searchable.episode_step(fields)
    session, subject = fields["sessionId"], step.subject
    event, (name, steps, messages) = encoded(fields["id"]).encode(), tenant.session(session)
    done, said, found = searchable.session_step(step), searchable.spoken_step(step), searchable.document(fields, step)
    packed = None if done is None else _ENCODER.encode(done)
    spoken = None if said is None else _ENCODER.encode(said)
    expires = searchable.expiry(fields, step.at)
    indexed = None
    if found is not None:
        vectors = document_vectors(fields, found.text, changes.embed)
        number, words = document_number(record.partition, record.offset), searchable.document_terms(found)
        row = pack_row(number, session, found.at, len(words), subject)
        indexed = (number, _ENCODER.encode(found), row, words, searchable.document_labels(fields))
    tenant.version(record.topic, record.partition, record.offset)
    tenant.event(event, name, value, 0 if fields["eventType"] == REINFORCES else step.at)
    if subject not in ("", NOBODY_KNOWN):
        tenant.assign(session, subject)
    if expires is not None:
        tenant.expires(fields["id"].encode(), expires)
    if packed is not None:
        tenant.step(steps, step.index, packed)
    if spoken is not None:
        tenant.step(messages, step.index, spoken, SESSION_MESSAGES)
    if indexed is not None:
        tenant.document(*indexed)
        for vector in vectors:
            tenant.vector(vector.space, pack_vector(indexed[0], vector.values))


def project_contribution(changes: Changes, record: TopicRecord) -> None:
    """Stores a contribution by id while it is in its samples, and its index entry for similar sessions."""
    if header(record.headers, KIND) in CONTROL_KINDS:
        return
    value, fields = _read(record)
    if changes.hides is not None and changes.hides.hides_contribution(fields, origin_of(record.headers)):
        return
    tenant = changes.of(fields["tenant_id"])
    name, pattern = fields["contribution_id"], Pattern(fields["pattern_type"], fields["pattern_key"])
    score = sample_score(fields["session_id"], fields["segment_id"])
    precedes = pattern in PRECEDENTS
    card = _precedent_card(value, fields, score) if precedes else None
    tenant.contribution(pattern.text, name, score, value)
    if precedes:
        tenant.precedent(name, record.partition, record.offset, card)
    tenant.version(record.topic, record.partition, record.offset)


def sample_score(session_id: str, segment_id: str) -> int:
    """Returns the score of a segment's contributions in samples."""
    return segment_rank(session_id, segment_id) >> _UNSCORED_BITS


def _precedent_card(value: bytes, fields: dict[str, Any], score: int) -> bytes | None:
    terms = precedent_terms(fields)
    if not terms:
        return None
    labels, subject = searchable.contribution_labels(fields), fields.get("subject", "")
    about = _about(value, fields["pattern_type"], fields["last_at"], labels, terms, subject)
    return _ENCODER.encode(Ranked(*about, score))


def project_artifact(changes: Changes, record: TopicRecord) -> None:
    """Stores an artifact by id and status, and an index entry while it is or was active (HMX-A §5)."""
    tenant, name, state = _listed(changes, record, _artifact_card)
    tenant.artifact(name, state)


def project_knowledge(changes: Changes, record: TopicRecord) -> None:
    """Stores a knowledge record by id and status, and an index entry until it is withdrawn."""
    tenant, name, state = _listed(changes, record, _knowledge_card)
    tenant.knowledge(name, state)


def _listed(changes: Changes, record: TopicRecord, card_of: CardOf) -> tuple[TenantChanges, str, Listed]:
    """Returns the tenant, the id, and the state of a record that its key names; without a value it is deleted."""
    tenant_id, name = split_key(record.key.decode())
    tenant, state = changes.of(tenant_id), Listed(record.partition, record.offset, None)
    if record.value is not None:
        value, fields = _read(record)
        status, kind, card = card_of(value, fields)
        state = state._replace(value=value, status=status, type=kind.encode(), card=card)
    tenant.version(record.topic, record.partition, record.offset)
    return tenant, name, state


def _artifact_card(value: bytes, fields: dict[str, Any]) -> tuple[str, str, bytes | None]:
    status, kind, card = Status(fields["status"]), fields["artifact_type"], None
    if searchable.is_searched(fields):
        labels, terms = searchable.artifact_labels(fields), searchable.artifact_terms(fields)
        about = _about(value, kind, searchable.artifact_time(fields), labels, terms, owner_of(fields))
        card = _ENCODER.encode(IndexEntry(*about))
    return status, kind, card


def _knowledge_card(value: bytes, fields: dict[str, Any]) -> tuple[str, str, bytes | None]:
    status, kind, card = Standing(fields["status"]), Kind(fields["kind"]), None
    if status in SEARCHED and fields["body"].get("entity_type") != LEDGER:  # a question's words never find it
        labels, terms = searchable.knowledge_labels(fields), searchable.knowledge_terms(fields)
        since, subject = searchable.knowledge_time(fields), fields.get("subject_id") or ""
        about = _about(value, kind if status in HOLDS else "", since, labels, terms, subject)
        card = _ENCODER.encode(KnowledgeIndexEntry(*about, searchable.corrected(fields)))
    return status, kind, card


def _about(
    value: bytes, kind: str, at: int, labels: Iterable[str], terms: Iterable[str], subject: str = ""
) -> tuple[bytes, str, int, tuple[str, ...], dict[str, int], str]:
    digest = blake2b(value, digest_size=16).digest()
    return digest, str(kind), at, tuple(labels), dict(sorted(Counter(terms).items())), subject


_PROJECTIONS: Final[Mapping[str, Callable[[Changes, TopicRecord], None]]] = {
    ERASURES: lambda _, __: None,
    EPISODES: project_episode,
    EVIDENCE: project_contribution,
    ARTIFACTS: project_artifact,
    KNOWLEDGE: project_knowledge,
}


def _read(record: TopicRecord) -> tuple[bytes, dict[str, Any]]:
    if record.value is None:
        raise ValueError("no value")
    fields = orjson.loads(record.value)
    if not isinstance(fields, dict):
        raise TypeError("no object")
    return record.value, fields
