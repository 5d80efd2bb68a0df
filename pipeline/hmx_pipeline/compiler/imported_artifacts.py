"""Imported artifacts: they stand until the tenant's own evidence is sufficient, with reduced confidence.

Input: a pattern's own candidate, if there is one, and its imports. Output: the candidate to publish; an imported one
has 0.7 of the confidence that it had elsewhere (priors: all of it). Which of several imports counts does not depend on
their order.
"""

from typing import Final

from pydantic import Field

from hmx_pipeline.compiler.evidence_kind import ArtifactCandidate
from hmx_pipeline.contracts.artifact import ValidityScope
from hmx_pipeline.contracts.base import Model
from hmx_pipeline.contracts.fingerprint import PRIORS_TYPE, Import
from hmx_pipeline.contracts.keys import split_key
from hmx_pipeline.contracts.limits import IMPORTED_AGENTS
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.contracts.timestamps import milliseconds

TRUST: Final = 0.7
"""Factor on imported confidence, because success elsewhere need not repeat here."""
CAUSE: Final = "imported with a fingerprint"
_EVERYBODY: Final = ""
_TOLD: Final = {"fingerprint_hash", "confidence", "observed_count", "success_rate"}


class Imported(Model):
    """The newest import of a pattern, and the agents it was imported for."""

    newest: Import
    agents: list[str] = Field(min_length=1)
    """Agent ids, sorted; "" stands for all agents."""


def added(known: Imported | None, given: Import) -> Imported:
    """Add an import: keep the newest by fingerprint time, for all agents of either."""
    if known is None:
        return Imported(newest=given, agents=[given.agent_id])
    newest = max(known.newest, given, key=lambda one: (milliseconds(one.created_at), one.fingerprint_hash))
    return Imported(newest=newest, agents=sorted({*known.agents, given.agent_id})[:IMPORTED_AGENTS])


def believed(own: ArtifactCandidate | None, imported: Imported | None) -> ArtifactCandidate | None:
    """Return the own candidate once it is active or contradicts the import, else the import."""
    if imported is None or (own is not None and (own.status is Status.ACTIVE or own.contradicted)):
        return own
    given, agents = imported.newest, [] if _EVERYBODY in imported.agents else imported.agents
    trust = 1.0 if split_key(given.pattern)[0] == PRIORS_TYPE else TRUST
    told = given.model_dump(include=_TOLD, exclude_none=True)
    return ArtifactCandidate(
        title=given.title,
        summary=given.summary,
        content=given.content,
        confidence=round(trust * given.confidence, 6),
        status=Status.ACTIVE,
        source_events=[],
        tags=given.tags,
        observed_count=0,
        success_rate=None,
        newest_at=milliseconds(given.created_at),
        source_memory_ids=[],
        validity_scope=ValidityScope(agent_ids=agents) if agents else None,
        lineage_agent=agents[0] if len(agents) == 1 else "",
        imported=told,
    )
