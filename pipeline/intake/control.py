"""Control records of our own (ticks, barriers, what operators decide or import), authenticated by a header with an HMAC
of the value."""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

import orjson

from pipeline.contracts.envelope import Envelope
from pipeline.contracts.evidence import Archive
from pipeline.contracts.fingerprint import Import
from pipeline.contracts.headers import AUTHENTICATION, REROUTED_FROM, Headers, header
from pipeline.contracts.ids import content_id
from pipeline.contracts.instants import format_ms
from pipeline.contracts.keys import ARCHIVE, BARRIER, CONTROL_TENANT, IMPORT, TICK
from pipeline.contracts.versions import HMX_VERSION


def signature(key: str, value: bytes) -> bytes:
    return hmac.new(key.encode(), value, hashlib.sha256).hexdigest().encode()


def authentic(key: str, value: bytes, headers: Headers) -> bool:
    """Was this control record written by a process that holds the deployment's key?"""
    claimed = header(headers, AUTHENTICATION)
    return claimed is not None and hmac.compare_digest(claimed, signature(key, value))


def reroute_header(key: str, partition: int, offset: int, value: bytes) -> tuple[str, bytes]:
    """Marks a rerouted event's copy with the position of the first one, in a way that nobody else can."""
    place = b"%d:%d" % (partition, offset)
    return REROUTED_FROM, place + b":" + signature(key, place + b":" + value)


def rerouted_from(headers: Headers) -> tuple[int, int] | None:
    """The first position that a copy claims, as (partition, offset); None where nothing readable is claimed."""
    parts = (header(headers, REROUTED_FROM) or b"").split(b":")
    readable = len(parts) == 3 and all(part.isdigit() and len(part) < 20 for part in parts[:2])  # any more is no offset
    return (int(parts[0]), int(parts[1])) if readable else None


def is_rerouted_copy(key: str, value: bytes, headers: Headers) -> bool | None:
    """True: a copy of ours; False: it claims to be one and is not; None: no such claim."""
    claimed = header(headers, REROUTED_FROM)
    if claimed is None:
        return None
    place = rerouted_from(headers)
    return place is not None and hmac.compare_digest(claimed, reroute_header(key, *place, value)[1])


def is_control(event: Envelope) -> bool:
    return event.tenant_id == CONTROL_TENANT and event.event_type in (TICK, BARRIER, ARCHIVE, IMPORT)


def tick(partition: int, now_ms: int) -> bytes:
    """A valid event that says nothing but that time has passed; `now_ms` only makes its id."""
    return _control(TICK, content_id(now_ms, TICK, str(partition)), partition, now_ms, {})


def barrier(barrier_id: str, partition: int, now_ms: int) -> bytes:
    """A valid event that passes a stage only when everything before it is out."""
    event_id = content_id(now_ms, BARRIER, barrier_id, str(partition))
    return _control(BARRIER, event_id, partition, now_ms, {"barrier_id": barrier_id})


def archive(archived: Archive, partition: int, now_ms: int) -> bytes:
    """A valid event that takes an artifact's pattern out of use for good."""
    event_id = content_id(now_ms, ARCHIVE, archived.tenant_id, archived.artifact_id)
    return _control(ARCHIVE, event_id, partition, now_ms, archived.model_dump())


def archived_by(content: Mapping[str, Any]) -> Archive:
    """What an authentic archive event has decided; what it does not say is empty."""
    return Archive(**{name: str(content.get(name, "")) for name in Archive.model_fields})


def importing(given: Import, partition: int, now_ms: int) -> bytes:
    """A valid event that gives a tenant an artifact that was learnt elsewhere."""
    about = (given.tenant_id, given.agent_id, given.pattern, given.fingerprint_hash)
    event_id = content_id(now_ms, IMPORT, *about)
    return _control(IMPORT, event_id, partition, now_ms, given.model_dump(mode="json", exclude_none=True))


def _control(event_type: str, event_id: str, partition: int, now_ms: int, content: dict[str, Any]) -> bytes:
    return orjson.dumps(
        {
            "hmx_version": HMX_VERSION,
            "event_id": event_id,
            "event_type": event_type,
            "agent_id": CONTROL_TENANT,
            "tenant_id": CONTROL_TENANT,
            "session_id": f"partition-{partition}",
            "timestamp": format_ms(now_ms),
            "sequence": 0,
            "content": content,
            "metadata": {},
        }
    )
