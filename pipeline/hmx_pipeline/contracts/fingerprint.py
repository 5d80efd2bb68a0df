"""HMX-F fingerprint model: what an agent or tenant has learnt, in portable form.

The specification names the parts and tiers; we define what the parts contain. All five parts are always present, empty
if the tier leaves them out. No part names an event, version or compile time, so the same evidence gives the same
fingerprint. What only one session has said is left out (see `hmx_pipeline.fingerprints`).
"""

import hashlib
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from hmx_pipeline.contracts.artifact import TypeName, is_type
from hmx_pipeline.contracts.base import Items, Model
from hmx_pipeline.contracts.canonical import canonical_json, content_hash
from hmx_pipeline.contracts.event import HmxVersion, Name, Timestamp, Unit
from hmx_pipeline.contracts.keys import CONTROL_PREFIX, join_key, split_key
from hmx_pipeline.contracts.limits import ARTIFACT_CONTENT_BYTES, ARTIFACT_TAGS
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.contracts.versions import HMX_VERSION

FINGERPRINT_VERSION: Final = 1
PRIORS_TYPE: Final = "x-hmx-priors"
"""Custom artifact type of imported priors; the content is a `ContextPriors`."""

Count = Annotated[int, Field(ge=0)]


def priors_pattern(agent_id: str) -> str:
    """Return the pattern of priors imported for an agent; "" stands for all agents."""
    return join_key(PRIORS_TYPE, agent_id)


Sha256 = Annotated[str, Field(pattern=r"^[a-f0-9]{64}$")]


class Tier(StrEnum):
    """How much of it there is."""

    FULL = "full"
    COMPACT = "compact"
    MINIMAL = "minimal"


class Lesson(Model):
    """What an artifact teaches, without what only its own tenant can use."""

    pattern: Name
    """Type and key of the pattern, equal wherever the same is learnt."""
    title: Name
    summary: str
    content: dict[str, Any]
    confidence: Unit
    observed_count: Count
    tags: Annotated[list[str], Field(max_length=ARTIFACT_TAGS)]
    success_rate: Unit | None = None

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        """Accept no type of the pipeline's own, except priors."""
        parts = split_key(self.pattern)
        if len(parts) != 2 or not is_type(parts[0]):
            raise ValueError("pattern is not of the form type/key")
        if parts[0].startswith(CONTROL_PREFIX) and parts[0] != PRIORS_TYPE:
            raise ValueError(f"types {CONTROL_PREFIX}* are the pipeline's own")
        if len(canonical_json(self.content)) > ARTIFACT_CONTENT_BYTES:
            raise ValueError("content is larger than 256 KB (HMX-A §12)")
        return self


class ArtifactSummary(Lesson):
    """In a fingerprint."""

    artifact_type: TypeName
    content_hash: Sha256
    status: Annotated[Status, Field(strict=False)]

    @model_validator(mode="after")
    def _is_what_it_says(self) -> Self:
        if split_key(self.pattern)[0] != self.artifact_type:
            raise ValueError("pattern is of another type than artifact_type")
        if self.content_hash != content_hash(self.content):
            raise ValueError("content_hash is not the hash of content (HMX-A §8)")
        return self


class ArtifactSummaries(Model):
    """By pattern. `counts`: by type, of all there are; `omitted`: of these not listed for their size."""

    counts: dict[str, Count] = Field(default_factory=dict)
    artifacts: Items[ArtifactSummary] = Field(default_factory=list)
    omitted: Count = 0


class Use(Model):
    """How often a tool was used and how that ended, where it is known."""

    calls: Count
    succeeded: Count
    failed: Count
    frequency: Unit
    """Share of all calls."""
    error_rate: Unit | None = None
    """Share of failures among calls with a known outcome."""


