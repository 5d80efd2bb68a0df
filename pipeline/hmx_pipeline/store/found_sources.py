"""Found sources, completed and checked: earlier versions of artifacts, and what all source events have expired of.

Enters: what a search has found. Leaves: the same with more. Raises redis errors (see store.atomic_blocks).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import msgspec

from hmx_pipeline.contracts.artifact import SUBJECT, Artifact
from hmx_pipeline.contracts.episode import is_visible
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.limits import ARTIFACT_VERSIONS
from hmx_pipeline.contracts.timestamps import milliseconds
from hmx_pipeline.retrieval.retrieval_plan import RetrievalPlan
from hmx_pipeline.retrieval.score import FoundSource, MemorySnapshot
from hmx_pipeline.store.atomic_blocks import Client
from hmx_pipeline.store.damage_log import Lost
from hmx_pipeline.store.redis_keys import TenantKeys
from hmx_pipeline.store.source_cache import read_artifact

EARLIER: Final = 8
"""Earlier versions returned per artifact, if requested without a time."""
SOURCES: Final = 256
"""Newest source events whose expiry is checked."""

Rests = TypeVar("Rests", Artifact, KnowledgeRecord, Contribution)


def with_earlier(
    tenant: TenantKeys,
    found: Sequence[FoundSource[Artifact]],
    plan: RetrievalPlan,
    read: Callable[[Sequence[Lost]], list[bytes | None]],
) -> tuple[FoundSource[Artifact], ...]:
    """Adds earlier versions after each artifact, with its relevance, back to the one valid at the plan's time. An
    earlier version may be another subject's: what is shared may have been private."""
    until = plan.as_of
    reached = {each.source.artifact_id: [each] for each in found}
    for _ in range(EARLIER if until is None else ARTIFACT_VERSIONS):
        behind = {
            before: chain
            for chain in reached.values()
            if (before := chain[-1].source.supersedes) and (until is None or _later(chain[-1].source, until))
        }
        if not behind:
            break
        records = read([Lost(tenant, "artifact", each) for each in behind])
        for record, chain in zip(records, behind.values(), strict=True):
            one, sound = read_artifact(record) if record else (None, False)
            chain.append(
                FoundSource(one, chain[0].bm25, sound)
                if one and is_visible(str(one.metadata.get(SUBJECT, "")), plan.subject)
                else FoundSource(
                    chain[-1].source.model_copy(update={"supersedes": None}), chain[-1].bm25, chain[-1].sound
                )
            )
    return tuple(each for chain in reached.values() for each in {c.source.artifact_id: c for c in chain}.values())


def with_soundness(client: Client, tenant: TenantKeys, fetched: MemorySnapshot) -> MemorySnapshot:
    """Marks results whose source events have all expired as unsound (HMX-E §2.2), and drops such session steps.
    Unsound policies join the results, so that a pack can report them."""
    artifacts, knowledge, policies = (
        _checked(client, tenant, found, fetched.newest)
        for found in (fetched.artifacts, fetched.knowledge, [FoundSource(policy, 0) for policy in fetched.policies])
    )
    precedents = _checked(client, tenant, fetched.precedents, fetched.newest)
    over = _gone(client, tenant, [[step.event_id] for step in fetched.session], fetched.newest)
    known = {found.source.record_id for found in knowledge}
    lost = (found for found in policies if not found.sound and found.source.record_id not in known)
    return replace(
        fetched,
        artifacts=artifacts,
        knowledge=(*knowledge, *lost),
        policies=tuple(found.source for found in policies if found.sound),
        precedents=tuple(found for found in precedents if found.sound),
        session=tuple(step for step, gone in zip(fetched.session, over, strict=True) if not gone),
    )


def _checked(
    client: Client, tenant: TenantKeys, found: Sequence[FoundSource[Rests]], newest: int
) -> tuple[FoundSource[Rests], ...]:
    """Checks the newest source first, since others matter only if it has expired."""
    rests = [each.source.source_events for each in found]
    doubtful = [at for at, gone in enumerate(_gone(client, tenant, [on[-1:] for on in rests], newest)) if gone]
    lost = _gone(client, tenant, [rests[at][-SOURCES:] for at in doubtful], newest)
    unsound = {at for at, gone in zip(doubtful, lost, strict=True) if gone}
    return tuple(msgspec.structs.replace(each, sound=False) if at in unsound else each for at, each in enumerate(found))


def _gone(client: Client, tenant: TenantKeys, events: Sequence[Sequence[str]], newest: int) -> list[bool]:
    """Returns for each list whether all its events have expired; False for an empty list."""
    if not events:
        return []
    with client.pipeline(transaction=False) as pipe:
        for ids in events:
            pipe.zmscore(tenant.expiring, list(ids) or [""])
        return [all(end is not None and end <= newest for end in ends) for ends in pipe.execute()]


def _later(source: Artifact, ms: int) -> bool:
    return milliseconds(source.created_at) > ms
