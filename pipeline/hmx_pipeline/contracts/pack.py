"""HMX-C context pack model, as the service answers it (§2 to §8, §12)."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from hmx_pipeline.contracts.base import Model
from hmx_pipeline.contracts.event import HmxVersion, Name, Timestamp, Unit
from hmx_pipeline.contracts.limits import PACK_CONSTRAINTS, PACK_DROPS, PACK_ENTRIES, PACK_NEXT_STEPS, PACK_TAGS
from hmx_pipeline.contracts.options import Section, SourceType, Strategy
from hmx_pipeline.contracts.versions import HMX_VERSION

Count = Annotated[int, Field(ge=0)]


class DropReason(StrEnum):
    """HMX-C §8."""

    BUDGET_EXCEEDED = "budget_exceeded"
    LOW_RELEVANCE = "low_relevance"
    DUPLICATE = "duplicate"
    DEPRECATED = "deprecated"
    CONFLICT = "conflict"
    PROVENANCE_FAILED = "provenance_failed"


class Vocabulary(StrEnum):
    """Whose words name the types of sources: those of HMX-C §3.2, or of the protocol's overview."""

    HMX_C = "hmx-c"
    OVERVIEW = "overview"


class Provenance(Model):
    origin: Name
    confidence: Unit
    evidence_count: Count


class Entry(Model):
    """HMX-C §3."""

    section: Annotated[Section, Field(strict=False)]
    content: str
    source_id: Name
    source_type: Annotated[SourceType, Field(strict=False)]
    relevance_score: Unit
    token_estimate: Count
    rank: Annotated[int, Field(ge=1)]
    provenance: Provenance


class Dropped(Model):
    """HMX-C §8."""

    source_id: Name
    source_type: Annotated[SourceType, Field(strict=False)]
    section: Annotated[Section, Field(strict=False)]
    relevance_score: Unit
    token_estimate: Count
    drop_reason: Annotated[DropReason, Field(strict=False)]
    rank: Annotated[int, Field(ge=1)]


class SectionBudget(Model):
    budget: Count
    used: Count


class TokenBudget(Model):
    """HMX-C §4."""

    total_budget: Count
    used: Count
    remaining: Count
    truncated: bool
    section_budgets: dict[str, SectionBudget]
    dropped_count: Count


class RankingWeights(Model):
    """HMX-C §5; they need not sum to one: scores are divided by their sum."""

    relevance: Annotated[float, Field(ge=0.0)] = 0.4
    recency: Annotated[float, Field(ge=0.0)] = 0.2
    provenance: Annotated[float, Field(ge=0.0)] = 0.2
    salience: Annotated[float, Field(ge=0.0)] = 0.2


class QueryClassification(Model):
    intent: Name
    keywords: list[str]
    entities: list[str]
    time_ref: Annotated[str | None, Field(json_schema_extra={"type": ["string", "null"]})] = None
    """The time that the question mentions, as an ISO 8601 interval; `..` is an open end. HMX-C §5 and §10 print null if
    there is none; here the field is left out."""


class AssemblyMetadata(Model):
    """HMX-C §5."""

    assembly_strategy: Annotated[Strategy, Field(strict=False)]
    ranking_weights: RankingWeights
    retrieval_sources: list[str]
    candidate_count: Count
    included_count: Count
    assembly_duration_ms: Annotated[float, Field(ge=0.0)]
    query_classification: QueryClassification


class NextStep(Model):
    description: str
    artifact_id: Name
    confidence: Unit
    tools: list[str]


class WorkflowHints(Model):
    """HMX-C §6."""

    suggested_next_steps: Annotated[list[NextStep], Field(max_length=PACK_NEXT_STEPS)]
    active_task_schema: str | None = None
    current_step: Annotated[int, Field(ge=1)] | None = None
    total_steps: Count | None = None
    blockers: list[str]


class DecisionConstraint(Model):
    """HMX-C §7."""

    artifact_id: Name
    condition: str
    constraint: str
    confidence: Unit
    override_allowed: bool


class Score(Model):
    """The components of a relevance_score, without their weights."""

    relevance: Unit
    recency: Unit
    provenance: Unit
    salience: Unit


class EntryExplained(Model):
    """`matched`: stems of the question, or near to it, in the source."""

    rank: Annotated[int, Field(ge=1)]
    source_id: Name
    matched: list[str]
    score: Score | None = None
    believed: str | None = None
    """Why a statement is believed, and what would outweigh it, in a tenant that names subjects or trusted agents."""


class DropExplained(EntryExplained):
    because: str
    budget: Count | None = None
    """Token budget at which it is in, whole."""


class Explained(Model):
    """`metadata.explained`: why entries are in and drops are out."""

    weights: RankingWeights
    sections: dict[str, Unit]
    """Shares of the budget."""
    entries: list[EntryExplained]
    drops: list[DropExplained]


class ContextPack(Model):
    """HMX-C §2."""

    hmx_version: HmxVersion = HMX_VERSION
    pack_id: Name
    query_context: str
    entries: Annotated[list[Entry], Field(max_length=PACK_ENTRIES)]
    token_budget: TokenBudget
    assembly_metadata: AssemblyMetadata
    created_at: Timestamp
    metadata: dict[str, Any]
    tenant_id: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    workflow_hints: WorkflowHints | None = None
    decision_constraints: Annotated[list[DecisionConstraint], Field(max_length=PACK_CONSTRAINTS)] | None = None
    dropped_entries: Annotated[list[Dropped], Field(max_length=PACK_DROPS)] | None = None
    fingerprint_priors: dict[str, Any] | None = None
    tags: Annotated[list[str], Field(max_length=PACK_TAGS)] | None = None


class OverviewSource(StrEnum):
    """Source types in the words of the HMX overview."""

    ARTIFACT = "artifact"
    EVENT = "event"
    GRAPH_NODE = "graph_node"
    GRAPH_EDGE = "graph_edge"
    COMPUTED = "computed"


class OverviewEntry(Entry):
    source_type: Annotated[OverviewSource, Field(strict=False)]  # type: ignore[assignment]  # another vocabulary


class OverviewDropped(Dropped):
    source_type: Annotated[OverviewSource, Field(strict=False)]  # type: ignore[assignment]


class OverviewPack(ContextPack):
    """A context pack with the source types of the HMX overview."""

    entries: Annotated[list[OverviewEntry], Field(max_length=PACK_ENTRIES)]  # type: ignore[assignment]
    dropped_entries: Annotated[list[OverviewDropped], Field(max_length=PACK_DROPS)] | None = None  # type: ignore[assignment]
