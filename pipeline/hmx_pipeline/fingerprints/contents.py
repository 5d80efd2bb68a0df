"""The input of a fingerprint: what a tenant, or one of its agents, has learnt. It does not depend on order.

Input: a tenant's contents, as `store/fingerprint_inputs` reads them, and the agent of each contribution. Output: those
of one agent (`of_agent`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.fingerprint import PRIORS_TYPE
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.options import Status

SHARED: Final = 2
"""Number of sessions, and of subjects where they have any, that must share a free text before a fingerprint quotes
it."""


class ActionCounts(msgspec.Struct, frozen=True):
    """The body of a contribution of the kind `conduct`; empty if it is withdrawn."""

    tools: dict[str, tuple[int, int, int]] = {}
    errors: dict[str, int] = {}
    decisions: dict[str, dict[str, int]] = {}


class UsageCounts(msgspec.Struct, frozen=True):
    """The fields of such a contribution that are added up. Kept small, because there may be very many."""

    session_id: str
    agent_id: str
    outcome: str
    body: ActionCounts
    withdrawn: bool = False
    subject: str = ""

    @property
    def whose(self) -> str:
        """Who must not be alone with a text that is quoted: the person, else the session."""
        return self.subject or self.session_id


@dataclass(frozen=True, slots=True)
class FingerprintContents:
    """The memory of one tenant, or of one agent if `agent_id` is set."""

    tenant_id: str
    newest: int
    """Event time of the tenant's newest event, in milliseconds."""
    artifacts: Sequence[Artifact]
    """Draft and active artifacts."""
    conduct: Sequence[UsageCounts]
    entities: Sequence[KnowledgeRecord]
    relations: Sequence[KnowledgeRecord]
    counted: float = 1.0
    """Share of all segments that `conduct` covers, 0 to 1. Below 1 it is an even sample."""
    unread: int = 0
    """Number of entities and relations that were not read."""
    agent_id: str | None = None


def of_agent(learnt: FingerprintContents, agent_id: str, agents: Mapping[str, str]) -> FingerprintContents:
    """Keep what rests on the agent's own contributions (others' may support it too), and what was imported for it.
    `agents`: contribution id → agent id."""

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
    """Return True for an artifact that was imported for this agent; it has no contributions here."""
    scope = artifact.validity_scope
    agents = scope.agent_ids if scope is not None else None
    return not artifact.source_memory_ids and (not agents or agent_id in agents)


def portable(artifact: Artifact) -> bool:
    """Return True for active artifacts, and for drafts of several sessions. Imported priors are no artifact of their
    own."""
    if artifact.artifact_type == PRIORS_TYPE or "pattern" not in artifact.metadata:
        return False
    sessions = artifact.metadata.get("checked", {}).get("sessions", 0)
    return artifact.status is Status.ACTIVE or (artifact.status is Status.DRAFT and sessions >= SHARED)
