"""Records as the pipeline publishes them, and what memory answers, for tests of packs and of Redis."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.canonical import content_hash
from hmx_pipeline.contracts.envelope import read_envelope
from hmx_pipeline.contracts.episode import Origin, Release, write_episode
from hmx_pipeline.contracts.event import Event
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.keys import join_key, session_key
from hmx_pipeline.contracts.pack import ContextPack
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.packs.assemble import assemble
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.retrieval_plan import plan
from hmx_pipeline.retrieval.score import FoundSource, MemorySnapshot
from hmx_pipeline.retrieval.searchable import document, episode_step
from hmx_pipeline.retrieval.vectors import Embed
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.atomic_blocks import Blocks, Client, connect
from hmx_pipeline.store.changes import Command
from hmx_pipeline.store.fetch import Store
from hmx_pipeline.store.projection import TopicRecord, commands_of
from hmx_pipeline.store.redis_keys import Keys
from hmx_pipeline.topology import ARTIFACTS, EPISODES, EVIDENCE

T0 = 1_773_457_200_000  # 2026-03-14T03:00:00Z


def episode(
    event_id: str,
    text: str = "hello there",
    *,
    tenant: str = "acme",
    session: str = "s1",
    event_type: str = "message",
    content: dict[str, Any] | None = None,
    at: int = T0,
    index: int = 0,
    **fields: Any,
) -> dict[str, Any]:
    event = {
        "hmx_version": "HMX-1.0",
        "event_id": event_id,
        "event_type": event_type,
        "agent_id": "agent-1",
        "tenant_id": tenant,
        "session_id": session,
        "timestamp": format_ms(at),
        "sequence": index,
        "content": content if content is not None else {"role": "user", "text": text},
        "metadata": {},
        **fields,
    }
    Event.model_validate_json(json.dumps(event))
    origin, release = Origin(partition=0, offset=index, log_time=at), Release(index=index, run=0)
    traced: dict[str, Any] = json.loads(write_episode(read_envelope(json.dumps(event).encode()), origin, release))
    return traced


def artifact(artifact_id: str, title: str = "Deploy staging", *, tenant: str = "acme", **fields: Any) -> Artifact:
    kind = fields.pop("artifact_type", "task_schema")
    content = fields.pop("content", None) or procedure("check namespace", "apply manifests", "verify rollout")
    return Artifact.model_validate(
        {
            "artifact_id": artifact_id,
            "artifact_type": kind,
            "title": title,
            "summary": title,
            "content": content,
            "confidence": 0.8,
            "status": "active",
            "source_events": ["its-source"],
            "source_memory_ids": ["c1"],
            "version": 1,
            "created_at": format_ms(T0),
            "content_hash": content_hash(content),
            "metadata": {},
            "tenant_id": tenant,
            "observed_count": 5,
            **fields,
        }
    )


def procedure(*steps: str) -> dict[str, Any]:
    """Each step's tool is its description's first word."""
    return {
        "steps": [
            {"order": i, "description": step, "tools_used": [step.split()[0]], "optional": False}
            for i, step in enumerate(steps, 1)
        ],
        "preconditions": [],
        "postconditions": [],
        "tools_used": [step.split()[0] for step in steps],
        "estimated_complexity": "low",
    }


def fetched(episodes: list[dict[str, Any]] = [], artifacts: list[Artifact] = [], **fields: Any) -> MemorySnapshot:  # noqa: B006
    """Everything matches the query, the earlier the better."""
    documents = [document(record, episode_step(record)) for record in episodes]
    assert all(documents), "every episode given is one that is indexed"
    return MemorySnapshot(
        state_version=fields.pop("state_version", "v1"),
        newest=fields.pop("newest", T0),
        episodes=tuple(FoundSource(found, 1000 - i) for i, found in enumerate(documents) if found),
        artifacts=tuple(FoundSource(source, 1000 - i) for i, source in enumerate(artifacts)),
        **fields,
    )


def episode_as_read(fields: dict[str, Any], offset: int, partition: int = 0) -> TopicRecord:
    tenant = fields["metadata"]["hmx"]["tenant_id"]
    key = session_key(tenant, fields["sessionId"]).encode()
    return TopicRecord(EPISODES, partition, offset, key, json.dumps(fields).encode(), [])


def artifact_as_read(source: Artifact, offset: int, partition: int = 0) -> TopicRecord:
    key = join_key(source.tenant_id or "", source.artifact_id).encode()
    return TopicRecord(ARTIFACTS, partition, offset, key, source.to_json(), [])


def contribution_as_read(contribution_id: str, offset: int, tenant: str = "acme") -> TopicRecord:
    said = Contribution(
        contribution_id=contribution_id,
        tenant_id=tenant,
        pattern_type="task_schema",
        pattern_key="deploy staging",
        session_id="s1",
        segment_id="e1",
        agent_id="agent-1",
        first_at=T0,
        last_at=T0,
    )
    return TopicRecord(EVIDENCE, 0, offset, b"any", said.to_json(), [])


_APPENDED = {b"term": 8, b"tag": 8, b"rows": 34}
"""Kinds of keys to which partitions append, in no order, and the bytes of each part; a vector's are as many as its key
says beside its number."""


def _parts(key: bytes, value: bytes) -> bytes | list[bytes]:
    kind, _, name = key.rpartition(b"}:")[2].partition(b":")
    size = 8 + int(name.partition(b"%3A")[0]) if kind == b"vector" else _APPENDED.get(kind)
    return value if size is None else sorted(value[i : i + size] for i in range(0, len(value), size))


_DELETE = "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end"


@contextmanager
def memory_of(settings: Settings) -> Iterator["Memory"]:
    """A pipeline's memory; nothing of it is left."""
    made = Memory(settings.redis_url, settings.topic_prefix)
    try:
        yield made
    finally:
        made.wipe()
        made.client.close()


