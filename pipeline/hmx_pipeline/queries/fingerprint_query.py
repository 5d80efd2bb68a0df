"""Fingerprint query: reads from Redis what a tenant or one of its agents has learnt, and makes a fingerprint (HMX-F).

Enters: a tenant, a `Tier`, an agent or none. Leaves: a `Fingerprint`. Raises StoreUnavailableError.
"""

from hmx_pipeline.contracts.fingerprint import Fingerprint, Tier
from hmx_pipeline.fingerprints.make import fingerprint
from hmx_pipeline.store.fetch import Store


def make_fingerprint(store: Store, tenant: str, tier: Tier, agent_id: str | None = None) -> Fingerprint:
    """Makes the fingerprint of a tenant, or of what rests on one agent's sessions. Raises StoreUnavailableError."""
    return fingerprint(store.learnt(tenant, agent_id), tier)
