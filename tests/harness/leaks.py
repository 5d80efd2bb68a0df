"""Where what was erased, or taken by a policy, still stands: topics, Redis, logs and every kind of answer; and receipts
that are false.

Enters: the site at rest, all its topics, and what was erased or taken. Leaves: a line for each place. Compacted topics
are read as compaction leaves them. The retained ones are left out, as the receipts say, but for what follows from an
erasure.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import httpx
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from redis import Redis
from rfc8785 import dumps as canonical

from tests.harness.operators import ANSWER_S, Erasing
from tests.harness.site import Site
from tests.verifier.log import Row, Snapshot
from tests.verifier.memory import read_page
from tests.verifier.rules import (
    ARTIFACTS,
    EPISODES,
    ERASURES,
    EVENTS,
    EVENTS_DLQ,
    EVIDENCE,
    EVIDENCE_DLQ,
    KNOWLEDGE,
    STATE,
)

RETAINED: Final = (EVENTS, EVENTS_DLQ, EPISODES, EVIDENCE, EVIDENCE_DLQ)
STANDINGS: Final = ("active", "unresolved", "resolved", "superseded", "withdrawn")
PAGE: Final = 1_000


def leaks(site: Site, snapshot: Snapshot, erased: list[Erasing], holds: str = "") -> Iterator[str]:
    """`holds`: a topic that still may."""
    words = [one.word.encode() for one in erased]
    log = b"\n".join(row.value or b"" for part in snapshot.topics[EVENTS] for row in part.rows)
    yield from (f"{word.decode()} has never been in the log: nothing is proven" for word in words if word not in log)
    for place, text in _written(site, snapshot, [t for t in (ARTIFACTS, KNOWLEDGE, ERASURES, *STATE) if t != holds]):
        low = text.lower()
        yield from (f"{word.decode()} in {place}" for word in words if word in low)
    with httpx.Client(base_url=site.service_url, timeout=ANSWER_S) as client:
        for one in erased:
            yield from _answered(client, one)
    for one in erased:
        if one.receipt is not None and (fault := _false(one.receipt)):
            yield f"the receipt of {one.word}: {fault}"


def _written(site: Site, snapshot: Snapshot, topics: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Everything that must not name what was erased, with its place."""
    for topic in topics:
        for number, part in enumerate(snapshot.topics[topic]):
            rows = part.rows if topic == ERASURES else _compacted(part.rows)
            yield from ((f"{topic}/{number} offset {row.offset}", _whole(row)) for row in rows)
    for number, part in enumerate(snapshot.topics[EVENTS_DLQ]):
        refused = (row for row in part.rows if row.header("hmx-reason") == b"erased")
        yield from ((f"{EVENTS_DLQ}/{number} offset {row.offset}", _whole(row)) for row in refused)
    for number, part in enumerate(snapshot.topics[EVIDENCE]):
        marks = (row for row in part.rows if row.header("hmx-kind") == b"erasure")
        yield from ((f"{EVIDENCE}/{number} offset {row.offset}", _whole(row)) for row in marks)
    yield from _in_redis(site.settings.redis_url)
    for file in sorted(site.logs.glob("*.log")):
        yield f"the log {file.name}", file.read_bytes()


def _compacted(rows: list[Row]) -> Iterable[Row]:
    last = {row.key: row for row in rows}
    return (row for row in last.values() if row.value is not None)


def _whole(row: Row) -> bytes:
    headers = b" ".join(name.encode() + b"=" + (value or b"") for name, value in row.headers)
    return b" ".join((row.key or b"", row.value or b"", headers))


def _in_redis(url: str) -> Iterator[tuple[str, bytes]]:
    """Every key and every value of any layout; nothing in Redis is compressed."""
    client: Any = Redis.from_url(url, decode_responses=False)
    keys = sorted(set(client.scan_iter(count=PAGE)))
    for start in range(0, len(keys), PAGE):
        for key, value in read_page(client, keys[start : start + PAGE]).items():
            parts: Any = [*value.keys(), *value.values()] if isinstance(value, dict) else value
            text = parts if isinstance(parts, bytes) else b" ".join(part for part in parts if isinstance(part, bytes))
            yield f"Redis {key.decode(errors='replace')[:200]}", key + b" " + text
    client.close()


def _answered(client: httpx.Client, one: Erasing) -> Iterator[str]:
    """Questions that name the word get packs, lists and records without it."""
    client.headers["X-HMX-Tenant"] = one.tenant
    query = f"the {one.word} desk, the {one.word} chair, dw load report --region {one.word}"
    subject = str(one.what.get("subject", f"of-{one.word}"))
    for asked in ({}, {"subject_id": subject}):
        body = {"query": query, "token_budget": 4_000, **asked}
        answer = client.post("/v1/hmx/context-packs", json=body)
        entries: list[dict[str, Any]] = answer.json().get("entries", [])
        if answer.status_code != 200 or any(one.word in str(entry).lower() for entry in entries):
            yield f"{one.word} in a pack ({answer.status_code})"
    exported = client.post("/v1/hmx/fingerprints", json={"tier": "full"})
    if exported.status_code >= 500 or one.word in exported.text.lower():
        yield f"{one.word} in a fingerprint ({exported.status_code})"
    known: dict[str, Any] = {"text": one.word, "status": list(STANDINGS)}
    for path, parameters in (
        ("/v1/hmx/knowledge", known), ("/v1/hmx/artifacts", {}), ("/v1/hmx/events", {}), ("/v1/artifacts", {}),
        ("/v1/hmx/tables/sessions", {}), ("/metrics", {}), ("/v1/hmx/subjects", {}), ("/v1/hmx/counts", {}),
        ("/v1/hmx/dead-letters", {"limit": 100}), ("/v1/hmx/retention", {"policy": "all:1d"}),
        (f"/v1/hmx/sessions/{one.what.get('session', one.word)}", {}),
    ):  # fmt: skip
        answer = client.get(path, params=parameters)
        if answer.status_code >= 500 or one.word in answer.text.lower():
            yield f"{one.word} in {path} ({answer.status_code})"
    for event_id in one.events:
        if client.get(f"/v1/hmx/events/{event_id}").status_code != 404:
            yield f"the event {event_id}"
    for record_id in one.records:
        answer = client.get(f"/v1/hmx/knowledge/{record_id}")
        if one.word in answer.text.lower():
            yield f"{one.word} in knowledge {record_id}"


def _false(receipt: dict[str, Any]) -> str:
    """What is wrong with it, read by another library than the one that signed it."""
    fields = {name: value for name, value in receipt.items() if name != "signature"}
    key, signature = bytes.fromhex(receipt["key"]), bytes.fromhex(receipt["signature"])
    if not _signed(key, signature, fields):
        return "the signature is not its own"
    if _signed(key, signature, fields | {"tenant_id": "another"}):
        return "an altered one passes"
    if lacking := [topic for topic in RETAINED if receipt["last_copy"].get(topic, "never") == "never"]:
        return f"it does not say when the last copy leaves {', '.join(lacking)}"
    return ""


def _signed(key: bytes, signature: bytes, fields: dict[str, Any]) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, canonical(fields))
    except InvalidSignature:
        return False
    return True
