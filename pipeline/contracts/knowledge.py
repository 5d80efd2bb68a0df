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


class Memory(StrEnum):
    """What is remembered; `body.memory` says it."""

    FACT = "fact"
    PREFERENCE = "preference"
    GOAL = "goal"
    POLICY = "policy"
    CORRECTION = "correction"
    """What a user said in rejecting or interrupting what an agent did."""


class Standing(StrEnum):
    """Whether a record still holds."""

    ACTIVE = "active"
    SUPERSEDED = "superseded"
    """Something later stands in its place."""
    UNRESOLVED = "unresolved"
    """A conflict whose sides all stand."""
    RESOLVED = "resolved"
    """A conflict that a later statement has settled."""
    WITHDRAWN = "withdrawn"
    """Its evidence does not say so any more."""


HOLDS = (Standing.ACTIVE, Standing.UNRESOLVED)
SEARCHED = (*HOLDS, Standing.SUPERSEDED)
"""What does not hold any more is found too: a pack says why it is not in it, or shows what held before."""


class KnowledgeRecord(Model):
    """`text` is what a reader sees; `body` holds what the kind needs beyond it."""

    hmx_version: HmxVersion = HMX_VERSION
    record_id: Name
    kind: Annotated[Kind, Field(strict=False)]
    tenant_id: Name
    pattern: Name
    """The pattern whose evidence says so."""
    text: Name
    body: dict[str, Any]
    confidence: Unit
    status: Annotated[Standing, Field(strict=False)]
    source_events: list[str]
    source_memory_ids: list[str]
    """The contributions that it is read from."""
    tags: list[str]
    """Those that each of these events carries (HMX-E §2.2), sorted: what packs are filtered by."""
    session_id: Name | None = None
    agent_id: Name | None = None
    """The session and the agent that all of its evidence is of; absent where there are several."""
    created_at: Timestamp
    """Event time of the first evidence."""
    validity: TimeRange | None = None
    superseded_by: str | None = None


def is_correction(record: KnowledgeRecord) -> bool:
    return record.kind is Kind.MEMORY and record.body.get("memory") == Memory.CORRECTION
