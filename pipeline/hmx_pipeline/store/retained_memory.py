"""What a tenant's retention would take out of Redis: counts by policy and kind. Reads all of the tenant's memory.

Enters: policies and the cuts so far. Leaves: the cuts by now, and counts. Raises StoreUnavailableError.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from hmx_pipeline.contracts.retention import SESSIONS, Cuts, Retention, cuts_of, risen
from hmx_pipeline.retrieval.searchable import event_time
from hmx_pipeline.store.atomic_blocks import Client, reachable
from hmx_pipeline.store.erased_memory import all_episodes, all_records, contribution_taken_by, episode_taken_by
from hmx_pipeline.store.redis_keys import Keys

CONTRIBUTION = "contribution"
RESTATED = "compiled again"


class Leaving(NamedTuple):
    cuts: Cuts
    counts: Mapping[tuple[str, str], int]
    """Policy and kind → how many leave: event types, contributions, types of artifacts and kinds of knowledge. What
    rests on other evidence too is compiled again instead, and counted as this policy."""


def leaving(client: Client, keys: Keys, asked: Retention, known: Cuts, now_ms: int) -> Leaving:
    tenant = keys.tenant(asked.tenant_id)
    with reachable():
        cuts = risen(known, cuts_of(asked.days or {}, now_ms))
        if asked.sessions is not None:
            cuts = risen(cuts, {SESSIONS: _before_sessions(client, keys, asked.tenant_id, asked.sessions)})
        counts: Counter[tuple[str, str]] = Counter()
        for fields in all_episodes(client, tenant):
            if policy := episode_taken_by(cuts, fields):
                counts[policy, fields["eventType"]] += 1
        taken: dict[str, str] = {}
        listed = client.hscan_iter(tenant.digests(CONTRIBUTION))
        for fields in all_records(client, listed, tenant.contribution):
            policy = taken[fields["contribution_id"]] = contribution_taken_by(cuts, fields)
            if policy:
                counts[policy, CONTRIBUTION] += 1
        for kind, key_of in (("artifact", tenant.artifact), ("knowledge", tenant.knowledge)):
            for fields in all_records(client, client.hscan_iter(tenant.digests(kind)), key_of):
                if policy := _fate(fields, taken):
                    counts[policy, fields.get("artifact_type") or fields["kind"]] += 1
    return Leaving(cuts, dict(sorted(counts.items())))


def _fate(fields: Mapping[str, Any], taken: Mapping[str, str]) -> str:
    """Returns the policy that takes a record: the first that takes one of its sources, if none stays."""
    policies = [taken.get(source, "") for source in fields["source_memory_ids"]]
    if not any(policies):
        return ""
    return min(policies) if all(policies) else RESTATED


def _before_sessions(client: Client, keys: Keys, tenant_id: str, kept: int) -> int:
    """Returns when the first of the latest sessions began; 0 if there are no more."""
    spans: dict[str, tuple[int, int]] = {}
    for fields in all_episodes(client, keys.tenant(tenant_id)):
        at, session = event_time(fields), fields["sessionId"]
        last, first = spans.get(session, (at, at))
        spans[session] = max(last, at), min(first, at)
    if len(spans) <= kept:
        return 0
    latest = sorted(((*span, session) for session, span in spans.items()), reverse=True)[:kept]
    return min(first for _, first, _ in latest)
