"""Session evidence: which sessions of a tenant are known to be somebody's, and what they contributed before that.

Input: changes of contributions. Only tenants that name subjects are asked about, so a tenant's sessions are listed when
it is first asked about, and followed from then on.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from hmx_pipeline.contracts.evidence import Contribution


class _Session(NamedTuple):
    named: int
    """Number of contributions that name a subject."""
    unnamed: set[str]
    """Keys of the others."""


class SessionEvidence:
    """`of_tenant` yields all contributions of a tenant, with their keys."""

    def __init__(self, of_tenant: Callable[[str], Iterable[tuple[str, Contribution]]]) -> None:
        self._of_tenant = of_tenant
        self._known: dict[str, dict[str, _Session]] = {}
        """Tenant → session → what it has in the maps."""

    def is_owned(self, tenant_id: str, session_id: str) -> bool:
        """Return True if the session is known to be somebody's."""
        known = self._sessions(tenant_id).get(session_id)
        return known is not None and known.named > 0

    def unnamed(self, tenant_id: str, session_id: str) -> list[str]:
        """Return the keys of what a session contributed while nobody knew whose it is."""
        known = self._sessions(tenant_id).get(session_id)
        return sorted(known.unnamed) if known is not None else []

    def follow(self, key: str, contribution: Contribution, by: int) -> None:
        """Count a contribution that has come (1) or gone (-1)."""
        sessions = self._known.get(contribution.tenant_id)
        if sessions is None:
            return
        known = sessions.setdefault(contribution.session_id, _Session(0, set()))
        if contribution.subject:
            known = sessions[contribution.session_id] = known._replace(named=known.named + by)
        elif by > 0:
            known.unnamed.add(key)
        else:
            known.unnamed.discard(key)
        if not known.named and not known.unnamed:
            del sessions[contribution.session_id]

    def _sessions(self, tenant_id: str) -> dict[str, _Session]:
        if tenant_id not in self._known:
            self._known[tenant_id] = {}
            for key, contribution in self._of_tenant(tenant_id):
                self.follow(key, contribution, 1)
        return self._known[tenant_id]
