"""What a context pack is asked for. Pure.

Enters: the caller's JSON. Leaves: a validated request, whose every field is part of the pack's identity.
"""

from typing import Annotated

from pydantic import Field

from pipeline.contracts.event import Id, Timestamp, Unit
from pipeline.contracts.limits import EMBEDDING_DIMENSIONS, PACK_TAGS, TAG
from pipeline.contracts.model import Items, Model
from pipeline.contracts.pack import Filling, Past, RankingWeights, Section, Strategy, Vocabulary

QUERY_CHARACTERS = 16_384
Label = Annotated[str, Field(min_length=1, max_length=TAG)]


class Lineage(Model):
    """Where something comes from (HMX-E §2.2). An artifact or a record of knowledge has what all of its evidence has;
    of these only session and agent are known."""

    session_id: Label | None = None
    agent_id: Label | None = None
    trace_id: Label | None = None
    source: Label | None = None


class PackRequest(Model):
    """`agent_id` and `session_id` name who asks: an agent gets what holds for it, a session's recent steps say where
    in a procedure it stands. What a pack may rest on, `lineage` and `tags` say."""

    query: Annotated[str, Field(min_length=1, max_length=QUERY_CHARACTERS)]
    tenant_id: Id
    token_budget: Annotated[int, Field(ge=1, le=1_000_000)] = 4096
    agent_id: Id | None = None
    session_id: Id | None = None
    sections: Items[Annotated[Section, Field(strict=False)]] | None = None
    """Only these; all where it is left out."""
    tags: Annotated[list[Annotated[str, Field(max_length=TAG)]], Field(max_length=PACK_TAGS)] | None = None
    """Only episodes that carry all of these, and artifacts whose every source event does (HMX-E §2.2)."""
    lineage: Lineage | None = None
    """Only what comes from there."""
    include: Items[Annotated[Past, Field(strict=False)]] | None = None
    """Also what was superseded, or archived; drafts and what is deprecated never."""
    as_of: Timestamp | None = None
    """The pack as it would have been then, in event time: what was said and held, and the versions that stood."""
    min_confidence: Unit = 0.0
    weights: RankingWeights = RankingWeights()
    strategy: Annotated[Strategy, Field(strict=False)] = Strategy.RANKED
    fill: Annotated[Filling, Field(strict=False)] = Filling.RELEVANT
    """`budget` for all that fits, however little of the question it answers."""
    explain: bool = False
    """`metadata.explained` says why each entry is in, why each drop is out, and at what budget it would be in."""
    as_text: Annotated[bool, Field(exclude_if=lambda asked: not asked)] = False
    """`metadata.as_text` is the answer in Markdown, some 150 words that one would paste."""
    vocabulary: Annotated[Vocabulary, Field(strict=False)] = Vocabulary.HMX_C
    """In whose words source types are named."""
    query_vector: Annotated[list[float] | None, Field(min_length=1, max_length=EMBEDDING_DIMENSIONS)] = None
    """The question as an embedding: events whose own `embeddings` are near it are found too (HMX-E §2.2)."""
    query_model: Annotated[Label | None, Field(exclude_if=lambda model: model is None)] = None
    """The model that made it, where the events' `metadata` names theirs."""