def empty(settings: Settings) -> None:
    """Empties a pipeline's memory while it runs."""
    with memory_of(settings):
        pass


class Memory:
    """One prefix of a Redis server, to write records to and to read."""

    def __init__(self, url: str, prefix: str, semantic: str = "", embed: Embed | None = None) -> None:
        self.client: Client = connect(url)
        self.keys = Keys(prefix, semantic)
        self.blocks = Blocks(self.client, self.keys)
        self.store = Store([self.client], self.keys, embed)

    def commands(self, records: Sequence[TopicRecord]) -> list[Command]:
        return commands_of(self.keys, records, self.store.embed)

    def write(self, *records: TopicRecord) -> None:
        """Each partition's records as one block, from wherever it stands."""
        for partition in dict.fromkeys(f"{r.topic}/{r.partition}" for r in records):
            block = [r for r in records if f"{r.topic}/{r.partition}" == partition]
            at = self.store.positions().get(partition)
            assert (
                self.blocks.apply(partition, at, block[-1].offset + 1, self.commands(block)).at == block[-1].offset + 1
            )

    def dump(self) -> dict[bytes, bytes]:
        """Every key that every filling has alike, less the prefix, with its serialised value."""
        found = {}
        for key in self.client.scan_iter(match=f"{self.keys.prefix}hmx:*"):
            own = (self.keys.filling, self.keys.goals, self.keys.damaged, self.keys.layouts)
            if key in own or b":captur" in key:  # captures are of no topic
                continue
            kind = self.client.type(key)
            value = {
                b"string": lambda k: _parts(k, self.client.get(k)),
                b"list": self._listed,
                b"hash": lambda k: sorted(self.client.hgetall(k).items()),
                b"set": lambda k: sorted(self.client.smembers(k)),
                b"zset": lambda k: self.client.zrange(k, 0, -1, withscores=True),
            }[kind](key)
            found[key.removeprefix(self.keys.prefix.encode())] = (
                repr(value).encode().replace(self.keys.prefix.encode(), b"")
            )
        return found

    def _listed(self, key: bytes) -> bytes | list[bytes]:
        listed = self.client.lrange(key, 0, -1)
        if key.endswith(b"}:assigned"):
            return sorted(listed)
        if b"}:event:" in key:  # sessions in turn with episodes
            return sorted(map(b" ".join, zip(listed[::2], listed[1::2], strict=True)))
        return _parts(key, b"".join(listed))

    def wipe(self) -> None:
        """In one step, as FLUSHALL would: nobody sees or writes to half of it. Other prefixes keep theirs."""
        self.client.eval(_DELETE, 0, f"{self.keys.prefix}hmx:*")

    def pack(self, query: str, tenant: str = "acme", tags: list[str] | None = None, **asked: Any) -> ContextPack:
        """All that is found and fits, unless `fill` says otherwise."""
        request = PackRequest.model_validate(
            {"query": query, "tenant_id": tenant, "tags": tags, "fill": "budget", **asked}
        )
        planned = plan(request, self.store.embed)
        return assemble(request, planned, self.store.fetch(planned))

    def found(self, query: str, tenant: str = "acme", tags: list[str] | None = None, **asked: Any) -> list[str]:
        return [entry.source_id for entry in self.pack(query, tenant, tags, **asked).entries]
