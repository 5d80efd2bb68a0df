"""Redis keys: the layout of every key, including those built by Lua scripts.

Enters: prefix, embedding model and number of servers; a tenant, and an id or partition. Leaves: keys as bytes. A
tenant's keys carry its percent-encoded name, or its hash, as hash tag, which keeps tenants apart. `LAYOUT` and the
version of the term rules are part of every key: a change of either leaves old keys unread and rebuilds memory from the
topics.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from hmx_pipeline.contracts.keys import encoded
from hmx_pipeline.retrieval.terms import VERSION
from hmx_pipeline.topology import ARTIFACTS, EPISODES, ERASURES, EVIDENCE, KNOWLEDGE

LAYOUT: Final = 15
_NAME: Final = 64
"""Characters of a tenant's name in keys; a longer one is hashed, because every word of a tenant has a key."""

KINDS: Final[Mapping[str, Mapping[str, str]]] = {
    ERASURES: {},
    EPISODES: {
        **dict.fromkeys(("event", "vector", "assigned"), "list"),
        **dict.fromkeys(("session", "spoken", "newest", "expiring"), "zset"),
        **dict.fromkeys(("rows", "unsearched", "term", "tag"), "string"),
        **dict.fromkeys(("documents", "edigests", "subjects"), "hash"),
    },
    EVIDENCE: {
        "contribution": "string",
        **dict.fromkeys(("sample", "samples", "pchanges"), "zset"),
        **dict.fromkeys(("pcards", "cdigests"), "hash"),
    },
    ARTIFACTS: {
        "artifact": "string",
        "achanges": "zset",
        **dict.fromkeys(("artifacts", "acards", "adigests"), "hash"),
    },
    KNOWLEDGE: {
        "knowledge": "string",
        "kchanges": "zset",
        **dict.fromkeys(("known", "kcards", "kdigests"), "hash"),
    },
}
"""Topic → kind of tenant key → Redis type."""


class SingleKey:
    """A key that stands once below its root: its kind, and its Redis type with what it holds."""

    def __init__(self, kind: str, holds: str) -> None:
        self.kind, self.holds = kind, holds

    def __get__(self, keys: "TenantKeys | Keys", _: type) -> bytes:
        return f"{keys.root}:{self.kind}".encode()


class NamedKey:
    """A kind of key with many names, of which `named` says what they are."""

    def __init__(self, kind: str, named: str, holds: str) -> None:
        self.kind, self.named, self.holds = kind, named, holds

    def __get__(self, keys: "TenantKeys", _: type) -> Callable[[str | int], bytes]:
        return lambda name: f"{keys.root}:{self.kind}:{encoded(str(name))}".encode()


