"""Authority of statements: whose word a claim is, and what would outweigh it.

Input: contributions, statements or records, and the tenant's `Trust`. Output: their `Authority`; the contributions
without what does not count; one sentence on why a record is believed. A claim says by whom it is (`by`); the tenant's
`Trust` says which agents' typed events count as more than an assistant. A tenant that names neither subjects nor
trusted agents has none: then an event counts like a user, as it always did.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from hmx_pipeline.compiler.knowledge.claim_names import USER
from hmx_pipeline.compiler.knowledge.knowledge_kind import Statement
from hmx_pipeline.contracts.agent_types import AGENT_TYPES, SHELVES
from hmx_pipeline.contracts.artifact import UNCONFIRMED
from hmx_pipeline.contracts.event_rows import Shelf
from hmx_pipeline.contracts.evidence import UNPROVEN, Contribution
from hmx_pipeline.contracts.knowledge import Authority, KnowledgeRecord, Memory
from hmx_pipeline.contracts.limits import QUORUM
from hmx_pipeline.contracts.memory_types import LEDGER
from hmx_pipeline.contracts.options import Kind

ASSISTANT: Final = "assistant"
EVENT: Final = "event"
"""A typed event, before it is known whether an operator trusts its agent."""
QUOTED: Final = "quoted"
_OF: Final[Mapping[str, Authority]] = {EVENT: Authority.USER, **{one.value: one for one in Authority}}
_STATES: Final = {
    **{entity: Memory.POLICY for entity, shelf in SHELVES.items() if shelf is Shelf.PROCEDURE},
    **{
        row.projection.entity: row.projection.says[0].memory
        for row in AGENT_TYPES.values()
        if row.projection is not None and row.projection.entity and row.projection.says
    },
    **{
        edge.source_type: Memory.POLICY
        for row in AGENT_TYPES.values()
        if row.projection is not None
        for edge in row.projection.edges
        if edge.founds and SHELVES.get(edge.target_type) is Shelf.PROCEDURE
    },
}
"""Entity type → what its events state. A skill tells others what to do, as a rule does, and so does its name."""
_TYPES: Final = ("type", "source_type", "target_type")
SHOWN: Final = "authority"
"""Key of a record's body that says it."""
_WHO: Final[Mapping[Authority, str]] = {
    Authority.OPERATOR: "an operator",
    Authority.AGENT: "an agent that an operator trusts",
    Authority.USER: "a user",
    Authority.ASSISTANT: "an assistant, or an agent that no operator trusts,",
    Authority.QUOTED: "somebody whose words were reported",
}


