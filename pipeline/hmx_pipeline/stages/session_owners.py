"""Owners of forgotten sessions: whose a session was outlives it, so that what comes later without a name is not
everybody's.

A partition remembers OWNERS_KEPT of them. Beyond that the tenant with most loses the oldest, and an entry without a
session says from then on that what is not known of this tenant may be somebody's.
"""

from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Any

import msgspec

from hmx_pipeline.contracts.episode import NOBODY_KNOWN
from hmx_pipeline.contracts.erasure import ErasedScope, Erasure, mark_of
from hmx_pipeline.contracts.keys import join_key, split_key
from hmx_pipeline.contracts.limits import OWNERS_KEPT
from hmx_pipeline.stages.fair_shares import FairShares
from hmx_pipeline.stages.state_tx import STALE_TIMERS, Tx


class SessionOwner(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    subject: str
    at: int = 0
    """Partition clock when the session was forgotten."""
    newest: int = 0
    """Time of its last event in milliseconds, if that was still to come then: an erasure has to know it."""


def _key(session: str) -> str:
    tenant_id, session_id = split_key(session)
    return f"o/{join_key(tenant_id)}/{mark_of(tenant_id, ErasedScope.SESSION, session_id)}"


def _lost_key(tenant: str) -> str:
    """`tenant` is encoded."""
    return f"o/{tenant}/"


class OwnerIndex:
    """Follows changes of owners, and undone changes too."""

    def __init__(self) -> None:
        self.count = FairShares()
        """Encoded tenant → number of forgotten sessions whose owner is known, or was."""
        self._oldest: dict[str, list[tuple[int, str]]] | None = None
        """Encoded tenant → heap of (when forgotten, key), with stale entries; built when first needed."""

    def changed(self, key: str, old: SessionOwner | None, new: SessionOwner | None) -> None:
        if key.endswith("/"):
            return  # it only says that some are not known any more
        self.count.add(key.split("/", 2)[1], (new is not None) - (old is not None))
        if new is not None and self._oldest is not None:
            self._list(self._oldest, key, new)
            if sum(map(len, self._oldest.values())) > 2 * self.count.total + STALE_TIMERS:
                self._oldest = None  # most entries are stale

    def surplus(self, state: Mapping[str, Any]) -> str:
        """Return the key of the owner whose session was forgotten first, of the tenant with most."""
        if self._oldest is None:
            self._oldest = {}
            for key, value in state.items():
                if key[0] == "o" and not key.endswith("/"):
                    self._list(self._oldest, key, value)
        heap = self._oldest[self.count.most()]
        while True:
            at, key = heap[0]
            owner: SessionOwner | None = state.get(key)
            if owner is not None and owner.at == at:
                return key
            heappop(heap)

    @staticmethod
    def _list(oldest: dict[str, list[tuple[int, str]]], key: str, owner: SessionOwner) -> None:
        heappush(oldest.setdefault(key.split("/", 2)[1], []), (owner.at, key))


def remember(tx: Tx, owners: OwnerIndex, session: str, subject: str, newest: int) -> None:
    """Remember whose a forgotten session is, whose last event is of the time `newest` in milliseconds. Where some
    owners are lost, nobody's needs no remembering."""
    if subject == NOBODY_KNOWN and tx.get(_lost_key(session.partition("/")[0])) is not None:
        return
    tx.put(_key(session), SessionOwner(subject=subject, at=tx.clock, newest=newest if newest > tx.clock else 0))
    while owners.count.total > OWNERS_KEPT:
        key = owners.surplus(tx.values())
        lost = _lost_key(key.split("/")[1])
        tx.put(key, None)
        if tx.get(lost) is None:
            tx.put(lost, SessionOwner(subject=NOBODY_KNOWN))
        tx.count("session_owner_lost")


def recalled(tx: Tx, owners: OwnerIndex, session: str) -> str:
    """Return whose a session is that comes back, and drop what was remembered of it: nobody's who can be named, if that
    is not known any more; empty if it was never anybody's."""
    tenant, known = session.partition("/")[0], None
    if owners.count.of(tenant):
        key = _key(session)
        known = tx.get(key)
        if known is not None:
            tx.put(key, None)
    if known is None:
        known = tx.get(_lost_key(tenant))
    return known.subject if known is not None else ""


def disown(tx: Tx, erasure: Erasure) -> dict[str, int]:
    """Forget of whom the erased sessions were, though not that they were somebody's. Return the marks of those with an
    event dated later than the erasure, and its time."""
    ahead = {}
    prefix, marks = f"o/{join_key(erasure.tenant_id)}/", erasure.marks
    whole = mark_of(erasure.tenant_id, ErasedScope.TENANT, "") in marks
    for key in sorted(key for key in tx.values() if key.startswith(prefix) and key != prefix):
        owner: SessionOwner = tx.get(key)
        named = mark_of(erasure.tenant_id, ErasedScope.SUBJECT, owner.subject)
        if whole or key.removeprefix(prefix) in marks or named in marks:
            tx.put(key, SessionOwner(subject=NOBODY_KNOWN, at=owner.at))
            if owner.newest > erasure.at:
                ahead[key.removeprefix(prefix)] = owner.newest
    return ahead