@dataclass(frozen=True, slots=True)
class TenantKeys:
    root: str
    name: str = ""
    """Percent-encoded."""

    @property
    def tenant_id(self) -> str:
        return unquote(self.name)

    version = SingleKey("version", "Hash: topic/partition → offset of the tenant's last record.")
    newest = SingleKey("newest", "Sorted set: one member, `at`, scored by the newest event time (ms).")
    expiring = SingleKey("expiring", "Sorted set: event id by expiry time (ms).")
    captures = NamedKey(
        "captures",
        "session_id",
        "Hash: the process that appends captures to the session, the next one, and the last sequence.",
    )
    captured = NamedKey(
        "captured", "event_id", "String: exists if the event of an idempotency key was appended lately."
    )
    event = NamedKey(
        "event",
        "event_id",
        "List: session (percent-encoded) and episode in turn. With several sessions the id is ambiguous.",
    )
    session = NamedKey("session", "session_id", "Sorted set: a session's recent steps by index.")
    spoken = NamedKey("spoken", "session_id", "Sorted set: a session's recent messages by step index.")
    subjects = SingleKey(
        "subjects", "Hash: session (percent-encoded) → the first subject that one of its events names."
    )
    assigned = SingleKey(
        "assigned", "List: the same in order of arrival, for readers that follow (see retrieval.postings)."
    )
    documents = SingleKey("documents", "Hash: document number → document.")
    rows = SingleKey("rows", "String: one row per document in order of arrival (see retrieval.postings).")
    unsearched = SingleKey(
        "unsearched", "String: number of documents that came after the rows were full; absent if none."
    )
    postings = NamedKey("term", "term", "String: postings of a term, in order of arrival.")
    tagged = NamedKey("tag", "label", "String: document numbers of a label: a tag, a session or an agent.")
    erasing = NamedKey("erasing", "erasure_id", "String: what an erasure covers, for its receipt; it expires.")
    vectors = NamedKey(
        "vector", "space", "List: chunks of document vectors, in order of arrival (see retrieval.vectors)."
    )
    artifact = NamedKey("artifact", "artifact_id", "String: the artifact as published.")
    artifacts = NamedKey("artifacts", "status", "Hash: id → type of the artifacts in a status.")
    artifact_cards = SingleKey("acards", "Hash: artifact id → index entry (see retrieval.memory_index).")
    artifact_changes = NamedKey("achanges", "partition", "Sorted set: recently changed artifact ids by offset.")
    contribution = NamedKey("contribution", "contribution_id", "String: the contribution as published.")
    sample = NamedKey("sample", "pattern", "Sorted set: encoded contribution ids of a pattern by segment rank.")
    samples = SingleKey(
        "samples", "Sorted set: encoded `pattern:id` of all the tenant's contributions by the same rank."
    )
    precedent_cards = SingleKey("pcards", "Hash: encoded contribution id → index entry for similar sessions.")
    precedent_changes = NamedKey(
        "pchanges", "partition", "Sorted set: recently changed ids of such contributions by offset."
    )
    knowledge = NamedKey("knowledge", "record_id", "String: the knowledge record as published.")
    known = NamedKey("known", "status", "Hash: id → kind of the knowledge records in a status.")
    knowledge_cards = SingleKey("kcards", "Hash: knowledge record id → index entry.")
    knowledge_changes = NamedKey(
        "kchanges", "partition", "Sorted set: recently changed knowledge record ids by offset."
    )

    def digests(self, kind: str) -> bytes:
        """Hash: percent-encoded id → digest (see store.stored_digests). Kinds: event, contribution, artifact,
        knowledge."""
        return f"{self.root}:{kind[0]}digests".encode()


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of all tenants. `prefix` separates pipelines on one server and must not contain braces, which would break
    the hash tag. `semantic` names the embedding model, and `servers` share the tenants (see store.servers); another
    model or number rebuilds memory."""

    prefix: str = ""
    semantic: str = ""
    servers: int = 1

    @property
    def root(self) -> str:
        """Prefix of every key."""
        rules = f"{self.semantic}.{LAYOUT}.{VERSION}" if self.semantic else f"{LAYOUT}.{VERSION}"
        shared = f".{self.servers}" if self.servers > 1 else ""
        return f"{encoded(self.prefix)}hmx:{rules}{shared}"

    positions = SingleKey("positions", "Hash: topic/partition → position up to which records are in memory.")
    filling = SingleKey(
        "filling",
        "String: changes whenever a partition is read from its start or a materialiser begins; readers then drop "
        "their caches.",
    )
    goals = SingleKey("goals", "Hash: topic/partition → `start-end`, the offset range of its last fill.")
    topics = SingleKey("topics", "Hash: topic → id of the topic that memory was filled from.")
    forgetting = SingleKey(
        "forgetting", "String: token of the process that deletes data of recreated topics (see store.topic_ids)."
    )
    capturing = SingleKey(
        "capturing",
        "String: time (µs) from which captures are accepted; absent after Redis was emptied (see "
        "store.capture_coordination).",
    )
    damaged = SingleKey(
        "damaged", "Set: kinds of damaged keys that caused a rebuild, until a whole sweep finds no damage."
    )
    tenants = SingleKey("tenants", "Set: tenant ids.")

    @property
    def layouts(self) -> bytes:
        """Hash: root of each layout that is there → when it was last used (s). Of all layouts (see store.layouts)."""
        return f"{encoded(self.prefix)}hmx:layouts".encode()

    def guard(self, partition: str) -> bytes:
        """String: the same position of one partition, WATCHed by writers."""
        return f"{self.root}:guard:{partition}".encode()

    def tenant(self, tenant_id: str) -> TenantKeys:
        name = encoded(tenant_id)
        plain = len(name) <= _NAME and name[:1] != "~"  # so no tenant has the name of another's hash
        tag = name if plain else f"~{hashlib.sha256(name.encode()).hexdigest()}"
        return TenantKeys(f"{self.root}:{{{tag}}}", name)
