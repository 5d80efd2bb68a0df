"""Redis keys: the layout of every key, including those built by Lua scripts.

A tenant's keys carry its percent-encoded name, or its hash, as hash tag, which keeps tenants apart. `LAYOUT` and the
version of the term rules are part of every key: a change of either leaves old keys unread and rebuilds memory from the
topics.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

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


@dataclass(frozen=True, slots=True)
class TenantKeys:
    root: str
    name: str = ""
    """Percent-encoded."""

    def _key(self, kind: str, name: str | None = None) -> bytes:
        return (f"{self.root}:{kind}" if name is None else f"{self.root}:{kind}:{encoded(name)}").encode()

    @property
    def version(self) -> bytes:
        """Hash: topic/partition → offset of the tenant's last record."""
        return self._key("version")

    @property
    def newest(self) -> bytes:
        """Sorted set: one member, `at`, scored by the newest event time (ms)."""
        return self._key("newest")

    @property
    def expiring(self) -> bytes:
        """Sorted set: event id by expiry time (ms)."""
        return self._key("expiring")

    def captures(self, session_id: str) -> bytes:
        """Hash: the process that appends captures to the session, the next one, and the last sequence."""
        return self._key("captures", session_id)

    def captured(self, event_id: str) -> bytes:
        """String: exists if the event of an idempotency key was appended lately."""
        return self._key("captured", event_id)

    def digests(self, kind: str) -> bytes:
        """Hash: percent-encoded id → digest (see store.stored_digests). Kinds: event, contribution, artifact,
        knowledge."""
        return self._key(f"{kind[0]}digests")

    def event(self, event_id: str) -> bytes:
        """List: session (percent-encoded) and episode in turn. With several sessions the id is ambiguous."""
        return self._key("event", event_id)

    def session(self, session_id: str) -> bytes:
        """Sorted set: a session's recent steps by index."""
        return self._key("session", session_id)

    def spoken(self, session_id: str) -> bytes:
        """Sorted set: a session's recent messages by step index."""
        return self._key("spoken", session_id)

    @property
    def subjects(self) -> bytes:
        """Hash: session (percent-encoded) → the first subject that one of its events names."""
        return self._key("subjects")

    @property
    def assigned(self) -> bytes:
        """List: the same in order of arrival, for readers that follow (see retrieval.postings)."""
        return self._key("assigned")

    @property
    def documents(self) -> bytes:
        """Hash: document number → document."""
        return self._key("documents")

    @property
    def rows(self) -> bytes:
        """String: one row per document in order of arrival (see retrieval.postings)."""
        return self._key("rows")

    @property
    def unsearched(self) -> bytes:
        """String: number of documents that came after the rows were full; absent if none."""
        return self._key("unsearched")

    def postings(self, term: str) -> bytes:
        """String: postings of a term, in order of arrival."""
        return self._key("term", term)

    def tagged(self, label: str) -> bytes:
        """String: document numbers of a label: a tag, a session or an agent."""
        return self._key("tag", label)

    def erasing(self, erasure_id: str) -> bytes:
        """String: what an erasure covers, for its receipt; it expires."""
        return self._key("erasing", erasure_id)

    def vectors(self, space: str) -> bytes:
        """List: chunks of document vectors, in order of arrival (see retrieval.vectors)."""
        return self._key("vector", space)

    def artifact(self, artifact_id: str) -> bytes:
        """String: the artifact as published."""
        return self._key("artifact", artifact_id)

    def artifacts(self, status: str) -> bytes:
        """Hash: id → type of the artifacts in a status."""
        return self._key("artifacts", status)

    @property
    def artifact_cards(self) -> bytes:
        """Hash: artifact id → index entry (see retrieval.memory_index)."""
        return self._key("acards")

    def artifact_changes(self, partition: int) -> bytes:
        """Sorted set: recently changed artifact ids by offset."""
        return self._key("achanges", str(partition))

    def contribution(self, contribution_id: str) -> bytes:
        """String: the contribution as published."""
        return self._key("contribution", contribution_id)

    def sample(self, pattern: str) -> bytes:
        """Sorted set: encoded contribution ids of a pattern by segment rank."""
        return self._key("sample", pattern)

    @property
    def samples(self) -> bytes:
        """Sorted set: encoded `pattern:id` of all the tenant's contributions by the same rank."""
        return self._key("samples")

    @property
    def precedent_cards(self) -> bytes:
        """Hash: encoded contribution id → index entry for similar sessions."""
        return self._key("pcards")

    def precedent_changes(self, partition: int) -> bytes:
        """Sorted set: recently changed ids of such contributions by offset."""
        return self._key("pchanges", str(partition))

    def knowledge(self, record_id: str) -> bytes:
        """String: the knowledge record as published."""
        return self._key("knowledge", record_id)

    def known(self, status: str) -> bytes:
        """Hash: id → kind of the knowledge records in a status."""
        return self._key("known", status)

    @property
    def knowledge_cards(self) -> bytes:
        """Hash: knowledge record id → index entry."""
        return self._key("kcards")

    def knowledge_changes(self, partition: int) -> bytes:
        """Sorted set: recently changed knowledge record ids by offset."""
        return self._key("kchanges", str(partition))


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of all tenants. `prefix` separates pipelines on one server and must not contain braces, which would break
    the hash tag. `semantic` names the embedding model; another model rebuilds memory."""

    prefix: str = ""
    semantic: str = ""

    @property
    def root(self) -> str:
        """Prefix of every key."""
        rules = f"{self.semantic}.{LAYOUT}.{VERSION}" if self.semantic else f"{LAYOUT}.{VERSION}"
        return f"{encoded(self.prefix)}hmx:{rules}"

    @property
    def layouts(self) -> bytes:
        """Hash: root of each layout that is there → when it was last used (s). Of all layouts (see store.layouts)."""
        return f"{encoded(self.prefix)}hmx:layouts".encode()

    @property
    def positions(self) -> bytes:
        """Hash: topic/partition → position up to which records are in memory."""
        return f"{self.root}:positions".encode()

    def guard(self, partition: str) -> bytes:
        """String: the same position of one partition, WATCHed by writers."""
        return f"{self.root}:guard:{partition}".encode()

    @property
    def filling(self) -> bytes:
        """String: changes whenever a partition is read from its start or a materialiser begins; readers then drop
        their caches."""
        return f"{self.root}:filling".encode()

    @property
    def goals(self) -> bytes:
        """Hash: topic/partition → `start-end`, the offset range of its last fill."""
        return f"{self.root}:goals".encode()

    @property
    def topics(self) -> bytes:
        """Hash: topic → id of the topic that memory was filled from."""
        return f"{self.root}:topics".encode()

    @property
    def forgetting(self) -> bytes:
        """String: token of the process that deletes data of recreated topics (see store.topic_ids)."""
        return f"{self.root}:forgetting".encode()

    @property
    def capturing(self) -> bytes:
        """String: time (µs) from which captures are accepted; absent after Redis was emptied (see
        store.capture_coordination)."""
        return f"{self.root}:capturing".encode()

    @property
    def damaged(self) -> bytes:
        """Set: kinds of damaged keys that caused a rebuild, until a whole sweep finds no damage."""
        return f"{self.root}:damaged".encode()

    @property
    def tenants(self) -> bytes:
        """Set: tenant ids."""
        return f"{self.root}:tenants".encode()

    def tenant(self, tenant_id: str) -> TenantKeys:
        name = encoded(tenant_id)
        plain = len(name) <= _NAME and name[:1] != "~"  # so no tenant has the name of another's hash
        tag = name if plain else f"~{hashlib.sha256(name.encode()).hexdigest()}"
        return TenantKeys(f"{self.root}:{{{tag}}}", name)
