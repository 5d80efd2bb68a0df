"""A record of the events topic as intake sees it, which is the one room of the pipeline that the reference trusts.

Enters: a row. Leaves: an `Event`, a `Control` or a `Refusal`. Nothing fails.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from hmx_pipeline.contracts.keys import partition_of, session_key
from hmx_pipeline.contracts.rejections import Reason, Rejection
from hmx_pipeline.intake.control_records import authentic, is_control, is_rerouted_copy
from hmx_pipeline.intake.decode import decode
from tests.verifier.log import Row
from tests.verifier.rules import Rules


class Event(NamedTuple):
    """An accepted event; it sorts as HMX-E §7 has it, ties of both by id."""

    sequence: int
    instant: int
    event_id: str
    row: Row
    digest: bytes
    fields: dict[str, Any]
    value: bytes
    """The same as JSON: as its producer wrote it, unless something had to be taken out or set aside."""
    notes: tuple[str, ...]
    redacted: tuple[str, ...]
    session: str
    """Its session's key."""
    home: int
    """Its session's partition."""
    copied: bool
    """The pipeline itself appended it, from another partition."""
    minted: bool
    """Its sequence says only in which order events came."""


class Control(NamedTuple):
    """Of the pipeline itself or of an operator."""

    kind: str
    """`tick`, `barrier`, `archive`, `import`, `ruling`, `erase` or `tenant`."""
    content: dict[str, Any]


class Refusal(NamedTuple):
    rejection: Rejection


def judge(row: Row, rules: Rules, partitions: int) -> Event | Control | Refusal:
    accepted = decode(row.value)
    if isinstance(accepted, Rejection):
        return Refusal(accepted)
    for path, name in named_ids(accepted.fields):
        if len(name.encode()) > 512:
            return Refusal(Rejection(Reason.ID_TOO_LONG, path))
    event = accepted.event
    headers: Any = row.headers
    if accepted.control:
        if is_control(event) and authentic(rules.control_key, row.value or b"", headers):
            return Control(event.event_type.removeprefix("x-hmx-"), accepted.fields["content"])
        return Refusal(Rejection(Reason.RESERVED, "$.tenant_id" if event.tenant_id == "_hmx" else "$.event_type"))
    copied = is_rerouted_copy(rules.control_key, row.value or b"", headers)
    if copied is False:
        return Refusal(Rejection(Reason.FORGED_ORIGIN))
    session = session_key(event.tenant_id, event.session_id)
    return Event(
        event.sequence,
        accepted.instant,
        event.event_id,
        row,
        accepted.digest,
        accepted.fields,
        accepted.value,
        accepted.notes,
        accepted.redacted,
        session,
        partition_of(session, partitions),
        copied is True,
        accepted.fields["metadata"].get("x-hmx-sequence") == "arrival",
    )


def named_ids(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Every id of an event, and its type, with its path. Intake is not trusted: what one costs is paid by all."""
    own = ("event", "agent", "tenant", "session", "trace", "correlation", "parent_event")
    yield from ((f"$.{name}_id", fields.get(f"{name}_id", "")) for name in own)
    yield "$.event_type", fields["event_type"]
    called, subject = fields["content"].get("call_id"), fields["metadata"].get("subject_id")
    if isinstance(called, str) and _CALLS.fullmatch(fields["event_type"]):
        yield "$.content.call_id", called
    if isinstance(subject, str):
        yield "$.metadata.subject_id", subject


_CALLS = re.compile(r"tool_call|tool_result|(x-[A-Za-z0-9_]+-)?tool\.call\.completed")
"""Types whose content names a call."""

_FIRST = {
    "event_id": "id",
    "event_type": "eventType",
    "session_id": "sessionId",
    "timestamp": "timestamp",
    "content": "payload",
}
_OPTIONAL = {"salience": "salienceScore", "source": "source", "provenance_ref": "provenanceRef"}
_CARRIED = (
    "trace_id", "correlation_id", "parent_event_id", "embeddings", "tags", "ttl_seconds", "extensions",
)  # fmt: skip
_AS_WRITTEN = ("content", "metadata", "embeddings", "salience", "extensions")
"""What is copied byte for byte: a number that is read and written again may come out otherwise."""
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_dump = msgspec.json.encode


def named_subject(event: Event) -> str:
    """Of the names that the metadata may have for it, the first that is a text or a whole number; by its digest, if it
    is longer than an id."""
    for key in ("subject_id", "user_id", "userId"):
        name = event.fields["metadata"].get(key)
        text = str(name) if isinstance(name, int) and not isinstance(name, bool) else name
        if isinstance(text, str) and text:
            long = len(text.encode()) > 512
            return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}" if long else text
    return ""


def episode(event: Event, partition: int, index: int, run: int, late: bool, subject: str, claims: int) -> bytes:
    """The EpisodeTrace of HMX-E §10; what it has no field for stands in `metadata.hmx`, after the event's own or in
    the place of what the event has there."""
    raw = _members(event.value)
    fields = {**event.fields, **{name: raw[name] for name in _AS_WRITTEN if name in raw}}
    metadata = bytes(raw["metadata"])
    theirs = _members(metadata)
    own: dict[str, Any] = {name: fields[name] for name in ("hmx_version", "agent_id", "tenant_id", "sequence")}
    own["origin"] = {"partition": partition, "offset": event.row.offset, "log_time": event.row.at}
    own["release"] = {"index": index, "run": run, "late": late}
    own |= {name: fields[name] for name in _CARRIED if name in fields}
    own |= {name: said for name, said in (("notes", event.notes), ("redacted", event.redacted)) if said}
    if "hmx" in theirs:
        own["shadowed"] = theirs["hmx"]
    own |= {"subject": subject} if subject and not named_subject(event) else {}
    own |= {"claims": claims} if claims else {}
    if "hmx" in theirs:
        both = _dump(theirs | {"hmx": msgspec.Raw(_dump(own))})
    else:
        both = metadata[:-1].rstrip() + (b',"hmx":' if theirs else b'"hmx":') + _dump(own) + b"}"
    trace = {name: fields[field] for field, name in _FIRST.items()} | {"metadata": msgspec.Raw(both)}
    return _dump(trace | {name: fields[field] for field, name in _OPTIONAL.items() if field in fields})
