"""Erasure query: erases a subject, a session or a tenant, and makes the receipt once memory is without it.

Enters: what to erase. Leaves: a signed `Receipt`, or its id if memory has not followed in time; the receipt is then
asked for by that id. Raises NothingToEraseError, LackingError, and what reading Kafka and Redis raises.
"""

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Final

from hmx_pipeline.contracts.erasure import ErasedScope, Erasure, ErasureMark, mark_of
from hmx_pipeline.contracts.limits import ERASED_SESSIONS
from hmx_pipeline.contracts.receipt import NEVER, Receipt, key_of, signed
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.kafka.control_producer import append_erasure
from hmx_pipeline.kafka.erasure_marks import erasure_marks
from hmx_pipeline.kafka.topic_files import connect, read_cluster
from hmx_pipeline.runtime.barriers import LackingError, output_ends, wait_for_reader
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.erased_memory import Erasures
from hmx_pipeline.store.fetch import Store
from hmx_pipeline.store.receipt_contents import HeldRecords
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
_UNLIMITED: Final = ("", "-1", str(2**63 - 1))
"""The broker's words for no bound: of retention, and of compaction."""
READ_S: Final = 8.0
"""Longest wait for memory before it is asked what to erase."""
RECEIPT_KEPT_S: Final = 7 * 86_400
"""How long the receipt of an erasure can be asked for."""


class NothingToEraseError(LookupError):
    """Memory holds nothing of it; the message says how to go on."""


class NotFollowedError(Exception):
    """The erasure is in the log, but memory has not followed yet; the message says what is missing."""

    def __init__(self, erasure_id: str, lacking: str) -> None:
        super().__init__(lacking)
        self.erasure_id = erasure_id


Wait = Callable[[], None]
"""Waits until memory has followed the log; raises LackingError."""


def erase(settings: Settings, store: Store, tenant: str, scope: ErasedScope, name: str, wait: Wait) -> Receipt:
    """Erases up to now.

    Only memory tells which sessions were the subject's, so it must know all that the stages have written. Raises
    LackingError if it does not: then nothing is erased.
    """
    settings.require_control_key()
    wait_for_reader(output_ends(settings), store.positions, READ_S)
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
    if not (memory := store.completeness(tenant)).complete:
        raise LackingError(str(memory))
    if not held.events and not held.contributions:
        what = "nothing" if scope is ErasedScope.TENANT else f"nothing of this {scope}"
        raise NothingToEraseError(
            f"memory holds {what} in tenant {tenant}: if its events have just been published, run `hmx wait` first"
        )
    store.keep_held(erasure, held, RECEIPT_KEPT_S)
    append_erasure(settings, erasure)
    return _receipt(settings, store, erasure, held, wait)


def receipt_of(
    settings: Settings, store: Store, tenant: str, erasure_id: str, scope: ErasedScope, name: str, wait: Wait
) -> Receipt:
    """Makes the receipt of an earlier erasure. What was erased is named again, because nothing in memory does so any
    more."""
    found = store.kept_held(tenant, erasure_id, scope, name)
    if found is None:
        raise NothingToEraseError("the tenant has no erasure with this id and name, or it is older than a week")
    return _receipt(settings, store, *found, wait)


def _receipt(settings: Settings, store: Store, erasure: Erasure, before: HeldRecords, wait: Wait) -> Receipt:
    """Returns the signed receipt once memory is without it."""
    tenant = erasure.tenant_id
    try:
        wait()
    except LackingError as error:
        raise NotFollowedError(erasure.erasure_id, str(error)) from None
    marks = [mark for mark in _marks(settings) if mark.erasure_id == erasure.erasure_id]
    left = store.held(erasure, Erasures(marks))
    if left.events:
        raise NotFollowedError(erasure.erasure_id, f"memory still holds {left.events:,} of its events")
    gone = {"events": before.events, "contributions": len(before.contributions - left.contributions)}
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
        positions={f"{EVENTS}/{mark.partition}": mark.before for mark in marks},
        last_copy=_last_copies(settings, erasure.at),
    )
    return signed(receipt, key_of(settings.require_control_key()))


def _marks(settings: Settings) -> Iterator[ErasureMark]:
    return erasure_marks(settings.require_kafka(), settings.topic_prefix)


def _last_copies(settings: Settings, at: int) -> dict[str, str]:
    """Brokers delete whole segments, so the last record of one leaves after the segment's own time, too. They compact a
    segment only after a later append has closed it. The archive's files are written anew when it is next archived."""
    prefix = settings.topic_prefix
    known = read_cluster(connect(settings.require_kafka()), [prefix + topic for topic in (*_KEPT, *_COMPACTED)]).topics
    found = {}
    for topics, setting in ((_KEPT, "retention.ms"), (_COMPACTED, "max.compaction.lag.ms")):
        for topic in topics:
            config = known[prefix + topic].config
            lasts = config.get(setting, "")
            found[topic] = (
                NEVER if lasts in _UNLIMITED else format_ms(at + int(lasts) + int(config.get("segment.ms") or 0))
            )
    if settings.archive:
        found["archive"] = format_ms(at + 1_000 * settings.archive_s)
    return found
