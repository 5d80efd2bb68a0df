"""What was learnt elsewhere: it stands until a tenant's own evidence says something, and is believed less.

In: what was imported about a pattern, and the candidate of its own evidence. Out: the candidate that counts. Which of
several imports counts does not depend on their order. Nothing fails.
"""

from typing import Final

from pydantic import Field

from pipeline.compiler.model import Candidate
from pipeline.contracts.artifact import Status, ValidityScope
from pipeline.contracts.fingerprint import PRIORS_TYPE, Import
from pipeline.contracts.instants import milliseconds
from pipeline.contracts.keys import split_key
from pipeline.contracts.limits import IMPORTED_AGENTS
from pipeline.contracts.model import Model

TRUST: Final = 0.7
"""What others are sure of counts so much: their success is not this tenant's."""
CAUSE: Final = "imported with a fingerprint"
_EVERYBODY: Final = ""
_TOLD: Final = {"fingerprint_hash", "confidence", "observed_count", "success_rate"}


class Imported(Model):
    """The newest import about a pattern, and for whom."""

    newest: Import
    agents: list[str] = Field(min_length=1)
    """Sorted; the empty one stands for everybody."""


def added(known: Imported | None, given: Import) -> Imported:
    """The newest by its fingerprint's time, for all who were given one."""
    if known is None:
        return Imported(newest=given, agents=[given.agent_id])
    newest = max(known.newest, given, key=lambda one: (milliseconds(one.created_at), one.fingerprint_hash))
    return Imported(newest=newest, agents=sorted({*known.agents, given.agent_id})[:IMPORTED_AGENTS])


def believed(own: Candidate | None, imported: Imported | None) -> Candidate | None:
    """Own evidence as soon as it is enough, or speaks against it."""
    if imported is None or (own is not None and (own.status is Status.ACTIVE or own.contradicted)):
        return own
    given, agents = imported.newest, [] if _EVERYBODY in imported.agents else imported.agents
    trust = 1.0 if split_key(given.pattern)[0] == PRIORS_TYPE else TRUST
    told = given.model_dump(include=_TOLD, exclude_none=True)
    return Candidate(
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
