"""Erasure query: makes an erasure from what memory holds, and its receipt once memory is without it.

Enters: what to erase. Leaves: an `Erasure` for the log, later a signed `Receipt`; the caller appends and waits in
between. Raises NothingToEraseError, and what reading Kafka and Redis raises.
"""

import time
import uuid
from collections.abc import Callable
from typing import Final

from hmx_pipeline.contracts.erasure import ErasedScope, Erasure, mark_of
from hmx_pipeline.contracts.limits import ERASED_SESSIONS
from hmx_pipeline.contracts.receipt import Receipt, seed_of, signed
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.kafka.erasure_marks import erasure_marks
from hmx_pipeline.kafka.topic_files import connect, read_cluster
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.erased_memory import HeldRecords
from hmx_pipeline.store.fetch import Store
from hmx_pipeline.topology import (
    ARTIFACTS,
    EPISODES,
    EVENTS,
    EVENTS_DLQ,
    EVIDENCE,
    EVIDENCE_DLQ,
    KNOWLEDGE,
    PATTERN_STATE,
    SESSION_STATE,
)

_KEPT: Final = (EVENTS, EVENTS_DLQ, EPISODES, EVIDENCE, EVIDENCE_DLQ)
_COMPACTED: Final = (ARTIFACTS, KNOWLEDGE, SESSION_STATE, PATTERN_STATE)
_UNLIMITED: Final = ("", "-1")


class NothingToEraseError(LookupError):
    """Memory holds nothing of it; the message says how to go on."""


def plan_erasure(store: Store, tenant: str, scope: ErasedScope, name: str) -> tuple[Erasure, HeldRecords]:
    """Returns the erasure, and what memory holds of it."""
    sessions = sorted(store.sessions_of(tenant, name)) if scope is ErasedScope.SUBJECT else []
    if len(sessions) > ERASED_SESSIONS:
        raise NothingToEraseError(f"the subject has over {ERASED_SESSIONS:,} sessions: erase them by session")
    erasure = Erasure(
        erasure_id=str(uuid.uuid4()),
        tenant_id=tenant,
        scope=scope,
        name=name,
        at=int(time.time() * 1000),
        sessions=[mark_of(tenant, ErasedScope.SESSION, each) for each in sessions],
    )
    held = store.held(erasure)
    if not held.events and not held.contributions:
        what = "nothing" if scope is ErasedScope.TENANT else f"nothing of this {scope}"
        raise NothingToEraseError(f"memory holds {what}: if its events have just been published, run `hmx wait` first")
    return erasure, held


def make_receipt(settings: Settings, store: Store, erasure: Erasure, before: HeldRecords) -> Receipt:
    """Returns the signed receipt; memory must have followed the log beyond the erasure."""
    tenant = erasure.tenant_id
    left = store.held(erasure)
    gone = {"events": before.events - left.events, "contributions": len(before.contributions - left.contributions)}
    restated = {}
    lookups: tuple[tuple[str, frozenset[str], Callable[[str, str], object]], ...] = (
        ("artifacts", before.artifacts, store.get_artifact),
        ("knowledge", before.knowledge, store.get_knowledge),
    )
    for kind, names, get in lookups:
        restated[kind] = sum(get(tenant, each) is not None for each in names)
        gone[kind] = len(names) - restated[kind]
    receipt = Receipt(
        erasure_id=erasure.erasure_id,
        tenant_id=tenant,
        scope=erasure.scope,
        name=erasure.name,
        at=format_ms(erasure.at),
        issued_at=format_ms(int(time.time() * 1000)),
        gone=gone,
        restated=restated,
        positions=_positions(settings, erasure.erasure_id),
        last_copy=_last_copies(settings, erasure.at),
    )
    return signed(receipt, seed_of(settings.require_control_key()))


def _positions(settings: Settings, erasure_id: str) -> dict[str, int]:
    """Reads where the erasure stands in the log, from its marks."""
    marks = erasure_marks(settings.require_kafka(), settings.topic_prefix)
    return {f"{EVENTS}/{mark.partition}": mark.before for mark in marks if mark.erasure_id == erasure_id}


def _last_copies(settings: Settings, at: int) -> dict[str, str]:
    """Brokers delete whole segments, so the last record of one leaves after the segment's own time, too."""
    prefix = settings.topic_prefix
    known = read_cluster(connect(settings.require_kafka()), [prefix + topic for topic in (*_KEPT, *_COMPACTED)]).topics
    found = {}
    for topics, setting in ((_KEPT, "retention.ms"), (_COMPACTED, "max.compaction.lag.ms")):
        for topic in topics:
            config = known[prefix + topic].config
            lasts = config.get(setting, "")
            found[topic] = (
                "never" if lasts in _UNLIMITED else format_ms(at + int(lasts) + int(config.get("segment.ms") or 0))
            )
    return found
