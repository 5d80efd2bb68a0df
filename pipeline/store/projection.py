"""A record of a topic → what it changes in memory. No I/O.

Enters: records as they were read. Leaves: their changes (see `changes`): idempotent replacements, and appends that only
the guard on the stored position lets through once (see `blocks`). Fails: ProjectionError for a record that is not what
its topic says; of such a record nothing is gathered.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import orjson

from pipeline.contracts.artifact import Status
from pipeline.contracts.episode import RESERVED
from pipeline.contracts.headers import CONTROL_KINDS, KIND, Headers, header
from pipeline.contracts.keys import split_key
from pipeline.retrieval.documents import (
    artifact_tags,
    artifact_terms,
    document,
    document_tags,
    document_terms,
    episode_step,
    session_step,
)
from pipeline.retrieval.postings import document_number, pack_posting
from pipeline.store.changes import ArtifactState, Changes, Command
from pipeline.store.keys import Keys
from pipeline.topology import ARTIFACTS, EPISODES, EVIDENCE, KNOWLEDGE

_ENCODER: Final = msgspec.msgpack.Encoder()


class ProjectionError(Exception):
    """A record is not what its topic says; the message holds no value of it."""


class Record(NamedTuple):
    topic: str
    """Without the settings' prefix."""
    partition: int
    offset: int
    key: bytes
    value: bytes | None
    headers: Headers | None = None


def commands_of(keys: Keys, records: Iterable[Record]) -> list[Command]:
    """Of one block. Raises ProjectionError."""
    changes = Changes(keys)
    for record in records:
        project(changes, record)
    return changes.commands()


def project(changes: Changes, record: Record) -> None:
    """Raises ProjectionError."""
    try:
        _PROJECTIONS[record.topic](changes, record)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ProjectionError(f"not what {record.topic} holds: {type(error).__name__}") from error


def project_episode(changes: Changes, record: Record) -> None:
    """The event by its id, its session's recent steps, and its text for retrieval."""
    value, fields = _read(record)
    tenant = changes.of(fields["metadata"][RESERVED]["tenant_id"])
    step = episode_step(fields)
    session = fields["sessionId"]
    event_key, session_key = tenant.keys.event(fields["id"]), tenant.keys.session(session)
    done, found = session_step(step), document(fields, step)
    packed = None if done is None else _ENCODER.encode(done)
    indexed = None if found is None else (_ENCODER.encode(found), document_terms(found), document_tags(fields))
    tenant.version(_partition(record), record.offset)
    tenant.event(event_key, session.encode(), value, step.at)
    if packed is not None:
        tenant.step(session_key, step.index, packed)
    if indexed is not None:
        tenant.document(document_number(record.partition, record.offset), *indexed)


def project_contribution(changes: Changes, record: Record) -> None:
    """By its id; what it says reaches memory as artifacts and knowledge."""
    if header(record.headers, KIND) in CONTROL_KINDS:
        return
    value, fields = _read(record)
    tenant = changes.of(fields["tenant_id"])
    tenant.keep(tenant.keys.contribution(fields["contribution_id"]), value)
    tenant.version(_partition(record), record.offset)


def project_artifact(changes: Changes, record: Record) -> None:
    """By its id, by its status, and, while it is active, its text for retrieval (HMX-A §5)."""
    tenant_id, artifact_id = split_key(record.key.decode())
    tenant = changes.of(tenant_id)
    state = ArtifactState(None)
    if record.value is not None:
        value, fields = _read(record)
        held: list[tuple[bytes, bytes]] = []
        if fields["status"] == Status.ACTIVE:
            terms = artifact_terms(fields)
            postings = sorted(Counter(terms).items())
            held = [(tenant.keys.artifact_postings(term), pack_posting(0, n, len(terms))) for term, n in postings]
            held += [(tenant.keys.artifacts_tagged(tag), b"") for tag in artifact_tags(fields)]
        state = ArtifactState(value, Status(fields["status"]), fields["artifact_type"].encode(), held)
    tenant.artifact(artifact_id, state)
    tenant.version(_partition(record), record.offset)


def project_knowledge(changes: Changes, record: Record) -> None:
    """By its id."""
    tenant_id, record_id = split_key(record.key.decode())
    tenant = changes.of(tenant_id)
    value = None if record.value is None else _read(record)[0]
    tenant.keep(tenant.keys.knowledge(record_id), value)
    tenant.version(_partition(record), record.offset)


_PROJECTIONS: Final[Mapping[str, Callable[[Changes, Record], None]]] = {
    EPISODES: project_episode,
    EVIDENCE: project_contribution,
    ARTIFACTS: project_artifact,
    KNOWLEDGE: project_knowledge,
}


def _read(record: Record) -> tuple[bytes, dict[str, Any]]:
    if record.value is None:
        raise ValueError("no value")
    fields = orjson.loads(record.value)
    if not isinstance(fields, dict):
        raise TypeError("no object")
    return record.value, fields


def _partition(record: Record) -> bytes:
    return f"{record.topic}/{record.partition}".encode()