class Trust(NamedTuple):
    """Which agents an operator trusts."""

    agents: frozenset[str] = frozenset()
    people: bool = False
    """True if events of the tenant name subjects. Then what names none is nobody's in particular."""

    def trusts(self, contribution: Contribution) -> bool:
        """Return True if an operator trusts every agent that tells it."""
        return all(map(self._is_trusted, contribution.tellers or [contribution.agent_id]))

    def _is_trusted(self, agent: str) -> bool:
        return agent in self.agents and agent != UNPROVEN

    def _tells(self, contribution: Contribution, one: Mapping[str, Any]) -> bool:
        """Return True if an operator trusts the agent that tells this item."""
        return self._is_trusted(one["teller"]) if "teller" in one else self.trusts(contribution)

    def ranked(self, contribution: Contribution, *, shared: bool) -> Contribution:
        """Return the contribution with its typed events told by a trusted agent or by an assistant. `shared`: True if
        every subject will see it. Then an assistant states nothing, and it never makes a rule."""
        claims: Sequence[Mapping[str, Any]] = contribution.body.get("claims", ())
        if not claims:
            return self._of_entity(contribution, shared=shared)
        by = {True: Authority.AGENT.value, False: Authority.ASSISTANT.value}
        told = [
            {**claim, "by": by[self._tells(contribution, claim)]} if claim["by"] == EVENT else claim for claim in claims
        ]
        if shared or contribution.body["memory"] == Memory.POLICY:
            told = [claim for claim in told if rank_of(claim["by"]) >= Authority.USER.rank]
        return contribution if told == claims else contribution.saying(claims=told)

    def _of_entity(self, contribution: Contribution, *, shared: bool) -> Contribution:
        """The entity of an event that states something repeats the statement, so it counts like that."""
        body = contribution.body
        if contribution.pattern_type == LEDGER and self.people and shared and not contribution.subject:
            return contribution if self.trusts(contribution) else contribution.saying(said=[])
        states = {_STATES[one] for name in _TYPES if (one := body.get(name)) in _STATES}
        if not states or self.trusts(contribution) or not (shared or Memory.POLICY in states):
            return contribution
        return contribution.saying(seen=[one for one in body["seen"] if self._tells(contribution, one)])

    def confirmed(self, said: Statement, authority: Authority) -> bool:
        """Return False for a rule of somebody who may be anybody, and for what a typed event of an agent says that no
        operator trusts: it is not for each subject of the tenant."""
        if not self.people or authority is not (Authority.USER if said.kind is Kind.POLICY else Authority.ASSISTANT):
            return True
        if said.kind not in (Kind.POLICY, Kind.ENTITY, Kind.RELATION):
            return True
        return len({source.subject for source in said.sources if source.subject}) >= QUORUM

    def decided(self, told: Sequence[Contribution]) -> tuple[list[Contribution], bool]:
        """Return the decisions that count, and whether they are for each subject of the tenant. Where its subjects or
        trusted agents decide, nobody else's count."""
        named = [one for one in told if one.subject or self.trusts(one)] if self.people else []
        return (named, True) if named else (list(told), not self.people)

    def of(self, said_by: Sequence[str] | None, sources: Sequence[Contribution]) -> Authority:
        """Return the authority of a statement. Without authors (entities, corrections) it is that of its agents."""
        if said_by:
            return max((_OF[by] for by in said_by), key=lambda one: one.rank)
        trusted = any(map(self.trusts, sources))
        return Authority.AGENT if trusted else Authority.ASSISTANT


def rank_of(by: str) -> int:
    return _OF[by].rank


def binds(record: KnowledgeRecord) -> bool:
    """Return True if a rule must not be overridden: an operator's, a trusted agent's, or the reader's own."""
    told = record.body.get(SHOWN)
    if told is None:
        return USER in record.body.get("said_by", (USER,))
    authority = Authority(told)
    return authority.rank > Authority.USER.rank or (authority is Authority.USER and record.subject_id is not None)


def is_for(body: Mapping[str, Any], subject: str) -> bool:
    """Return True if a record with this body is for this subject; for a request that names nobody, all it sees are."""
    return not subject or UNCONFIRMED not in body or body[SHOWN] not in (Authority.USER, Authority.ASSISTANT)


def authority_of(record: KnowledgeRecord) -> Authority | None:
    """Return the authority that a record says; None if it says none."""
    return Authority(record.body[SHOWN]) if SHOWN in record.body else None


def who(authority: Authority) -> str:
    return _WHO[authority].rstrip(",")


def why(record: KnowledgeRecord) -> str:
    """Return one sentence: why the record is believed, and what would outweigh it."""
    told = record.body.get(SHOWN) or max(
        (_OF[by] for by in record.body.get("said_by", ())), key=lambda one: one.rank, default=Authority.ASSISTANT
    )
    authority, sessions = Authority(told), record.body.get("sessions", 1)
    above = [who(one) for one in Authority if one.rank > authority.rank]
    by = f"user {record.subject_id}" if authority is Authority.USER and record.subject_id else _WHO[authority]
    times = "one session" if sessions == 1 else f"{sessions} sessions"
    equal = "a later statement with the same authority"
    return f"Believed because {by} said so in {times}; {' or '.join((equal, *above))} would outweigh it."
