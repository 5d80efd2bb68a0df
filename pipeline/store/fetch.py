"""What is read of memory: everything that a plan asks for, and single sources by their id.

Enters: a plan, or a tenant and an id. Leaves: models of contracts/, `Fetched`, or None where nothing is there. Fails:
StoreUnavailableError. Nothing here writes.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, Self, TypeVar

import msgspec
import orjson

from pipeline.contracts.artifact import Artifact, Status
from pipeline.contracts.canonical import content_hash
from pipeline.contracts.evidence import Step
from pipeline.contracts.instants import milliseconds
from pipeline.contracts.knowledge import HOLDS, SEARCHED, Kind, KnowledgeRecord, Standing
from pipeline.contracts.limits import ARTIFACT_VERSIONS
from pipeline.fingerprints.learnt import Learnt
from pipeline.retrieval.documents import Document
from pipeline.retrieval.plan import Plan
from pipeline.retrieval.postings import best, bm25, bm25_named, in_all
from pipeline.retrieval.score import Fetched, Found
from pipeline.settings import Settings
from pipeline.store.blocks import Blocks, Client, connect, reachable
from pipeline.store.keys import Keys, TenantKeys
from pipeline.store.learnt import read_learnt

_DOCUMENT: Final = msgspec.msgpack.Decoder(Document)
_STEP: Final = msgspec.msgpack.Decoder(Step)
CONTRIBUTIONS: Final = 200
"""Read at once: of the largest as much as one block of a topic holds."""
EARLIER: Final = 8
"""Versions before the one that was found, where they are asked for without a time."""
SOURCES: Final = 256
"""Events that something rests on whose time is looked at, the newest."""

Json = dict[str, Any]
Rests = TypeVar("Rests", Artifact, KnowledgeRecord)


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """Several sessions of the tenant used this event id: one of them must be named."""

    sessions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ArtifactPage:
    artifacts: tuple[Json, ...]
    cursor: str | None
    """Where the next page begins; None at the end."""
    total: int


@dataclass(frozen=True, slots=True)
class Counts:
    """How much a tenant's memory holds."""

    artifacts: dict[str, dict[str, int]]
    """By type, by status."""
    knowledge: dict[str, int]
    """By status."""


