"""A knowledge record as `hmx.knowledge.v1` carries it: memory, policy, entity, relation or conflict (HMX-C §3.2)."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from pipeline.contracts.artifact import TimeRange
from pipeline.contracts.event import HmxVersion, Name, Timestamp, Unit
from pipeline.contracts.model import Model
from pipeline.contracts.versions import HMX_VERSION


class Kind(StrEnum):
    MEMORY = "memory"
    POLICY = "policy"
    ENTITY = "entity"
    RELATION = "relation"
    CONFLICT = "conflict"


class KnowledgeRecord(Model):
    """`text` is what a reader sees; `body` holds what the kind needs beyond it."""

    hmx_version: HmxVersion = HMX_VERSION
    record_id: Name
    kind: Annotated[Kind, Field(strict=False)]
    tenant_id: Name
    text: Name
    body: dict[str, Any]
    confidence: Unit
    status: Name
    source_events: list[str]
    created_at: Timestamp
    validity: TimeRange | None = None
    superseded_by: str | None = None
