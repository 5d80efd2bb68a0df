"""A record of a topic → the Redis commands that put it into memory. No I/O.

Enters: a record as it was read. Leaves: commands. Each is an idempotent replacement, or an append or count that only
the guard on the stored position lets through once (see `blocks`). Fails: ProjectionError for a record that is not what
its topic says.
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
    event_time,
    session_step,
)
from pipeline.retrieval.postings import document_number, pack_posting
from pipeline.store.keys import Keys, TenantKeys
from pipeline.topology import ARTIFACTS, EPISODES, EVIDENCE, KNOWLEDGE

Command = tuple[bytes, ...]

SESSION_STEPS: Final = 64
"""Recent steps kept per session."""
FORGET: Final = b"FORGET"
"""`FORGET set field`: removes the field from every hash that the set names, and the set. Part of the block's script."""

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


def project(keys: Keys, record: Record) -> list[Command]:
    """Raises ProjectionError."""
    try:
        return _PROJECTIONS[record.topic](keys, record)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ProjectionError(f"not what {record.topic} holds: {type(error).__name__}") from error


def merged(commands: Iterable[Command]) -> list[Command]:
    """Fewer commands to the same effect: the appends to one key in one, and the counts of one field."""
    appends: dict[bytes, list[bytes]] = {}
    counts: Counter[tuple[bytes, bytes]] = Counter()
    others: list[Command] = []
    for command in commands:
        if command[0] == b"APPEND":
            appends.setdefault(command[1], []).append(command[2])
        elif command[0] == b"HINCRBY":
            counts[command[1], command[2]] += int(command[3])
        else:
            others.append(command)
    return [
        *others,
        *((b"APPEND", key, b"".join(parts)) for key, parts in appends.items()),
        *((b"HINCRBY", key, field, b"%d" % n) for (key, field), n in counts.items()),
    ]


def project_episode(keys: Keys, record: Record) -> list[Command]:
    """The event by its id, its session's recent steps, and its text for retrieval."""
    value, fields = _read(record)
    tenant_id = fields["metadata"][RESERVED]["tenant_id"]
    tenant = keys.tenant(tenant_id)
    step = episode_step(fields)
    commands = _seen(keys, tenant, tenant_id, record)
    commands += [
        (b"HSET", tenant.event(fields["id"]), fields["sessionId"].encode(), value),
        (b"ZADD", tenant.newest, b"GT", b"%d" % event_time(fields), b"at"),
    ]
    done = session_step(step)
    if done is not None:
        session = tenant.session(fields["sessionId"])
        commands.append((b"ZADD", session, b"%d" % done.index, _ENCODER.encode(done)))
        commands.append((b"ZREMRANGEBYRANK", session, b"0", b"%d" % (-SESSION_STEPS - 1)))
    found = document(fields, step)
    if found is not None:
        number = document_number(record.partition, record.offset)
        commands.append((b"HSET", tenant.documents, b"%d" % number, _ENCODER.encode(found)))
        commands.append((b"HINCRBY", tenant.count, b"documents", b"1"))
        commands += [
            (b"APPEND", tenant.postings(term), posting) for term, posting in _postings(document_terms(found), number)
        ]
        commands += [(b"APPEND", tenant.tagged(tag), pack_posting(number, 1, 1)) for tag in document_tags(fields)]
    return commands


def project_contribution(keys: Keys, record: Record) -> list[Command]:
    """By its id; what it says reaches memory as artifacts and knowledge."""
    if header(record.headers, KIND) in CONTROL_KINDS:
        return []
    value, fields = _read(record)
    tenant = keys.tenant(fields["tenant_id"])
    return [
        *_seen(keys, tenant, fields["tenant_id"], record),
        (b"SET", tenant.contribution(fields["contribution_id"]), value),
    ]


def project_artifact(keys: Keys, record: Record) -> list[Command]:
    """By its id, by its status, and, while it is active, its text for retrieval (HMX-A §5)."""
    tenant_id, artifact_id = split_key(record.key.decode())
    tenant = keys.tenant(tenant_id)
    commands = [
        *_seen(keys, tenant, tenant_id, record),
        (FORGET, tenant.artifact_terms(artifact_id), artifact_id.encode()),
    ]
    if record.value is None:
        return [*commands, (b"DEL", tenant.artifact(artifact_id)), *_unlisted(tenant, artifact_id)]
    value, fields = _read(record)
    commands.append((b"SET", tenant.artifact(artifact_id), value))
    commands += _unlisted(tenant, artifact_id)
    commands.append(
        (b"HSET", tenant.artifacts(fields["status"]), artifact_id.encode(), fields["artifact_type"].encode())
    )
    if fields["status"] == Status.ACTIVE:
        found = [(tenant.artifact_postings(term), row) for term, row in _postings(artifact_terms(fields), 0)]
        found += [(tenant.artifacts_tagged(tag), b"") for tag in artifact_tags(fields)]
        for held, posting in found:
            commands.append((b"HSET", held, artifact_id.encode(), posting))
            commands.append((b"SADD", tenant.artifact_terms(artifact_id), held))
    return commands


def project_knowledge(keys: Keys, record: Record) -> list[Command]:
    """By its id."""
    tenant_id, record_id = split_key(record.key.decode())
    tenant = keys.tenant(tenant_id)
    commands = _seen(keys, tenant, tenant_id, record)
    if record.value is None:
        return [*commands, (b"DEL", tenant.knowledge(record_id))]
    return [*commands, (b"SET", tenant.knowledge(record_id), _read(record)[0])]


_PROJECTIONS: Final[Mapping[str, Callable[[Keys, Record], list[Command]]]] = {
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


def _seen(keys: Keys, tenant: TenantKeys, tenant_id: str, record: Record) -> list[Command]:
    """The tenant exists, and its state is now as of this record."""
    return [
        (b"SADD", keys.tenants, tenant_id.encode()),
        (b"HSET", tenant.version, f"{record.topic}/{record.partition}".encode(), b"%d" % record.offset),
    ]


def _unlisted(tenant: TenantKeys, artifact_id: str) -> list[Command]:
    return [(b"HDEL", tenant.artifacts(status), artifact_id.encode()) for status in Status]


def _postings(found: list[str], number: int) -> list[tuple[str, bytes]]:
    return [(term, pack_posting(number, n, len(found))) for term, n in sorted(Counter(found).items())]
