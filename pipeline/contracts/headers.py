"""Names of record headers, and the headers of everything that the pipeline writes.

Each record on a topic is a CloudEvent in Kafka's binary mode: `ce_source` and `ce_id` together name it, and say where
it comes from. An event's source is its session and its id the event's own; of all else the source is the partition
that was read, the id begins with the offset there. So a replay mints the same ids.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from pipeline.contracts.keys import join_key

Headers = Sequence[tuple[str, bytes]]

CONTENT_TYPE: Final = "content-type"
ORIGIN_PARTITION: Final = "hmx-origin-partition"
ORIGIN_OFFSET: Final = "hmx-origin-offset"
KIND: Final = "hmx-kind"
CONTROL_KINDS: Final = (b"tick", b"barrier", b"archive", b"import")
"""Values of KIND on the evidence topic that are no contribution."""
AUTHENTICATION: Final = "hmx-authentication"
REROUTED_FROM: Final = "hmx-rerouted-from"
"""On a rerouted event's copy: where it stood first, and our signature."""
ORIGIN_TOPIC: Final = "hmx-origin-topic"
FIRST_ORIGIN: Final = "hmx-first-origin"
"""On a dead letter that was sent back: where the record stood in the events topic when it was rejected."""
REASON: Final = "hmx-reason"
STEP: Final = "hmx-step"
PATH: Final = "hmx-path"
DETAIL: Final = "hmx-detail"
LOG_TIME: Final = "hmx-log-time"
OMITTED: Final = "hmx-omitted"
"""On a dead letter that stands for a record too large for one: how many bytes were left out."""

CE_SPECVERSION: Final = "ce_specversion"
CE_TYPE: Final = "ce_type"
CE_SOURCE: Final = "ce_source"
CE_ID: Final = "ce_id"
TRACEPARENT: Final = "traceparent"
"""W3C Trace Context: passes from an event to what it causes."""

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

JSON: Final = (CONTENT_TYPE, b"application/json")
CLOUD_EVENT: Final = (CE_SPECVERSION, b"1.0")
EVENT_NAME_BYTES: Final = 2_048
PARTITIONS_REMEMBERED: Final = 4_096
_TRACEPARENT: Final = re.compile(rb"(?!ff)([0-9a-f]{2})-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
_TRACEPARENT_BYTES: Final = 128


def event_headers(tenant_id: str, session_id: str, event_id: str) -> list[tuple[str, bytes]]:
    """Of an event on its way into the log. Ids are percent-encoded, as in keys: a CloudEvent's have no line breaks.

    Very long ones stay out of headers, so that a record that fits with its key fits with these too.
    """
    source, own = f"/{join_key(tenant_id, session_id)}".encode(), join_key(event_id).encode()
    if len(source) + len(own) > EVENT_NAME_BYTES:
        return [JSON]
    return [JSON, CLOUD_EVENT, (CE_TYPE, EVENT), (CE_SOURCE, source), (CE_ID, own)]


@lru_cache(maxsize=PARTITIONS_REMEMBERED)
def _of_partition(kind: bytes, source: str, partition: int) -> Headers:
    """What all of a kind that comes from one partition have in common."""
    place = f"/{source}/{partition}".encode()
    return (JSON, CLOUD_EVENT, (CE_TYPE, kind), (CE_SOURCE, place), (ORIGIN_PARTITION, b"%d" % partition))


def output_headers(
    kind: bytes, source: str, partition: int, offset: int, what: str | None = None
) -> list[tuple[str, bytes]]:
    """Of what a record of the source topic has become; or, with `what`, of one of several things that its arrival has
    caused: a barrier's id, a `fingerprint`."""
    at = b"%d" % offset
    own = at if what is None else b"%d-%s" % (offset, join_key(what).encode())
    return [*_of_partition(kind, source, partition), (ORIGIN_OFFSET, at), (CE_ID, own)]


def tick_headers(source: str, partition: int, now_ms: int) -> list[tuple[str, bytes]]:
    """Of a tick on a topic that holds no events; it says that time has passed in that partition."""
    *common, _no_origin = _of_partition(EVIDENCE_TICK, source, partition)
    return [*common, (CE_ID, b"tick-%d" % now_ms), (KIND, b"tick")]


def fingerprint(*parts: bytes) -> str:
    """Of a record's key and value, or of its value where that names the key."""
    return hashlib.blake2b(b"\0".join(parts), digest_size=8).hexdigest()


def traceparent(headers: Headers) -> bytes | None:
    """The trace that a record belongs to, as its producer says; None where what it says is none."""
    found = header(headers, TRACEPARENT) if headers else None
    return found if found is not None and is_trace(found) else None


def is_trace(value: bytes) -> bool:
    """Has it the form of a traceparent (W3C Trace Context §3.2), with ids that are not all zeros?"""
    match = _TRACEPARENT.fullmatch(value) if len(value) <= _TRACEPARENT_BYTES else None
    return match is not None and not (match[1] == b"00" and match[2])


def trace_headers(value: bytes | None) -> list[tuple[str, bytes]]:
    """The header that passes a trace on; none where there is none."""
    return [(TRACEPARENT, value)] if value and is_trace(value) else []


def header(headers: Iterable[tuple[str, bytes]] | None, name: str) -> bytes | None:
    """The last header of that name: ours are appended after whatever a producer sent."""
    found = None
    for key, value in headers or ():
        if key == name:
            found = value
    return found
