"""Record headers: their names, and the CloudEvents headers of everything that the pipeline writes.

Input: an event's ids, or the place of the input that an output is made of; or a record's headers. Output: headers in
order; or of those given one value, the origin or the trace, None if missing or malformed. Each record is a CloudEvent
in Kafka's binary mode: `ce_source` and `ce_id` together identify it and its origin. For an event they are its session
and its event id. For other records the source is the input partition, and the id begins with the input offset, so a
replay gives the same ids.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from hmx_pipeline.contracts.keys import join_key

Headers = Sequence[tuple[str, bytes]]

CONTENT_TYPE: Final = "content-type"
ORIGIN_PARTITION: Final = "hmx-origin-partition"
ORIGIN_OFFSET: Final = "hmx-origin-offset"
KIND: Final = "hmx-kind"
CONTROL_KINDS: Final = (b"tick", b"barrier", b"archive", b"import", b"ruling", b"erasure", b"tenant")
"""Values of KIND on the evidence topic that are no contribution."""
AUTHENTICATION: Final = "hmx-authentication"
AGENT_UNPROVEN: Final = "hmx-agent-unproven"
"""On an event that the service took with a key that is not bound to the event's agent."""
REROUTED_FROM: Final = "hmx-rerouted-from"
"""On the copy of a rerouted event: its first position, and our signature."""
ORIGIN_TOPIC: Final = "hmx-origin-topic"
FIRST_ORIGIN: Final = "hmx-first-origin"
"""On a dead letter that was sent back: its position in the events topic when it was rejected."""
REASON: Final = "hmx-reason"
STEP: Final = "hmx-step"
PATH: Final = "hmx-path"
DETAIL: Final = "hmx-detail"
LOG_TIME: Final = "hmx-log-time"
OMITTED: Final = "hmx-omitted"
"""On a dead letter without its value, which was too large: how many bytes were left out."""

CE_SPECVERSION: Final = "ce_specversion"
CE_TYPE: Final = "ce_type"
CE_SOURCE: Final = "ce_source"
CE_ID: Final = "ce_id"
TRACEPARENT: Final = "traceparent"
"""W3C Trace Context header, passed from an event to what it causes."""

EVENT: Final = b"hmx.event"
EPISODE: Final = b"hmx.episode"
CONTRIBUTION: Final = b"hmx.contribution"
ARTIFACT: Final = b"hmx.artifact"
KNOWN: Final = b"hmx.knowledge"
DEAD_LETTER: Final = b"hmx.dead-letter"
EVIDENCE_BARRIER: Final = b"hmx.evidence-barrier"
EVIDENCE_TICK: Final = b"hmx.evidence-tick"
EVIDENCE_ARCHIVE: Final = b"hmx.evidence-archive"
EVIDENCE_IMPORT: Final = b"hmx.evidence-import"
EVIDENCE_RULING: Final = b"hmx.evidence-ruling"
EVIDENCE_ERASURE: Final = b"hmx.evidence-erasure"
ERASURE: Final = b"hmx.erasure"
EVIDENCE_TENANT: Final = b"hmx.evidence-tenant"

JSON: Final = (CONTENT_TYPE, b"application/json")
CLOUD_EVENT: Final = (CE_SPECVERSION, b"1.0")
EVENT_NAME_BYTES: Final = 2_048
PARTITIONS_REMEMBERED: Final = 4_096
_TRACEPARENT: Final = re.compile(rb"(?!ff)([0-9a-f]{2})-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
_TRACEPARENT_BYTES: Final = 128


def event_headers(tenant_id: str, session_id: str, event_id: str) -> list[tuple[str, bytes]]:
    """Return the headers of an event that is appended to the log. Ids are percent-encoded as in keys, because
    CloudEvents ids have no line breaks. Very long ids are left out, so that a record that fits with its key also fits
    with headers."""
    source, own = f"/{join_key(tenant_id, session_id)}".encode(), join_key(event_id).encode()
    if len(source) + len(own) > EVENT_NAME_BYTES:
        return [JSON]
    return [JSON, CLOUD_EVENT, (CE_TYPE, EVENT), (CE_SOURCE, source), (CE_ID, own)]


@lru_cache(maxsize=PARTITIONS_REMEMBERED)
def _of_partition(kind: bytes, source: str, partition: int) -> Headers:
    """Return the headers that all records of a kind from one partition share."""
    place = f"/{source}/{partition}".encode()
    return (JSON, CLOUD_EVENT, (CE_TYPE, kind), (CE_SOURCE, place), (ORIGIN_PARTITION, b"%d" % partition))


def output_headers(
    kind: bytes, source: str, partition: int, offset: int, what: str | None = None
) -> list[tuple[str, bytes]]:
    """Return the headers of an output. `what` distinguishes several outputs of one input: a barrier's id, a
    `fingerprint`."""
    at = b"%d" % offset
    own = at if what is None else b"%d-%s" % (offset, join_key(what).encode())
    return [*_of_partition(kind, source, partition), (ORIGIN_OFFSET, at), (CE_ID, own)]


def tick_headers(source: str, partition: int, now_ms: int) -> list[tuple[str, bytes]]:
    """Return the headers of a tick on a topic without events. It says that time has passed in the partition."""
    *common, _no_origin = _of_partition(EVIDENCE_TICK, source, partition)
    return [*common, (CE_ID, b"tick-%d" % now_ms), (KIND, b"tick")]


def fingerprint(*parts: bytes) -> str:
    """Hash a record's key and value, or its value alone if that contains the key."""
    return hashlib.blake2b(b"\0".join(parts), digest_size=8).hexdigest()


def traceparent(headers: Headers) -> bytes | None:
    """Return the producer's traceparent; None if missing or malformed."""
    found = header(headers, TRACEPARENT) if headers else None
    return found if found is not None and is_trace(found) else None


def is_trace(value: bytes) -> bool:
    """Return True for a valid traceparent (W3C Trace Context §3.2) with non-zero ids."""
    match = _TRACEPARENT.fullmatch(value) if len(value) <= _TRACEPARENT_BYTES else None
    return match is not None and not (match[1] == b"00" and match[2])


def trace_headers(value: bytes | None) -> list[tuple[str, bytes]]:
    """Return the header that passes a trace on; empty without one."""
    return [(TRACEPARENT, value)] if value and is_trace(value) else []


def header(headers: Iterable[tuple[str, bytes]] | None, name: str) -> bytes | None:
    """Return the last header with this name, because ours are appended after the producer's."""
    found = None
    for key, value in headers or ():
        if key == name:
            found = value
    return found


def origin_of(headers: Headers | None) -> tuple[int, int] | None:
    """Return partition and offset of the input that an output came from; None if they are missing or malformed."""
    last = dict(headers or ())  # of repeated headers the last one counts, as in `header`
    partition, offset = last.get(ORIGIN_PARTITION) or b"", last.get(ORIGIN_OFFSET) or b""
    return (int(partition), int(offset)) if partition.isdigit() and offset.isdigit() else None