class BehavioralPatterns(Model):
    """What agents did, counted over all segments. What is too rare to be named stands under `other`."""

    sessions: Count = 0
    segments: Count = 0
    outcomes: dict[str, Count] = Field(default_factory=dict)
    """Outcome → number of segments."""
    calls: Count = 0
    error_rate: Unit | None = None
    tools: dict[str, Use] = Field(default_factory=dict)
    errors: dict[str, Count] = Field(default_factory=dict)
    """Error class → number of errors."""
    decisions: dict[str, dict[str, Count]] = Field(default_factory=dict)
    """Question key (as in decision_policy) → option → number of choices."""
    of_about: Count | None = None
    """Estimated number of all segments, if these are an even sample."""


class Node(Model):
    type: Name
    name: str = ""
    """Empty if only one session names it."""


class Edge(Model):
    """`source` and `target`: places in `nodes`."""

    source: Count
    relation: Name
    target: Count


class Hub(Model):
    type: Name
    name: Name
    degree: Count


class GraphDigest(Model):
    """The structure of the knowledge graph; `nodes` and `edges` in full fingerprints only."""

    entities: dict[str, Count] = Field(default_factory=dict)
    """Entity type → number."""
    relations: dict[str, Count] = Field(default_factory=dict)
    """Relation → number."""
    hubs: Items[Hub] = Field(default_factory=list)
    """The entities with most relations."""
    nodes: Items[Node] = Field(default_factory=list)
    edges: Items[Edge] = Field(default_factory=list)
    omitted: Count = 0
    """Number of entities and relations that were not read."""


class SemanticSummary(Model):
    text: str = ""
    competencies: Items[str] = Field(default_factory=list)
    """Titles of what is done best."""


class ContextPriors(Model):
    """How much each section, pattern and word has mattered: 0 to 1, 1 for what has mattered most."""

    sections: dict[str, Unit] = Field(default_factory=dict)
    patterns: dict[str, Unit] = Field(default_factory=dict)
    terms: dict[str, Unit] = Field(default_factory=dict)
    """Stem → weight."""


class Import(Lesson):
    """One artifact of another's fingerprint that an operator gives a tenant or one of its agents. Its content may
    differ from the fingerprint's, because intake redacts secrets here too."""

    tenant_id: Name
    """The tenant that receives it."""
    agent_id: str
    """The agent that it is for; "" stands for all agents."""
    fingerprint_hash: Sha256
    created_at: Timestamp
    """Creation time of the fingerprint."""

    @property
    def key(self) -> str:
        """Key of its record on the evidence topic: the prefix of the pattern's contributions."""
        return join_key(self.tenant_id, self.pattern)


PARTS: Final = ("artifact_summaries", "behavioral_patterns", "graph_digest", "semantic_summary", "context_priors")


class Fingerprint(Model):
    """`fingerprint_hash` is the SHA-256 of the canonical form (RFC 8785) of an object of the five parts."""

    hmx_version: HmxVersion = HMX_VERSION
    fingerprint_id: Name
    fingerprint_version: Literal[1] = FINGERPRINT_VERSION
    tenant_id: Name
    created_at: Timestamp
    """Time of the newest event."""
    artifact_summaries: ArtifactSummaries
    behavioral_patterns: BehavioralPatterns
    graph_digest: GraphDigest
    semantic_summary: SemanticSummary
    context_priors: ContextPriors
    fingerprint_hash: Sha256
    metadata: dict[str, Any]
    compression_tier: Annotated[Tier, Field(strict=False)] | None = None
    agent_id: Name | None = None

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        parts = {name: getattr(self, name) for name in PARTS}
        if self.fingerprint_hash != fingerprint_hash(parts):
            raise ValueError("fingerprint_hash is not the hash of the five parts")
        return self


def fingerprint_hash(parts: dict[str, Model]) -> str:
    """Hash the five parts, given by name."""
    told = {name: parts[name].model_dump(mode="json", exclude_none=True) for name in PARTS}
    return hashlib.sha256(canonical_json(told)).hexdigest()
