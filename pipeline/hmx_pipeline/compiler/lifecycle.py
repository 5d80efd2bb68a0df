"""Artifact lifecycle: versions, chains and status transitions of a pattern's artifacts (HMX-A §5, §7).

Input: the last published artifact and a candidate. Output: the records to publish, predecessor first, and the new last
published state. Under one artifact_id only status, superseded_by, updated_at and metadata ever change; any other change
is a new version. Decay is computed when an artifact is read and is no transition: it depends on the tenant's newest
event, but what a pattern publishes depends on its own evidence only.
"""

from typing import Annotated, Any, Final

from pydantic import Field

from hmx_pipeline.compiler.evidence_kind import ArtifactCandidate
from hmx_pipeline.compiler.imported_artifacts import CAUSE
from hmx_pipeline.contracts.artifact import SUBJECT, TRANSITIONS, UNCONFIRMED, Artifact
from hmx_pipeline.contracts.base import Model
from hmx_pipeline.contracts.canonical import content_hash
from hmx_pipeline.contracts.evidence import Pattern
from hmx_pipeline.contracts.ids import content_id
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.contracts.timestamps import format_ms, milliseconds

_LIVE: Final = (Status.DRAFT, Status.ACTIVE)
_PASSED: Final = "validation passed"
_BODY: Final = (
    "title", "summary", "content", "confidence", "source_events", "source_memory_ids", "tags",
    "observed_count", "success_rate", "validity_scope",
)  # fmt: skip


DECAYED_MS: Final = 365 * 24 * 3600 * 1000


def decayed(created_ms: int, newest_ms: int) -> bool:
    """Return True if an artifact's newest evidence is a year older than the tenant's newest event."""
    return newest_ms - created_ms > DECAYED_MS


def status_at(artifact: Artifact, ms: int) -> Status:
    """Return the status at that time, unless it was superseded earlier. Transitions count from their log time. When a
    superseded draft had become active is not stored."""
    if artifact.status is Status.DRAFT or artifact.updated_at is None:
        return artifact.status
    if artifact.status is not Status.SUPERSEDED and milliseconds(artifact.updated_at) <= ms:
        return artifact.status
    return Status(artifact.metadata.get("transition", {}).get("from", Status.ACTIVE))


class LastPublished(Model):
    """The newest artifact in the newest chain of a pattern."""

    artifact: Artifact
    chain: Annotated[int, Field(ge=1)]
    """Number of the chain. A pattern that recovers after deprecation opens the next one."""


def step(
    said: LastPublished | None,
    candidate: ArtifactCandidate | None,
    tenant_id: str,
    pattern: Pattern,
    now_ms: int,
    archived: str | None = None,
) -> tuple[LastPublished | None, list[Artifact]]:
    """Compare the candidate with what was last published and return the records to publish. The same candidate twice
    publishes nothing. `archived`: why an operator archived the pattern; then the candidate is ignored."""
    if archived is not None:
        return _silenced(said, archived, now_ms)
    if said is None or said.artifact.status not in _LIVE:
        if candidate is None or candidate.contradicted:
            return said, []
        chain = 1 if said is None else said.chain + 1
        opened = _artifact(candidate, tenant_id, pattern, chain, None)
        return LastPublished(artifact=opened, chain=chain), [opened]
    if candidate is None or candidate.contradicted:
        gone = _deprecated(said.artifact, candidate, now_ms)
        return LastPublished(artifact=gone, chain=said.chain), [gone]
    if said.artifact.status is Status.ACTIVE and candidate.status is Status.DRAFT:
        gone = _deprecated(said.artifact, candidate, now_ms)
        opened = _artifact(candidate, tenant_id, pattern, said.chain + 1, None)
        return LastPublished(artifact=opened, chain=said.chain + 1), [gone, opened]
    return _continued(said, candidate, tenant_id, pattern, now_ms)


def _transition(old: Status, new: Status, cause: str) -> dict[str, str]:
    """Return `metadata.transition`: the reason for the status. What validation looked at is in `metadata.checked`."""
    return {"from": old.value, "to": new.value, "cause": cause}