class Store:
    """Memory, to read. Threads may share one."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._blocks = Blocks(client, keys)

    @classmethod
    def open(cls, settings: Settings) -> Self:
        """Connects when first used. Raises SettingsError where no Redis is known."""
        return cls(connect(settings.require_redis()), Keys(settings.topic_prefix))

    def ping(self) -> None:
        with reachable():
            self._client.ping()

    def tenants(self) -> list[str]:
        with reachable():
            return sorted(tenant.decode() for tenant in self._client.smembers(self._keys.tenants))

    def positions(self) -> dict[str, int]:
        """topic/partition → position up to which its records are in memory."""
        return self._blocks.positions()

    def state_version(self, tenant_id: str) -> str:
        with reachable():
            return _version(self._client.hgetall(self._keys.tenant(tenant_id).version))

    def fetch(self, plan: Plan) -> Fetched:
        """Two round trips, the second for what the first found; each is one snapshot. More only where earlier versions
        are asked for, or where the tenant has events with a time to live."""
        tenant = self._keys.tenant(plan.request.tenant_id)
        with reachable():
            while True:
                # An artifact superseded between the trips belongs to neither snapshot: both are taken again.
                fetched, expiring = self._fetch(plan, tenant)
                if all(found.source.status is not Status.SUPERSEDED for found in fetched.artifacts):
                    break
            if plan.earlier:
                fetched = replace(fetched, artifacts=self._with_earlier(tenant, fetched.artifacts, plan.as_of))
            return self._with_soundness(tenant, fetched) if expiring else fetched

    def get_event(self, tenant_id: str, event_id: str, session_id: str | None = None) -> Json | Ambiguous | None:
        """The episode."""
        key = self._keys.tenant(tenant_id).event(event_id)
        with reachable():
            if session_id is not None:
                return _json(self._client.hget(key, session_id))
            found = self._client.hgetall(key)
        if len(found) > 1:
            return Ambiguous(tuple(sorted(session.decode() for session in found)))
        return _json(next(iter(found.values()), None))

    def get_artifact(self, tenant_id: str, artifact_id: str) -> Json | None:
        """In whatever status."""
        with reachable():
            return _json(self._client.get(self._keys.tenant(tenant_id).artifact(artifact_id)))

    def get_contribution(self, tenant_id: str, contribution_id: str) -> Json | None:
        with reachable():
            return _json(self._client.get(self._keys.tenant(tenant_id).contribution(contribution_id)))

    def get_contributions(self, tenant_id: str, contribution_ids: Sequence[str]) -> list[Json | None]:
        """In the order of the ids; None where memory does not hold one."""
        keys = self._keys.tenant(tenant_id)
        found: list[Json | None] = []
        with reachable():
            for start in range(0, len(contribution_ids), CONTRIBUTIONS):
                asked = [keys.contribution(each) for each in contribution_ids[start : start + CONTRIBUTIONS]]
                found += map(_json, self._client.mget(asked))
        return found

    def learnt(self, tenant_id: str, agent_id: str | None = None) -> Learnt:
        """All that a fingerprint is made of."""
        return read_learnt(self._client, self._keys.tenant(tenant_id), tenant_id, agent_id)

    def newest(self, tenant_id: str) -> int:
        """Event time of the tenant's newest event in milliseconds; 0 where nothing is there."""
        with reachable():
            return int(self._client.zscore(self._keys.tenant(tenant_id).newest, b"at") or 0)

    def get_knowledge(self, tenant_id: str, record_id: str) -> Json | None:
        """In whatever status."""
        with reachable():
            return _json(self._client.get(self._keys.tenant(tenant_id).knowledge(record_id)))

    def counts(self, tenant_id: str) -> Counts:
        """One round trip."""
        tenant = self._keys.tenant(tenant_id)
        with reachable(), self._client.pipeline(transaction=False) as pipe:
            for status in Status:
                pipe.hvals(tenant.artifacts(status))
            for standing in Standing:
                pipe.hlen(tenant.known(standing))
            found = iter(pipe.execute())
        artifacts: dict[str, dict[str, int]] = {}
        for status in Status:
            for kind, count in sorted(Counter(next(found)).items()):
                artifacts.setdefault(kind.decode(), {})[str(status)] = count
        return Counts(dict(sorted(artifacts.items())), {str(standing): next(found) for standing in Standing})

    def list_artifacts(
        self,
        tenant_id: str,
        artifact_type: str | None = None,
        status: Status = Status.ACTIVE,
        limit: int = 20,
        cursor: str | None = None,
    ) -> ArtifactPage:
        """Those in one status, by id: only active ones unless another is asked for (HMX-A §5)."""
        tenant = self._keys.tenant(tenant_id)
        with reachable():
            listed = self._client.hgetall(tenant.artifacts(status))
            wanted = None if artifact_type is None else artifact_type.encode()
            ids = sorted(i.decode() for i, held in listed.items() if wanted is None or held == wanted)
            rest = [i for i in ids if cursor is None or i > cursor]
            found = self._client.mget([tenant.artifact(i) for i in rest[:limit]]) if rest else []
        page = tuple(fields for value in found if (fields := _json(value)) is not None)
        return ArtifactPage(page, rest[limit - 1] if len(rest) > limit else None, len(ids))

    def _fetch(self, plan: Plan, tenant: TenantKeys) -> tuple[Fetched, int]:
        """And how many events there are that have a time to live."""
        request, labels = plan.request, plan.labels
        with self._client.pipeline(transaction=True) as pipe:
            pipe.hgetall(tenant.version)
            pipe.zscore(tenant.newest, b"at")
            pipe.hget(tenant.count, b"documents")
            pipe.hlen(tenant.artifacts(Status.ACTIVE))
            pipe.zrange(tenant.session(request.session_id or ""), 0, -1)
            for term in plan.terms:
                pipe.get(tenant.postings(term))
            for term in plan.terms:
                pipe.hgetall(tenant.artifact_postings(term))
            for term in plan.terms:
                pipe.hgetall(tenant.knowledge_postings(term))
            for label in labels:
                pipe.get(tenant.tagged(label))
            for label in labels:
                pipe.hkeys(tenant.artifacts_tagged(label))
            for label in labels:
                pipe.hkeys(tenant.knowledge_tagged(label))
            pipe.hlen(tenant.known(Standing.ACTIVE))
            pipe.hgetall(tenant.known(Kind.POLICY))
            pipe.zcard(tenant.expiring)
            version, newest, documents, active, session, *found, known, policies, expiring = pipe.execute()
        rows = iter(found)
        said, compiled, stated = ([p for p in islice(rows, len(plan.terms)) if p] for _ in range(3))
        tagged = in_all([p or b"" for p in islice(rows, len(labels))])
        artifacts_tagged, knowledge_tagged = (_in_all_names(list(islice(rows, len(labels)))) for _ in range(2))
        episodes = best(bm25(said, int(documents or 0)), plan.episodes, tagged)
        artifacts = bm25_named(compiled, active, plan.artifacts, artifacts_tagged)
        knowledge = bm25_named(stated, known, plan.knowledge, knowledge_tagged)
        standing = _newest(policies, plan.policies, knowledge_tagged)
        with self._client.pipeline(transaction=True) as pipe:
            pipe.hmget(tenant.documents, [b"%d" % number for number, _ in episodes] or [b""])
            pipe.mget([tenant.artifact(name.decode()) for name, _ in artifacts] or [tenant.artifact("")])
            names = [*(name for name, _ in knowledge), *standing]
            pipe.mget([tenant.knowledge(name.decode()) for name in names] or [tenant.knowledge("")])
            bodies, records, values = pipe.execute()
        facts = [None if value is None else KnowledgeRecord.model_validate_json(value) for value in values]
        fetched = Fetched(
            state_version=_version(version),
            newest=int(newest or 0),
            episodes=tuple(
                Found(_DOCUMENT.decode(body), score) for (_, score), body in zip(episodes, bodies, strict=False) if body
            ),
            artifacts=tuple(
                found
                for (_, score), record in zip(artifacts, records, strict=False)
                if record and (found := _artifact(record, score))
            ),
            knowledge=tuple(
                Found(fact, score)
                for (_, score), fact in zip(knowledge, facts, strict=False)
                if fact is not None and fact.status in SEARCHED
            ),
            policies=tuple(
                fact for fact in facts[len(knowledge) :][: len(standing)] if fact is not None and fact.status in HOLDS
            ),
            session=tuple(_STEP.decode(step) for step in session),
        )
        return fetched, expiring

    def _with_earlier(
        self, tenant: TenantKeys, found: Sequence[Found[Artifact]], until: int | None
    ) -> tuple[Found[Artifact], ...]:
        """Each followed by the versions before it, which are as relevant; back to the one that stood at `until`."""
        reached = {each.source.artifact_id: [each] for each in found}
        for _ in range(EARLIER if until is None else ARTIFACT_VERSIONS):
            behind = {
                before: chain
                for chain in reached.values()
                if (before := chain[-1].source.supersedes) and (until is None or _later(chain[-1].source, until))
            }
            if not behind:
                break
            for record, chain in zip(self._client.mget(map(tenant.artifact, behind)), behind.values(), strict=True):
                one = _artifact(record, chain[0].bm25) if record else None
                chain.append(one or replace(chain[-1], source=chain[-1].source.model_copy(update={"supersedes": None})))
        return tuple(each for chain in reached.values() for each in {c.source.artifact_id: c for c in chain}.values())

    def _with_soundness(self, tenant: TenantKeys, fetched: Fetched) -> Fetched:
        """What rests on nothing but events whose time is over is not sound (HMX-E §2.2). Of an artifact the newest are
        looked at."""
        return replace(
            fetched,
            artifacts=self._checked(tenant, fetched.artifacts, fetched.newest),
            knowledge=self._checked(tenant, fetched.knowledge, fetched.newest),
            policies=tuple(
                f.source
                for f in self._checked(tenant, [Found(p, 0) for p in fetched.policies], fetched.newest)
                if f.sound
            ),
        )

    def _checked(self, tenant: TenantKeys, found: Sequence[Found[Rests]], newest: int) -> tuple[Found[Rests], ...]:
        with self._client.pipeline(transaction=False) as pipe:
            for each in found:
                pipe.zmscore(tenant.expiring, each.source.source_events[-SOURCES:] or [""])
            ends = pipe.execute()
        return tuple(
            each if any(end is None or end > newest for end in times) else replace(each, sound=False)
            for each, times in zip(found, ends, strict=True)
        )


