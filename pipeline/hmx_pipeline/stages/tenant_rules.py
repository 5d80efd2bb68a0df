"""Rules of tenants in the patterns stage: what operators set, and what follows from it for each contribution.

Enters: `TenantSettings`, by tenant. Leaves: whether a tenant is a team, which agents it trusts, and which contributions
and rulings its retention takes.
"""

from collections.abc import Sequence

from hmx_pipeline.compiler import decision_policy
from hmx_pipeline.compiler.knowledge.authority import Trust
from hmx_pipeline.compiler.registry import class_of
from hmx_pipeline.contracts.evidence import Contribution, TenantSettings
from hmx_pipeline.contracts.retention import ALL, KNOWLEDGE, SESSIONS, Cuts, policy_of
from hmx_pipeline.contracts.ruling import Ruling


class TenantRules:
    def __init__(self) -> None:
        self._settings: dict[str, TenantSettings] = {}

    def set(self, tenant_id: str, settings: TenantSettings | None) -> None:
        self._settings.pop(tenant_id, None)
        if settings is not None:
            self._settings[tenant_id] = settings

    def trust(self, tenant_id: str) -> Trust | None:
        """Return which agents the tenant trusts; None if its events never named a subject, and no operator named an
        agent."""
        settings = self._settings.get(tenant_id)
        agents = frozenset((settings.trusted_agents or ()) if settings is not None else ())
        people = self.names_subjects(tenant_id)
        return Trust(agents, people) if agents or people else None

    def weighed(self, tenant_id: str, kind: str, told: list[Contribution]) -> tuple[list[Contribution], bool]:
        """Return the contributions that an artifact of this kind is compiled from, and whether subjects see it."""
        trust = self.trust(tenant_id) if kind == decision_policy.NAME and not self.is_team(tenant_id) else None
        return (told, True) if trust is None else trust.decided(told)

    def names_subjects(self, tenant_id: str) -> bool:
        settings = self._settings.get(tenant_id)
        return settings is not None and settings.names_subjects is True

    def is_team(self, tenant_id: str) -> bool:
        settings = self._settings.get(tenant_id)
        return settings is not None and settings.sharing == "team"

    def cuts(self, tenant_id: str) -> Cuts:
        settings = self._settings.get(tenant_id)
        return {} if settings is None else settings.cuts or {}

    def left_before(self, tenant_id: str) -> int:
        """Return the moment before which nothing is left that knowledge is made from."""
        cuts = self.cuts(tenant_id)
        return max(cuts.get(name, 0) for name in (ALL, KNOWLEDGE, SESSIONS))

    def standing(self, rulings: Sequence[Ruling]) -> list[Ruling]:
        """Return the rulings that their tenant's retention leaves."""
        return [each for each in rulings if not self.ruling_taken_by(each)]

    def ruling_taken_by(self, ruling: Ruling) -> str:
        """Return which policy of the tenant's retention takes a ruling; empty if none does."""
        return policy_of(self.cuts(ruling.tenant_id), ruling.at, KNOWLEDGE)

    def taken_by(self, contribution: Contribution) -> str:
        """Return which policy of the tenant's retention takes a contribution; empty if none does."""
        cuts = self.cuts(contribution.tenant_id)
        return policy_of(cuts, contribution.last_at, class_of(contribution.pattern_type)) if cuts else ""
