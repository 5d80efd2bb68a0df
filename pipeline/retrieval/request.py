"""What a context pack is asked for. Pure.

Enters: the caller's JSON. Leaves: a validated request, whose every field is part of the pack's identity.
"""

from typing import Annotated

from pydantic import Field

from pipeline.contracts.event import Name, Unit
from pipeline.contracts.limits import PACK_TAGS, TAG
from pipeline.contracts.model import Model
from pipeline.contracts.pack import RankingWeights, Section, Strategy

QUERY_CHARACTERS = 16_384


class PackRequest(Model):
    """`session_id` names the session that asks: its recent steps say where in a procedure it stands."""

    query: Annotated[str, Field(min_length=1, max_length=QUERY_CHARACTERS)]
    tenant_id: Name
    token_budget: Annotated[int, Field(ge=1, le=1_000_000)] = 4096
    agent_id: Name | None = None
    session_id: Name | None = None
    sections: list[Annotated[Section, Field(strict=False)]] | None = None
    """Only these; all where it is left out."""
    tags: Annotated[list[Annotated[str, Field(max_length=TAG)]], Field(max_length=PACK_TAGS)] | None = None
    """Only episodes that carry all of these, and artifacts whose every source event does (HMX-E §2.2)."""
    min_confidence: Unit = 0.0
    weights: RankingWeights = RankingWeights()
    strategy: Annotated[Strategy, Field(strict=False)] = Strategy.RANKED