def _artifact(record: bytes, score: int) -> Found[Artifact] | None:
    """Not sound where the content is not what its hash says (HMX-A §8); None for what is no artifact at all."""
    try:
        return Found(Artifact.model_validate_json(record), score)
    except ValueError:
        fields = orjson.loads(record)
    with suppress(ValueError):
        return Found(
            Artifact.model_validate(fields | {"content_hash": content_hash(fields["content"])}), score, sound=False
        )
    return None


def _later(source: Artifact, ms: int) -> bool:
    return milliseconds(source.created_at) > ms


def _in_all_names(tagged: list[list[bytes]]) -> AbstractSet[bytes] | None:
    """Names that stand under each tag; None where none is asked for."""
    return set.intersection(*map(set, tagged)) if tagged else None


def _newest(policies: dict[bytes, bytes], limit: int, among: AbstractSet[bytes] | None) -> list[bytes]:
    """Ids of the policies that began to hold last, the newest first; ties by id."""
    kept = [name for name in policies if among is None or name in among]
    return sorted(kept, key=lambda name: (-int(policies[name]), name))[:limit]


def _version(offsets: dict[bytes, bytes]) -> str:
    """The same where the tenant's last record is the same in every partition, whatever order they came in."""
    return hashlib.sha256(b"\n".join(name + b"=" + at for name, at in sorted(offsets.items()))).hexdigest()[:16]


def _json(value: bytes | None) -> Json | None:
    if value is None:
        return None
    fields: Json = orjson.loads(value)
    return fields
