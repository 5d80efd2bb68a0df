"""Retention query: what a tenant's policies would take by now, and the count policy applied by an event in the log.

Enters: a tenant, and policies to try or none. Leaves: a `RetentionPlan` with counts by policy and kind; or a control
record with the time (ms) before which sessions leave. Raises what reading Kafka and Redis raises, and what appending a
control record raises.
"""

import time
from collections.abc import Iterator
from typing import Final

from hmx_pipeline.contracts.base import Model
from hmx_pipeline.contracts.erasure import ErasureMark
from hmx_pipeline.contracts.retention import RETENTION, SESSIONS, Cuts, Retention, risen
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.kafka.control_producer import append_retention
from hmx_pipeline.kafka.erasure_marks import erasure_marks
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.fetch import Store
from hmx_pipeline.store.retained_memory import Leaving


class LeavingCount(Model):
    policy: str
    """`age`, `class` or `count`; `compiled again` for what rests on other evidence too."""
    kind: str
    """An event type, `contribution`, a type of artifacts or a kind of knowledge."""
    count: int


class RetentionPlan(Model):
    tenant_id: str
    policy: str
    before: dict[str, str]
    """Class → the moment before which nothing of it stays."""
    leaves: list[LeavingCount]


NO_POLICY: Final = "the tenant has no policy: name one, such as all:90d"


def plan(settings: Settings, store: Store, tenant: str, asked: Retention | None = None) -> RetentionPlan:
    """Returns what would leave at once under these policies, or under those that are set. Raises LookupError if there
    are none."""
    policy, _, found = _leaving(settings, store, tenant, asked)
    rows = [LeavingCount(policy=by, kind=kind, count=count) for (by, kind), count in found.counts.items()]
    before = {name: format_ms(at) for name, at in found.cuts.items() if at}
    return RetentionPlan(tenant_id=tenant, policy=str(policy), before=before, leaves=rows)


def apply(settings: Settings, store: Store, tenant: str) -> int:
    """Lets the sessions leave that are more than the tenant keeps; returns up to when, 0 if there are none. Raises
    LookupError if the tenant has no such policy."""
    policy, known, found = _leaving(settings, store, tenant, None)
    if policy.sessions is None:
        raise LookupError(f"the tenant has no policy by count: set one with `hmx tenant set {tenant} retention=…`")
    at = found.cuts.get(SESSIONS, 0)
    if at <= known.get(SESSIONS, 0):
        return 0
    append_retention(settings, Retention(tenant_id=tenant, cuts={SESSIONS: at}))
    return at


def counted(settings: Settings) -> list[str]:
    """Returns the tenants that have a policy by count."""
    told = {one.tenant_id: one.policy for one in _marks(settings)}
    return sorted(tenant for tenant, policy in told.items() if Retention.told(tenant, policy).sessions is not None)


def _marks(settings: Settings) -> Iterator[ErasureMark]:
    marks = erasure_marks(settings.require_kafka(), settings.topic_prefix)
    return (mark for mark in marks if mark.erasure_id == RETENTION)


def _leaving(settings: Settings, store: Store, tenant: str, asked: Retention | None) -> tuple[Retention, Cuts, Leaving]:
    cuts: Cuts = {}
    told = ""
    for mark in _marks(settings):
        if mark.tenant_id == tenant:
            cuts, told = risen(cuts, mark.cuts), mark.policy
    policy = asked or Retention.told(tenant, told)
    if not str(policy):
        raise LookupError(NO_POLICY)
    return policy, cuts, store.leaving(policy, cuts, int(time.time() * 1000))
