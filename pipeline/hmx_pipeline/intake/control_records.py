"""Control records (ticks, barriers, operators' decisions) and rerouted copies, authenticated by an HMAC.

Input: the control key with a record's value and headers; or an operator's decision. Output: whether the record is the
pipeline's own; or the JSON of an event of the tenant `_hmx`, which whoever appends it signs (`signature`).
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

from hmx_pipeline.contracts.envelope import Envelope
from hmx_pipeline.contracts.erasure import Erasure
from hmx_pipeline.contracts.evidence import Archive, TenantSettings
from hmx_pipeline.contracts.fingerprint import Import
from hmx_pipeline.contracts.headers import AUTHENTICATION, REROUTED_FROM, Headers, header
from hmx_pipeline.contracts.ids import content_id
from hmx_pipeline.contracts.keys import ARCHIVE, BARRIER, CONTROL_TENANT, ERASE, IMPORT, RULING, TENANT, TICK
from hmx_pipeline.contracts.retention import RETENTION, Retention
from hmx_pipeline.contracts.ruling import Ruling
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.contracts.versions import HMX_VERSION

_KINDS: Final = frozenset((TICK, BARRIER, ARCHIVE, IMPORT, RULING, ERASE, TENANT))


def signature(key: str, value: bytes) -> bytes:
    return hmac.new(key.encode(), value, hashlib.sha256).hexdigest().encode()


def authentic(key: str, value: bytes, headers: Headers) -> bool:
    """Return True if the record was signed with the deployment's key."""
    claimed = header(headers, AUTHENTICATION)
    return claimed is not None and hmac.compare_digest(claimed, signature(key, value))


def reroute_header(key: str, partition: int, offset: int, value: bytes) -> tuple[str, bytes]:
    """Return the header that marks a rerouted copy with the position of the original, signed."""
    place = b"%d:%d" % (partition, offset)
    return REROUTED_FROM, place + b":" + signature(key, place + b":" + value)


def rerouted_from(headers: Headers) -> tuple[int, int] | None:
    """Return the (partition, offset) that a copy claims as its original; None if there is no readable claim."""
    parts = (header(headers, REROUTED_FROM) or b"").split(b":")
    readable = len(parts) == 3 and all(part.isdigit() and len(part) < 20 for part in parts[:2])  # longer is no offset
    return (int(parts[0]), int(parts[1])) if readable else None


def is_rerouted_copy(key: str, value: bytes, headers: Headers) -> bool | None:
    """Return True for a copy of ours, False for a forged one, None for a record that claims nothing."""
    claimed = header(headers, REROUTED_FROM)
    if claimed is None:
        return None
    place = rerouted_from(headers)
    return place is not None and hmac.compare_digest(claimed, reroute_header(key, *place, value)[1])


def is_control(event: Envelope) -> bool:
    return event.tenant_id == CONTROL_TENANT and event.event_type in _KINDS


def tick(partition: int, now_ms: int) -> bytes:
    """Return the event that says that time has passed; `now_ms` only makes its id."""
    return _control(TICK, content_id(now_ms, TICK, str(partition)), partition, now_ms, {})


class AskedBarrier(NamedTuple):
    """A barrier as its event asks for it."""

    barrier_id: str
    tenant_id: str = ""
    """The tenant whose sessions it asks for; empty for all."""
    partitions: int = 0
    """How many partitions of the events topic it stands in; 0 for all."""


def barrier(barrier_id: str, partition: int, now_ms: int, tenant_id: str = "", partitions: int = 0) -> bytes:
    """Return the event that passes a stage only when everything before it has been written."""
    event_id = content_id(now_ms, BARRIER, barrier_id, str(partition))
    own = {"tenant_id": tenant_id, "partitions": partitions} if tenant_id else {}
    return _control(BARRIER, event_id, partition, now_ms, {"barrier_id": barrier_id, **own})


def barrier_in(content: Mapping[str, Any]) -> AskedBarrier:
    """Read an authentic barrier event."""
    tenant_id = str(content.get("tenant_id", ""))
    return AskedBarrier(str(content.get("barrier_id", "")), tenant_id, int(content.get("partitions", 0)))


def archive(archived: Archive, partition: int, now_ms: int) -> bytes:
    """Return the event that takes an artifact's pattern out of use."""
    event_id = content_id(now_ms, ARCHIVE, archived.tenant_id, archived.artifact_id)
    return _control(ARCHIVE, event_id, partition, now_ms, archived.model_dump())


def archived_by(content: Mapping[str, Any]) -> Archive:
    """Read an authentic archive event; missing fields are empty."""
    return Archive(**{name: str(content.get(name, "")) for name in Archive.model_fields})


def importing(given: Import, partition: int, now_ms: int) -> bytes:
    """Return the event that imports an artifact for a tenant."""
    about = (given.tenant_id, given.agent_id, given.pattern, given.fingerprint_hash)
    event_id = content_id(now_ms, IMPORT, *about)
    return _control(IMPORT, event_id, partition, now_ms, given.model_dump(mode="json", exclude_none=True))


def ruling(ruled: Ruling, partition: int) -> bytes:
    """Return the event that confirms, corrects or retracts a knowledge record."""
    event_id = content_id(ruled.at, RULING, ruled.tenant_id, ruled.record_id, ruled.verb)
    return _control(RULING, event_id, partition, ruled.at, ruled.model_dump(mode="json", exclude_none=True))


def erase(erasure: Erasure, partition: int) -> bytes:
    """Return the event that erases a subject, a session or a tenant; each partition of the log gets one."""
    event_id = content_id(erasure.at, ERASE, erasure.erasure_id, str(partition))
    return _control(ERASE, event_id, partition, erasure.at, erasure.model_dump(mode="json"))


def setting(settings: TenantSettings, partition: int, now_ms: int, by: str = "") -> bytes:
    """Return the event that sets how a tenant's subjects share, and whom it trusts; `by` says which operator did."""
    event_id = content_id(now_ms, TENANT, settings.tenant_id, settings.to_json().decode())
    return _control(TENANT, event_id, partition, now_ms, settings.model_dump(exclude_none=True), by)


def retaining(retention: Retention, partition: int, now_ms: int, by: str = "") -> bytes:
    """Return the event that sets what leaves a tenant's memory; each partition of the log gets one."""
    told = retention.model_dump(exclude_none=True)
    event_id = content_id(now_ms, TENANT, retention.tenant_id, retention.to_json().decode(), str(partition))
    return _control(TENANT, event_id, partition, now_ms, {"tenant_id": retention.tenant_id, RETENTION: told}, by)


def _control(
    event_type: str, event_id: str, partition: int, now_ms: int, content: dict[str, Any], by: str = ""
) -> bytes:
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
            "metadata": {"by": by} if by else {},
        }
    )
