"""Every key in Redis, also those that scripts make.

A tenant's keys carry its percent-encoded name as hash tag, so that no tenant's name reaches another's keys.

Enters: the settings' prefix. `LAYOUT` and the version of the terms are part of every key: what was written under other
rules is not read, and is built anew from the topics.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pipeline.contracts.keys import encoded
from pipeline.retrieval.terms import VERSION
from pipeline.topology import ARTIFACTS, EPISODES, EVIDENCE, KNOWLEDGE

LAYOUT: Final = 13

KINDS: Final[Mapping[str, Mapping[str, str]]] = {
    EPISODES: {
        **dict.fromkeys(("event", "vector"), "list"),
        **dict.fromkeys(("session", "spoken", "newest", "expiring"), "zset"),
        **dict.fromkeys(("rows", "unsearched", "term", "tag"), "string"),
        **dict.fromkeys(("documents", "edigests"), "hash"),
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
"""What follows the tenant in the keys that a topic fills, and their type."""


@dataclass(frozen=True, slots=True)
class TenantKeys:
    """The keys of one tenant."""

    root: str

    def _key(self, kind: str, name: str | None = None) -> bytes:
        return (f"{self.root}:{kind}" if name is None else f"{self.root}:{kind}:{encoded(name)}").encode()

    @property
    def version(self) -> bytes:
        """Hash: topic/partition → offset of the tenant's last record there."""
        return self._key("version")

    @property
    def newest(self) -> bytes:
        """Sorted set of one member, `at`: the newest event time in milliseconds."""
        return self._key("newest")

    @property
    def expiring(self) -> bytes:
        """Sorted set of the ids of events with a time to live by when it ends, milliseconds."""
        return self._key("expiring")

    def captures(self, session_id: str) -> bytes:
        """Hash: who appends captures to the session, who is next, and the last sequence."""
        return self._key("captures", session_id)

    def captured(self, event_id: str) -> bytes:
        """String: an event of an idempotency key was appended lately."""
        return self._key("captured", event_id)

    def digests(self, kind: str) -> bytes:
        """Hash: id, percent-encoded → digest of the records of that kind (see `digests`). Kinds: event, contribution,
        artifact, knowledge."""
        return self._key(f"{kind[0]}digests")

    def event(self, event_id: str) -> bytes:
        """List: of every episode with that id its session, percent-encoded, and the episode itself. Of more than one
        session: the id is ambiguous."""
        return self._key("event", event_id)

    def session(self, session_id: str) -> bytes:
        """Sorted set of a session's recent steps by their index."""
        return self._key("session", session_id)

    def spoken(self, session_id: str) -> bytes:
        """Sorted set of what was said last in a session, by the steps' index."""
        return self._key("spoken", session_id)

    @property
    def documents(self) -> bytes:
        """Hash: document number → document."""
        return self._key("documents")

    @property
    def rows(self) -> bytes:
        """String: a row of each document, in the order in which they came (see retrieval.postings)."""
        return self._key("rows")

    @property
    def unsearched(self) -> bytes:
        """String: how many documents came when the rows were full; none where they are not."""
        return self._key("unsearched")

    def postings(self, term: str) -> bytes:
        """String: postings of the episodes that hold the term, in the same order."""
        return self._key("term", term)

    def tagged(self, label: str) -> bytes:
        """String: numbers of the episodes that have the label: a tag, a session, an agent."""
        return self._key("tag", label)

    def vectors(self, space: str) -> bytes:
        """List of pieces, each some documents' vectors, in the order in which they came (see retrieval.vectors)."""
        return self._key("vector", space)

    def artifact(self, artifact_id: str) -> bytes:
        """String: the artifact as it was published."""
        return self._key("artifact", artifact_id)

    def artifacts(self, status: str) -> bytes:
        """Hash: id → type of the artifacts in that status."""
        return self._key("artifacts", status)

    @property
    def artifact_cards(self) -> bytes:
        """Hash: id of a searched artifact → its card (see retrieval.catalogue)."""
        return self._key("acards")

    def artifact_changes(self, partition: int) -> bytes:
        """Sorted set of ids by the offset of the last record about each; of many the last ones."""
        return self._key("achanges", str(partition))

    def contribution(self, contribution_id: str) -> bytes:
        return self._key("contribution", contribution_id)

    def sample(self, pattern: str) -> bytes:
        """Sorted set of the ids of a pattern's contributions, encoded, by the rank of their segment."""
        return self._key("sample", pattern)

    @property
    def samples(self) -> bytes:
        """Sorted set of `pattern:id`, encoded, of all contributions of the tenant by the same rank."""
        return self._key("samples")

    @property
    def precedent_cards(self) -> bytes:
        """Hash: id of a contribution that tells what was done, encoded → its card."""
        return self._key("pcards")

    def precedent_changes(self, partition: int) -> bytes:
        """Sorted set of these ids by the offset of the last record about each; of many the last ones."""
        return self._key("pchanges", str(partition))

    def knowledge(self, record_id: str) -> bytes:
        """String: the record as it was published."""
        return self._key("knowledge", record_id)

    def known(self, status: str) -> bytes:
        """Hash: id → kind of the records in that status."""
        return self._key("known", status)

    @property
    def knowledge_cards(self) -> bytes:
        """Hash: id of a searched record → its card."""
        return self._key("kcards")

    def knowledge_changes(self, partition: int) -> bytes:
        """Sorted set of ids by the offset of the last record about each; of many the last ones."""
        return self._key("kchanges", str(partition))


