"""Receipt contents: what memory holds of an erasure, which the erasure query counts before and again after it.

Enters: an `Erasure`. Leaves: `HeldRecords`: how many events, and the ids of contributions, artifacts and knowledge
records; without names they stay in Redis for a week, in which the receipt can be made. Raises StoreUnavailableError.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote

import orjson

from hmx_pipeline.contracts.episode import subject_of
from hmx_pipeline.contracts.erasure import ErasedScope, Erasure, covered, mark_of
from hmx_pipeline.store.atomic_blocks import Client, reachable
from hmx_pipeline.store.erased_memory import PAGE, Erasures, all_episodes, all_records
from hmx_pipeline.store.redis_keys import Keys


class HeldRecords(NamedTuple):
    """What memory holds of an erasure."""

    events: int
    contributions: frozenset[str]
    artifacts: frozenset[str]
    knowledge: frozenset[str]
    """Ids of the records that rest on one of the contributions."""


def sessions_of(client: Client, keys: Keys, tenant_id: str, subject: str) -> set[str]:
    """Returns the sessions whose first subject this is."""
    wanted = subject.encode()
    with reachable():
        listed = client.hscan_iter(keys.tenant(tenant_id).subjects, count=PAGE)
        return {unquote(session.decode()) for session, named in listed if named == wanted}


def held(client: Client, keys: Keys, erasure: Erasure, erased: Erasures | None = None) -> HeldRecords:
    """Counts what an erasure covers; with `erased`, only the events that these marks hide. Reads all of the tenant's
    memory."""
    tenant, marks = keys.tenant(erasure.tenant_id), erasure.marks

    def covers(session: str, subject: str) -> bool:
        return covered(marks, erasure.tenant_id, session, subject)

    with reachable():
        events = sum(
            covers(fields["sessionId"], subject_of(fields)) and (erased is None or erased.hides_episode(fields))
            for fields in all_episodes(client, tenant)
        )
        contributions = frozenset(
            fields["contribution_id"]
            for fields in all_records(client, client.hscan_iter(tenant.digests("contribution")), tenant.contribution)
            if covers(fields["session_id"], fields.get("subject", ""))
        )
        artifacts = _resting(client, client.hscan_iter(tenant.digests("artifact")), tenant.artifact, contributions)
        knowledge = _resting(client, client.hscan_iter(tenant.digests("knowledge")), tenant.knowledge, contributions)
    return HeldRecords(events, contributions, artifacts, knowledge)


def keep_held(client: Client, keys: Keys, erasure: Erasure, found: HeldRecords, seconds: int) -> None:
    """Keeps what an erasure covers, in hashes and ids, for so many seconds. It names nobody."""
    told = {
        "at": erasure.at,
        "mark": mark_of(erasure.tenant_id, erasure.scope, erasure.name),
        "sessions": erasure.sessions,
        "held": [found.events, *(sorted(names) for names in found[1:])],
    }
    with reachable():
        client.set(keys.tenant(erasure.tenant_id).erasing(erasure.erasure_id), orjson.dumps(told), ex=seconds)


def kept_held(
    client: Client, keys: Keys, tenant_id: str, erasure_id: str, scope: ErasedScope, name: str
) -> tuple[Erasure, HeldRecords] | None:
    """Returns an earlier erasure of this, and what it covered; None if none is kept."""
    with reachable():
        value = client.get(keys.tenant(tenant_id).erasing(erasure_id))
    told = orjson.loads(value) if value is not None else {}
    if told.get("mark") != mark_of(tenant_id, scope, name):
        return None
    erasure = Erasure(
        erasure_id=erasure_id, tenant_id=tenant_id, scope=scope, name=name, at=told["at"], sessions=told["sessions"]
    )
    events, *names = told["held"]
    return erasure, HeldRecords(events, *map(frozenset, names))


def _resting(
    client: Client, listed: Iterator[Any], key_of: Callable[[str], bytes], contributions: frozenset[str]
) -> frozenset[str]:
    return frozenset(
        fields.get("artifact_id") or fields["record_id"]
        for fields in all_records(client, listed, key_of)
        if not contributions.isdisjoint(fields["source_memory_ids"])
    )
