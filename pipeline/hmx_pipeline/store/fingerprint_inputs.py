"""Fingerprint inputs: reads a tenant's artifacts, usage counts and knowledge graph from Redis.

Leaves: what was learnt, as of one moment unless memory keeps changing. Raises StoreUnavailableError. Of a large graph
the records with the lowest ids are read, which are an even sample.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, TypeVar
from urllib.parse import unquote

import msgspec

from hmx_pipeline.compiler import usage_counts
from hmx_pipeline.contracts.artifact import SUBJECT, UNCONFIRMED, Artifact
from hmx_pipeline.contracts.evidence import Pattern
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.limits import FINGERPRINT_GRAPH
from hmx_pipeline.contracts.options import Kind, Standing, Status
from hmx_pipeline.fingerprints.contents import FingerprintContents, UsageCounts, of_agent
from hmx_pipeline.store.atomic_blocks import Client, reachable
from hmx_pipeline.store.changes import PATTERN_SAMPLE, TENANT_SAMPLE
from hmx_pipeline.store.projection import RANKS
from hmx_pipeline.store.redis_keys import TenantKeys

AT_ONCE: Final = 500
TRIES: Final = 3
"""Attempts to read everything without a change in between."""

Read = TypeVar("Read")


class _Whose(msgspec.Struct):
    contribution_id: str
    agent_id: str


_whose: Final = msgspec.json.Decoder(_Whose).decode
_conduct: Final = msgspec.json.Decoder(UsageCounts).decode


def read_learnt(client: Client, keys: TenantKeys, tenant_id: str, agent_id: str | None = None) -> FingerprintContents:
    """Reads what the tenant has learnt, or only an agent's share of it."""
    with reachable():
        for _ in range(TRIES):
            before = client.hgetall(keys.version)
            learnt = _whole(client, keys, tenant_id)
            if agent_id is not None:
                learnt = of_agent(learnt, agent_id, _agents(client, keys, learnt))
            if client.hgetall(keys.version) == before:
                break
    return learnt


def _whole(client: Client, keys: TenantKeys, tenant_id: str) -> FingerprintContents:
    artifacts = [i for status in (Status.ACTIVE, Status.DRAFT) for i in client.hkeys(keys.artifacts(status))]
    segments, share = _segments(client, keys)
    known = sorted((i.decode(), kind.decode()) for i, kind in client.hgetall(keys.known(Standing.ACTIVE)).items())
    entities, relations = ([i for i, kind in known if kind == wanted] for wanted in (Kind.ENTITY, Kind.RELATION))

    def shared(ids: Sequence[str]) -> list[KnowledgeRecord]:
        found = _read(client, KnowledgeRecord.model_validate_json, list(map(keys.knowledge, ids[:FINGERPRINT_GRAPH])))
        return [record for record in found if record.subject_id is None and UNCONFIRMED not in record.body]

    held = _read(client, Artifact.model_validate_json, [keys.artifact(i.decode()) for i in sorted(artifacts)])
    return FingerprintContents(
        tenant_id=tenant_id,
        newest=int(client.zscore(keys.newest, b"at") or 0),
        artifacts=[each for each in held if not each.metadata.get(SUBJECT) and UNCONFIRMED not in each.metadata],
        conduct=_read(client, _conduct, [keys.contribution(i) for i in segments]),
        counted=share,
        entities=shared(entities),
        relations=shared(relations),
        unread=sum(max(0, len(ids) - FINGERPRINT_GRAPH) for ids in (entities, relations)),
    )


def _segments(client: Client, keys: TenantKeys) -> tuple[list[str], float]:
    """Returns the ids of contributions with usage counts, and their share of all segments. A full sample holds the
    lowest ranks, and their density tells the total."""
    found, population = [], 0.0
    at_bound = client.zcard(keys.samples) >= TENANT_SAMPLE
    for key in usage_counts.KEYS:
        rows = client.zrange(keys.sample(Pattern(usage_counts.NAME, key).text), 0, -1, withscores=True)
        found += [unquote(name.decode()) for name, _ in rows]
        full = rows and (at_bound or len(rows) >= PATTERN_SAMPLE)
        population += len(rows) * (RANKS / (rows[-1][1] + 1)) if full else len(rows)
    return sorted(found), min(1.0, len(found) / population) if population else 1.0


def _agents(client: Client, keys: TenantKeys, learnt: FingerprintContents) -> dict[str, str]:
    sources: list[Artifact | KnowledgeRecord] = [*learnt.artifacts, *learnt.entities, *learnt.relations]
    named = sorted({each for source in sources for each in source.source_memory_ids})
    found = _read(client, _whose, [keys.contribution(each) for each in named])
    return {one.contribution_id: one.agent_id for one in found}


def _read(client: Client, decode: Callable[[bytes], Read], keys: Sequence[bytes]) -> list[Read]:
    """Reads records, without unreadable ones."""
    found = []
    for value in _values(client, keys):
        with suppress(ValueError, msgspec.DecodeError):
            found.append(decode(value))
    return found


def _values(client: Client, keys: Sequence[bytes]) -> Iterator[bytes]:
    for start in range(0, len(keys), AT_ONCE):
        yield from (value for value in client.mget(keys[start : start + AT_ONCE]) if value is not None)
