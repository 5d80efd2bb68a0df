"""HMX-A artifact model, as on `hmx.artifacts.v1`, with the rules of §2, §7, §8, §9 and §12."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from hmx_pipeline.contracts.artifact_content import CONTENTS
from hmx_pipeline.contracts.base import Model
from hmx_pipeline.contracts.canonical import canonical_json, content_hash
from hmx_pipeline.contracts.event import HmxVersion, Name, Timestamp, Unit
from hmx_pipeline.contracts.event_types import NAMESPACED, namespaced
from hmx_pipeline.contracts.limits import ARTIFACT_CONTENT_BYTES, ARTIFACT_SOURCES, ARTIFACT_TAGS
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.contracts.versions import HMX_VERSION

STANDARD_TYPES = tuple(CONTENTS)
_TYPE_PATTERN = f"^({'|'.join(STANDARD_TYPES)}|{NAMESPACED})$"


def is_type(name: str) -> bool:
    """Return True for the five standard types and x-{vendor}-{type} (HMX-A §3)."""
    return name in STANDARD_TYPES or namespaced(name)


def _type(name: str) -> str:
    if not is_type(name):
        raise ValueError("neither one of the five types nor x-{vendor}-{type} (HMX-A §3)")
    return name


TypeName = Annotated[str, Field(json_schema_extra={"pattern": _TYPE_PATTERN}), AfterValidator(_type)]

TRANSITIONS: frozenset[tuple[Status, Status]] = frozenset(
    {
        (Status.DRAFT, Status.ACTIVE),
        (Status.DRAFT, Status.SUPERSEDED),
        (Status.DRAFT, Status.DEPRECATED),
        (Status.ACTIVE, Status.SUPERSEDED),
        (Status.ACTIVE, Status.DEPRECATED),
        (Status.ACTIVE, Status.ARCHIVED),
    }
)
"""Allowed transitions: HMX-A §5, and draft → superseded, which §7 requires if a draft's content changes."""


class TimeRange(Model):
    start: Timestamp | None = None
    end: Timestamp | None = None


class ValidityScope(Model):
    """HMX-A §6; all empty means valid throughout the tenant. §9 closes the artifact, not its scope."""

    model_config = ConfigDict(extra="allow")

    tenant_ids: list[str] | None = None
    agent_ids: list[str] | None = None
    tags: list[str] | None = None
    time_range: TimeRange | None = None
    conditions: list[str] | None = None


UNCONFIRMED: Final = "unconfirmed"
"""Key of what nobody in particular states: it is the tenant's, and not for its subjects."""
SUBJECT: Final = "subject_id"
"""Key of an artifact's metadata: the subject to whom it is private."""


def owner_of(artifact: Mapping[str, Any]) -> str:
    """Return the subject to whom an artifact is private; empty if the tenant shares it."""
    return str(artifact["metadata"].get(SUBJECT) or "")


class Artifact(Model):
    """One version of one piece of compiled knowledge (HMX-A §2)."""

    hmx_version: HmxVersion = HMX_VERSION
    artifact_id: Name
    artifact_type: TypeName
    title: Name
    summary: str
    content: dict[str, Any]
    confidence: Unit
    status: Annotated[Status, Field(strict=False)]
    source_events: Annotated[list[str], Field(max_length=ARTIFACT_SOURCES)]
    source_memory_ids: list[str]
    version: Annotated[int, Field(ge=1)]
    created_at: Timestamp
    content_hash: Annotated[str, Field(pattern=r"^[a-f0-9]{64}$")]
    metadata: dict[str, Any]
    tenant_id: str | None = None
    agent_id: str | None = None
    superseded_by: str | None = None
    supersedes: str | None = None
    validity_scope: ValidityScope | None = None
    tags: Annotated[list[str], Field(max_length=ARTIFACT_TAGS)] | None = None
    observed_count: Annotated[int, Field(ge=0)] | None = None
    success_rate: Unit | None = None
    updated_at: Timestamp | None = None

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        if self.artifact_id in (self.supersedes, self.superseded_by):
            raise ValueError("an artifact must not supersede itself (HMX-A §7)")
        if (self.superseded_by is not None) != (self.status is Status.SUPERSEDED):
            raise ValueError("superseded_by and status superseded go together (HMX-A §7)")
        if self.content_hash != content_hash(self.content):
            raise ValueError("content_hash is not the hash of content (HMX-A §8)")
        if len(canonical_json(self.content)) > ARTIFACT_CONTENT_BYTES:
            raise ValueError("content is larger than 256 KB (HMX-A §12)")
        return self
