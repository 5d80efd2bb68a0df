"""Episodes: released events as EpisodeTrace records (HMX-E §10), the values of `hmx.episodes.v1`.

Input of `write_episode`: an envelope, its place in the log, and its place in the session's order. Output: the record's
bytes, of which `event_fields` makes the event again. Fields that a trace lacks are stored in `metadata` under one
reserved key, so event → episode → event is lossless.
"""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from pydantic import ConfigDict, Field

from hmx_pipeline.contracts.base import Model
from hmx_pipeline.contracts.envelope import ABSENT, Absent, Envelope
from hmx_pipeline.contracts.event import EXTENSIONS, Event, Name, Natural, Timestamp, Unit
from hmx_pipeline.contracts.ids import too_long

RESERVED: Final = "hmx"
SUBJECT_ID: Final = "subject_id"
SUBJECTS: Final = (SUBJECT_ID, "user_id", "userId")
"""Metadata keys that name the subject of an event, in order of preference."""
NOBODY_KNOWN: Final = "?"
"""Subject of what is somebody's, and nobody knows any more whose: nobody sees it, and it teaches nothing."""
_SUBJECTS: Final = frozenset(SUBJECTS)
_DIRECT: Final = {  # HMX-E §10: event field → trace field
    "event_id": "id",
    "event_type": "eventType",
    "session_id": "sessionId",
    "timestamp": "timestamp",
    "content": "payload",
    "salience": "salienceScore",
    "source": "source",
    "provenance_ref": "provenanceRef",
}
_CARRIED: Final = (*(name for name in Event.model_fields if name not in _DIRECT and name != "metadata"), EXTENSIONS)
_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Origin(msgspec.Struct, frozen=True, gc=False):
    """Position of the event in the events topic."""

    partition: int
    offset: int
    log_time: int
    """Append time in milliseconds."""


class Release(msgspec.Struct, frozen=True, gc=False):
    """The result of ordering."""

    index: int
    """Position in the session's released order."""
    run: int
    """How often the session's sequence has started over."""
    late: bool = False


class _Carried(msgspec.Struct, omit_defaults=True, gc=False):
    """The value of the reserved key in a trace's metadata."""

    hmx_version: str
    agent_id: str
    tenant_id: str
    sequence: int
    origin: Origin
    release: Release
    trace_id: str | Absent = ABSENT
    correlation_id: str | Absent = ABSENT
    parent_event_id: str | Absent = ABSENT
    embeddings: msgspec.Raw | Absent = ABSENT
    tags: list[str] | Absent = ABSENT
    ttl_seconds: int | Absent = ABSENT
    extensions: msgspec.Raw | Absent = ABSENT
    notes: tuple[str, ...] = ()
    redacted: tuple[str, ...] = ()
    shadowed: msgspec.Raw | Absent = ABSENT
    """What the event's own metadata had under this key."""
    subject: str = ""
    """The session's first subject, if the event itself names none."""
    claims: int = 0
    """Of the event that names this subject after others were released: the time of the latest, in milliseconds."""


class _EpisodeWire(msgspec.Struct, gc=False, rename="camel"):
    id: str
    event_type: str
    session_id: str
    timestamp: str
    payload: msgspec.Raw
    metadata: msgspec.Raw
    salience_score: msgspec.Raw | Absent = ABSENT
    source: str | Absent = ABSENT
    provenance_ref: str | Absent = ABSENT


class Episode(Model):
    """`payload` is the event's content; agent, tenant, sequence, origin and release stand in `metadata["hmx"]`."""

    model_config = ConfigDict(populate_by_name=True)

    id: Name
    event_type: Annotated[Name, Field(alias="eventType")]
    session_id: Annotated[Name, Field(alias="sessionId")]
    timestamp: Timestamp
    payload: dict[str, Any]
    salience_score: Annotated[Unit | None, Field(alias="salienceScore")] = None
    source: str | None = None
    provenance_ref: Annotated[str | None, Field(alias="provenanceRef")] = None
    metadata: dict[str, Any]

    @property
    def tenant_id(self) -> str:
        return str(self.metadata[RESERVED]["tenant_id"])

    @property
    def agent_id(self) -> str:
        return str(self.metadata[RESERVED]["agent_id"])

    @property
    def sequence(self) -> Natural:
        return int(self.metadata[RESERVED]["sequence"])

    @property
    def release(self) -> Release:
        return Release(**self.metadata[RESERVED]["release"])

    @property
    def origin(self) -> Origin:
        return Origin(**self.metadata[RESERVED]["origin"])