def _silenced(said: LastPublished | None, cause: str, now_ms: int) -> tuple[LastPublished | None, list[Artifact]]:
    """Archive an active artifact (HMX-A §5), or deprecate a draft, which nobody has seen."""
    if said is None or said.artifact.status not in _LIVE:
        return said, []
    end = Status.ARCHIVED if said.artifact.status is Status.ACTIVE else Status.DEPRECATED
    gone = _moved(said.artifact, end, cause, now_ms)
    return LastPublished(artifact=gone, chain=said.chain), [gone]


def _continued(
    said: LastPublished, candidate: ArtifactCandidate, tenant_id: str, pattern: Pattern, now_ms: int
) -> tuple[LastPublished, list[Artifact]]:
    last = said.artifact
    shown_to_others = last.metadata.get(SUBJECT, "") != candidate.subject or candidate.unconfirmed != (
        UNCONFIRMED in last.metadata
    )
    if not shown_to_others and all(getattr(last, name) == getattr(candidate, name) for name in _BODY):
        if last.status is candidate.status:
            return said, []
        passed = _moved(last, candidate.status, _PASSED, now_ms, checked=dict(candidate.checked))
        return LastPublished(artifact=passed, chain=said.chain), [passed]
    successor = _artifact(candidate, tenant_id, pattern, said.chain, last)
    changes = [name for name in _BODY if getattr(last, name) != getattr(candidate, name)]
    changed = ", ".join([*changes, *(["who shares it"] if shown_to_others else [])])
    cause = f"version {successor.version} was compiled from newer evidence: {changed}"
    predecessor = _moved(last, Status.SUPERSEDED, cause, now_ms, superseded_by=successor.artifact_id)
    return LastPublished(artifact=successor, chain=said.chain), [predecessor, successor]


def _artifact(
    candidate: ArtifactCandidate, tenant_id: str, pattern: Pattern, chain: int, predecessor: Artifact | None
) -> Artifact:
    version = 1 if predecessor is None else predecessor.version + 1
    metadata: dict[str, Any] = {"pattern": pattern.text, "chain": chain, "checked": dict(candidate.checked)}
    if candidate.status is Status.ACTIVE:  # it was a draft while it was validated
        metadata["transition"] = _transition(Status.DRAFT, Status.ACTIVE, CAUSE if candidate.imported else _PASSED)
    if candidate.imported:
        metadata["imported"] = dict(candidate.imported)
    if candidate.lineage_tags:
        metadata["lineage_tags"] = list(candidate.lineage_tags)
    if candidate.salience is not None:
        metadata["salience"] = candidate.salience
    if candidate.unconfirmed:
        metadata[UNCONFIRMED] = True
    alone = {
        "lineage_session": candidate.lineage_session,
        "lineage_agent": candidate.lineage_agent,
        SUBJECT: candidate.subject,
    }
    metadata |= {name: value for name, value in alone.items() if value}
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


def _deprecated(artifact: Artifact, candidate: ArtifactCandidate | None, now_ms: int) -> Artifact:
    """Deprecate; `checked` says what the evidence is now."""
    if candidate is None:
        return _moved(artifact, Status.DEPRECATED, "no evidence for it is left", now_ms)
    cause = f"contradicted: {candidate.contradicted}" if candidate.contradicted else "it no longer passes validation"
    return _moved(artifact, Status.DEPRECATED, cause, now_ms, checked=dict(candidate.checked))


def _moved(
    artifact: Artifact, status: Status, cause: str, now_ms: int, superseded_by: str | None = None, **metadata: Any
) -> Artifact:
    assert (artifact.status, status) in TRANSITIONS, "no other way leads from status to status (HMX-A §5)"
    moved = _transition(artifact.status, status, cause)
    return Artifact.model_validate(
        artifact.model_dump()
        | {
            "status": status,
            "superseded_by": superseded_by,
            "updated_at": format_ms(now_ms),
            "metadata": artifact.metadata | metadata | {"transition": moved},
        }
    )
