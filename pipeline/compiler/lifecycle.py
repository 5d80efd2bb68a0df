"""From what a pattern last said to what it says now (HMX-A §5, §7). In: the last artifact and a candidate. Out: the
artifact records to publish, predecessor first, and what was said last from now on. Nothing fails.

Under one artifact_id only status, superseded_by, updated_at and metadata ever change; all else is a new version.
"""

from typing import Annotated, Any, Final

from pydantic import Field

from pipeline.compiler.model import Candidate
from pipeline.contracts.artifact import TRANSITIONS, Artifact, Status
from pipeline.contracts.canonical import content_hash
from pipeline.contracts.evidence import Pattern
from pipeline.contracts.ids import content_id
from pipeline.contracts.instants import format_ms
from pipeline.contracts.model import Model

_LIVE: Final = (Status.DRAFT, Status.ACTIVE)
_BODY: Final = (
    "title", "summary", "content", "confidence", "source_events", "source_memory_ids", "tags",
    "observed_count", "success_rate", "validity_scope",
)  # fmt: skip


class Said(Model):
    """The newest artifact of a pattern's newest chain."""

    artifact: Artifact
    chain: Annotated[int, Field(ge=1)]
    """Ordinal of the chain: a pattern that recovers after deprecation opens the next one."""


def step(
    said: Said | None, candidate: Candidate | None, tenant_id: str, pattern: Pattern, now_ms: int
) -> tuple[Said | None, list[Artifact]]:
    """The same candidate twice publishes nothing the second time."""
    if said is None or said.artifact.status not in _LIVE:
        if candidate is None:
            return said, []
        chain = 1 if said is None else said.chain + 1
        opened = _artifact(candidate, tenant_id, pattern, chain, None)
        return Said(artifact=opened, chain=chain), [opened]
    if candidate is None:
        gone = _deprecated(said.artifact, "no evidence for it is left", now_ms)
        return Said(artifact=gone, chain=said.chain), [gone]
    if said.artifact.status is Status.ACTIVE and candidate.status is Status.DRAFT:
        gone = _deprecated(said.artifact, "the evidence no longer passes validation", now_ms)
        opened = _artifact(candidate, tenant_id, pattern, said.chain + 1, None)
        return Said(artifact=opened, chain=said.chain + 1), [gone, opened]
    return _continued(said, candidate, tenant_id, pattern, now_ms)


def _continued(
    said: Said, candidate: Candidate, tenant_id: str, pattern: Pattern, now_ms: int
) -> tuple[Said, list[Artifact]]:
    last = said.artifact
    if all(getattr(last, name) == getattr(candidate, name) for name in _BODY):
        if last.status is candidate.status:
            return said, []
        passed = _moved(last, candidate.status, "validation passed", now_ms, checked=dict(candidate.checked))
        return Said(artifact=passed, chain=said.chain), [passed]
    successor = _artifact(candidate, tenant_id, pattern, said.chain, last)
    cause = f"version {successor.version} was compiled from newer evidence"
    predecessor = _moved(last, Status.SUPERSEDED, cause, now_ms, superseded_by=successor.artifact_id)
    return Said(artifact=successor, chain=said.chain), [predecessor, successor]


def _artifact(
    candidate: Candidate, tenant_id: str, pattern: Pattern, chain: int, predecessor: Artifact | None
) -> Artifact:
    version = 1 if predecessor is None else predecessor.version + 1
    metadata = {"pattern": pattern.text, "chain": chain, "checked": dict(candidate.checked)}
    if candidate.lineage_tags:
        metadata["lineage_tags"] = list(candidate.lineage_tags)
    return Artifact(
        artifact_id=content_id(candidate.newest_at, tenant_id, pattern.type, pattern.key, str(chain), str(version)),
        artifact_type=pattern.type,
        version=version,
        status=candidate.status,
        created_at=format_ms(candidate.newest_at),
        content_hash=content_hash(candidate.content),
        metadata=metadata,
        tenant_id=tenant_id,
        supersedes=None if predecessor is None else predecessor.artifact_id,
        **{name: getattr(candidate, name) for name in _BODY},
    )


def _deprecated(artifact: Artifact, cause: str, now_ms: int) -> Artifact:
    return _moved(artifact, Status.DEPRECATED, cause, now_ms)


def _moved(
    artifact: Artifact, status: Status, cause: str, now_ms: int, superseded_by: str | None = None, **metadata: Any
) -> Artifact:
    assert (artifact.status, status) in TRANSITIONS, "no other way leads from status to status (HMX-A §5)"
    moved = {"from": artifact.status.value, "to": status.value, "cause": cause}
    return Artifact.model_validate(
        artifact.model_dump()
        | {
            "status": status,
            "superseded_by": superseded_by,
            "updated_at": format_ms(now_ms),
            "metadata": artifact.metadata | metadata | {"transition": moved},
        }
    )