def write_episode(
    event: Envelope,
    origin: Origin,
    release: Release,
    notes: tuple[str, ...] = (),
    redacted: tuple[str, ...] = (),
    subject: str = "",
    claims: int = 0,
) -> bytes:
    """Write the trace's bytes. Raw fields of the envelope are copied, not serialised again. `subject` is that of an
    event which names none; `claims`: see _Carried."""
    carried = _Carried(
        event.hmx_version, event.agent_id, event.tenant_id, event.sequence, origin, release, event.trace_id,
        event.correlation_id, event.parent_event_id, event.embeddings, event.tags, event.ttl_seconds, event.extensions,
        notes, redacted, subject=subject, claims=claims,
    )  # fmt: skip
    metadata = _with_reserved(bytes(event.metadata), carried)
    return _encode(
        _EpisodeWire(
            event.event_id, event.event_type, event.session_id, event.timestamp, event.content, msgspec.Raw(metadata),
            event.salience, event.source, event.provenance_ref,
        )
    )  # fmt: skip


def _with_reserved(metadata: bytes, carried: _Carried) -> bytes:
    if b'"hmx"' in metadata or b"\\" in metadata:  # an escape sequence may spell the reserved key
        members = _members(metadata)
        if RESERVED in members:
            carried.shadowed = members[RESERVED]
            members[RESERVED] = msgspec.Raw(_encode(carried))
            return _encode(members)
    start = metadata[:-1].rstrip()
    return b"".join((start, b'"hmx":' if start == b"{" else b',"hmx":', _encode(carried), b"}"))


def event_fields(record: dict[str, Any]) -> dict[str, Any]:
    """Convert an episode back to the event as sent; fields of a later minor version are top-level again."""
    carried = dict(record["metadata"][RESERVED])
    fields = {event: record[trace] for event, trace in _DIRECT.items() if trace in record}
    fields.update({name: carried[name] for name in _CARRIED if name in carried})
    metadata = dict(record["metadata"])
    if "shadowed" in carried:
        metadata[RESERVED] = carried["shadowed"]
    else:
        del metadata[RESERVED]
    fields["metadata"] = metadata
    return as_sent(fields)


def named_subject(metadata: dict[str, Any]) -> str:
    """Return the first subject that an event's own metadata names; empty if there is none. A whole number names
    somebody, too. A name too long for an id is replaced by its digest, so that what is said under it stays private."""
    if _SUBJECTS.isdisjoint(metadata):
        return ""
    names = (str(name) if type(name) is int else name for name in (metadata.get(key) for key in SUBJECTS))
    named = next((name for name in names if name and type(name) is str), "")
    return f"sha256:{hashlib.sha256(named.encode()).hexdigest()}" if too_long(named) else named


def subject_of(fields: Mapping[str, Any]) -> str:
    """Return the subject of an event or episode: the one that it names, else that of its session; empty for none."""
    metadata = fields.get("metadata") or {}
    carried = metadata.get(RESERVED)
    return named_subject(metadata) or (str(carried.get("subject", "")) if type(carried) is dict else "")


def is_visible(owner: str, subject: str) -> bool:
    """Return True if a subject may see what is this owner's; without an owner it is the tenant's. Who goes by the name
    of nobody sees nothing more."""
    return owner == "" or owner == subject != NOBODY_KNOWN


def own_session(subject: str, session_id: str) -> str:
    """Return the name of a session that only keys bound to this subject write: nobody takes another's session, or gets
    into it, by its name."""
    prefix = f"{subject.replace('%', '%25').replace('/', '%2F')}/"
    return session_id if session_id.startswith(prefix) else prefix + session_id


def owner_in(session_id: str) -> str:
    """Return the subject that `own_session` has put into the name of a session; of any other name, whatever stands
    there, or nothing."""
    prefix, found, _ = session_id.partition("/")
    return prefix.replace("%2F", "/").replace("%25", "%") if found else ""


def as_sent(fields: dict[str, Any]) -> dict[str, Any]:
    """Return an event's fields as sent: fields of a later minor version are moved to the top level."""
    later: dict[str, Any] = fields.get(EXTENSIONS, {})
    return {**{name: value for name, value in fields.items() if name != EXTENSIONS}, **later} if later else fields