@dataclass(frozen=True, slots=True)
class Keys:
    """`prefix` keeps several pipelines on one server apart; it holds no braces, or the hash tag would be lost.
    `semantic` names the model by whose vectors episodes are found, if by any: with another one memory is built anew."""

    prefix: str = ""
    semantic: str = ""

    @property
    def root(self) -> str:
        """How every key begins."""
        rules = f"{self.semantic}.{LAYOUT}.{VERSION}" if self.semantic else f"{LAYOUT}.{VERSION}"
        return f"{encoded(self.prefix)}hmx:{rules}"

    @property
    def positions(self) -> bytes:
        """Hash: topic/partition → position up to which its records are here."""
        return f"{self.root}:positions".encode()

    def guard(self, partition: str) -> bytes:
        """String: the same position of one partition. Whoever writes a block watches it."""
        return f"{self.root}:guard:{partition}".encode()

    @property
    def filling(self) -> bytes:
        """String: new whenever a partition is read from its start or a materialiser begins from the stored positions:
        what a reader knows from before it is forgotten."""
        return f"{self.root}:filling".encode()

    @property
    def goals(self) -> bytes:
        """Hash: topic/partition → `start-end`, the offsets between which its last fill reads."""
        return f"{self.root}:goals".encode()

    @property
    def topics(self) -> bytes:
        """Hash: topic → id of the one that memory was filled from."""
        return f"{self.root}:topics".encode()

    @property
    def forgetting(self) -> bytes:
        """String: the token of the process that forgets what came from topics that are no more (see recreated)."""
        return f"{self.root}:forgetting".encode()

    @property
    def capturing(self) -> bytes:
        """String: from when on captures are taken, microseconds; absent where Redis was emptied (see capturing)."""
        return f"{self.root}:capturing".encode()

    @property
    def damaged(self) -> bytes:
        """Set of the kinds of keys for whose damage memory was built anew; until a look at all of it finds none."""
        return f"{self.root}:damaged".encode()

    @property
    def tenants(self) -> bytes:
        """Set of tenant ids."""
        return f"{self.root}:tenants".encode()

    def tenant(self, tenant_id: str) -> TenantKeys:
        return TenantKeys(f"{self.root}:{{{encoded(tenant_id)}}}")
