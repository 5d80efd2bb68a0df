"""The request for a context pack, validated. Every field is part of the pack's identity."""

from typing import Annotated

from pydantic import Field

from hmx_pipeline.contracts.base import Items, Model
from hmx_pipeline.contracts.event import Id, Timestamp, Unit
from hmx_pipeline.contracts.ledger import Cue
from hmx_pipeline.contracts.limits import EMBEDDING_DIMENSIONS, PACK_TAGS, PROJECTED_NAME, TAG
from hmx_pipeline.contracts.options import Filling, Past, Profile, Section, Strategy
from hmx_pipeline.contracts.pack import RankingWeights, Vocabulary

QUERY_CHARACTERS = 16_384
Label = Annotated[str, Field(min_length=1, max_length=TAG)]


class Lineage(Model):
    """Where something comes from (HMX-E §2.2). An artifact or knowledge record has what all of its evidence shares,
    which is session and agent only."""

    session_id: Label | None = None
    agent_id: Label | None = None
    trace_id: Label | None = None
    source: Label | None = None


class PlannedCall(Model):
    """A tool call that is about to be made."""

    tool: Id
    command: Annotated[str, Field(max_length=QUERY_CHARACTERS)] = ""
    """The command line, or the path of the file."""


class PackRequest(Model):
    """A request for a context pack. `agent_id` and `session_id` name the reader: an agent gets what applies to it, and
    the session's recent steps show its place in a procedure. `subject_id` names the person: what is private to others
    is not there. `lineage` and `tags` limit what the pack may rest on."""

    query: Annotated[str, Field(min_length=1, max_length=QUERY_CHARACTERS)]
    tenant_id: Id
    token_budget: Annotated[int, Field(ge=1, le=1_000_000)] = 4096
    agent_id: Id | None = None
    session_id: Id | None = None
    subject_id: Annotated[Id | None, Field(exclude_if=lambda subject: subject is None)] = None
    """The person to answer, as events name it. Without one, only what the whole tenant shares is found."""
    sections: Items[Annotated[Section, Field(strict=False)]] | None = None
    """Only these sections; all if left out."""
    tags: Annotated[list[Annotated[str, Field(max_length=TAG)]], Field(max_length=PACK_TAGS)] | None = None
    """Only episodes that have all of these tags, and artifacts whose source events all do (HMX-E §2.2)."""
    lineage: Lineage | None = None
    """Only what comes from this origin."""
    include: Items[Annotated[Past, Field(strict=False)]] | None = None
    """Also superseded or archived versions, or what is diagnostic: skills that nobody has validated, and what agents
    doubt. Drafts, deprecated versions and rejected skills are never shown."""
    as_of: Timestamp | None = None
    """The pack as it would have been at that event time: what had been said, what held, and the versions of
    that time."""
    min_confidence: Unit = 0.0
    weights: RankingWeights = RankingWeights()
    strategy: Annotated[Strategy, Field(strict=False)] = Strategy.RANKED
    profile: Annotated[Profile, Field(strict=False, exclude_if=lambda profile: profile is Profile.DEFAULT)] = (
        Profile.DEFAULT
    )
    """`cognitive` orders by the reinforcement ledger too; what may be shown is the same."""
    cues: Annotated[
        dict[Cue, Annotated[str, Field(max_length=PROJECTED_NAME)]] | None,
        Field(exclude_if=lambda cues: cues is None),
    ] = None
    """Where the question is asked. The cognitive profile ranks higher what was learnt under the same `cues`."""
    before_call: Annotated[PlannedCall | None, Field(exclude_if=lambda call: call is None)] = None
    """Only what is about this call: rules and corrections that name it, and how the same command has failed."""
    fill: Annotated[Filling, Field(strict=False)] = Filling.RELEVANT
    """`budget` fills the budget with whatever fits, however little it answers the question."""
    explain: bool = False
    """Adds `metadata.explained`: why each entry is in, why each drop is out, and at what budget it would be in."""
    as_text: Annotated[bool, Field(exclude_if=lambda asked: not asked)] = False
    """Adds `metadata.as_text`: the answer in Markdown, about 150 words to paste."""
    vocabulary: Annotated[Vocabulary, Field(strict=False)] = Vocabulary.HMX_C
    """The specification whose names of source types are used."""
    query_vector: Annotated[list[float] | None, Field(min_length=1, max_length=EMBEDDING_DIMENSIONS)] = None
    """The question as an embedding. Events whose own `embeddings` are near it are found too (HMX-E §2.2)."""
    query_model: Annotated[Label | None, Field(exclude_if=lambda model: model is None)] = None
    """The model of the embedding, if the events' `metadata` names theirs."""
