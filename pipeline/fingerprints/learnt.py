"""What a fingerprint is made of: a tenant's memory, or an agent's share of it. Pure.

Enters: what Redis holds. Leaves: the same in one value, nothing of it depending on the order in which it came. Nothing
fails.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from pipeline.contracts.artifact import Artifact, Status
from pipeline.contracts.fingerprint import PRIORS_TYPE
from pipeline.contracts.knowledge import KnowledgeRecord

SHARED: Final = 2
"""Sessions that must have said something freely worded before it is told elsewhere."""


class Deeds(msgspec.Struct, frozen=True):
    """The body of a contribution of the kind `conduct`; a withdrawn one has none."""

    tools: dict[str, tuple[int, int, int]] = {}
    errors: dict[str, int] = {}
    decisions: dict[str, dict[str, int]] = {}


class Conduct(msgspec.Struct, frozen=True):
    """Of such a contribution what is added up; there may be very many."""

    session_id: str
    agent_id: str
    outcome: str
    body: Deeds
    withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class Learnt:
    """One tenant's, or with `agent_id` one agent's."""

    tenant_id: str
    newest: int
    """Event time of the tenant's newest event, milliseconds."""
    artifacts: Sequence[Artifact]
    """Drafts and active ones."""
    conduct: Sequence[Conduct]
    entities: Sequence[KnowledgeRecord]
    relations: Sequence[KnowledgeRecord]
    counted: float = 1.0
    """Share of all segments that `conduct` speaks of; less than 1 where it is a sample, which is an even one."""
    unread: int = 0
    """Entities and relations that were not looked at."""
    agent_id: str | None = None


def of_agent(learnt: Learnt, agent_id: str, agents: Mapping[str, str]) -> Learnt:
    """What rests on the agent's own contributions, among others perhaps, and what was imported for it. `agents`:
    contribution → agent."""

    def own(memory_ids: Iterable[str]) -> bool:
        return any(agents.get(each) == agent_id for each in memory_ids)

    return replace(
        learnt,
        agent_id=agent_id,
        artifacts=[a for a in learnt.artifacts if own(a.source_memory_ids) or _given_to(a, agent_id)],
        conduct=[c for c in learnt.conduct if c.agent_id == agent_id],
        entities=[r for r in learnt.entities if own(r.source_memory_ids)],
        relations=[r for r in learnt.relations if own(r.source_memory_ids)],
    )


def _given_to(artifact: Artifact, agent_id: str) -> bool:
    """Imported, which rests on nobody's contributions here."""
    scope = artifact.validity_scope
    agents = scope.agent_ids if scope is not None else None
    return not artifact.source_memory_ids and (not agents or agent_id in agents)


def portable(artifact: Artifact) -> bool:
    """Active ones, and drafts that several sessions have taught; the priors of an import are no artifact of their
    own."""
    if artifact.artifact_type == PRIORS_TYPE or "pattern" not in artifact.metadata:
        return False
    sessions = artifact.metadata.get("checked", {}).get("sessions", 0)
    return artifact.status is Status.ACTIVE or (artifact.status is Status.DRAFT and sessions >= SHARED)
