"""Knowledge record model, as on `hmx.knowledge.v1`: memory, policy, entity, relation or conflict (HMX-C §3.2)."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from hmx_pipeline.contracts.artifact import TimeRange
from hmx_pipeline.contracts.base import Model
from hmx_pipeline.contracts.event import HmxVersion, Name, Timestamp, Unit
from hmx_pipeline.contracts.evidence import Pattern
from hmx_pipeline.contracts.ids import content_id
from hmx_pipeline.contracts.options import HOLDS, Kind, Standing
from hmx_pipeline.contracts.versions import HMX_VERSION


class Memory(StrEnum):
    """What is remembered; `body.memory` says it."""

    FACT = "fact"
    PREFERENCE = "preference"
    GOAL = "goal"
    POLICY = "policy"
    CORRECTION = "correction"
    """What a user said when rejecting or interrupting an action."""


class Authority(StrEnum):
    """Whose word a statement is. Each outranks those before it; none ends what a higher one states."""

    QUOTED = "quoted"
    """Somebody's words that a message reports: another speaker, or another subject of the session."""
    ASSISTANT = "assistant"
    """An assistant, a client's own extraction, or an agent that no operator trusts."""
    USER = "user"
    AGENT = "agent"
    """A typed event of an agent that an operator trusts."""
    OPERATOR = "operator"

    @property
    def rank(self) -> int:
        return _RANKS.index(self)


_RANKS = tuple(Authority)

SEARCHED = (*HOLDS, Standing.SUPERSEDED)
"""Superseded records are searched too: a pack says why they are excluded, or shows what held before."""


class KnowledgeRecord(Model):
    """`text` is what a reader sees; `body` holds what the kind needs beyond it."""

    hmx_version: HmxVersion = HMX_VERSION
    record_id: Name
    kind: Annotated[Kind, Field(strict=False)]
    tenant_id: Name
    pattern: Name
    """The pattern of its evidence."""
    text: Name
    body: dict[str, Any]
    confidence: Unit
    status: Annotated[Standing, Field(strict=False)]
    source_events: list[str]
    source_memory_ids: list[str]
    """Ids of the contributions it is made from."""
    tags: list[str]
    """Tags that all source events have (HMX-E §2.2), sorted; packs filter by them."""
    session_id: Name | None = None
    agent_id: Name | None = None
    """The session and agent of all evidence; None if there are several."""
    created_at: Timestamp
    """Event time of the first evidence."""
    validity: TimeRange | None = None
    superseded_by: str | None = None
    subject_id: Annotated[Name | None, Field(exclude_if=lambda subject: subject is None)] = None
    """Whose it is; None if the tenant shares it."""


def knowledge_id(tenant_id: str, pattern: Pattern, *name: str) -> str:
    """Return the id of a statement. No time is part of it, so that it stays when earlier evidence arrives later."""
    return content_id(0, "knowledge", tenant_id, *pattern, *name)


def is_correction(record: KnowledgeRecord) -> bool:
    return record.kind is Kind.MEMORY and record.body.get("memory") == Memory.CORRECTION
