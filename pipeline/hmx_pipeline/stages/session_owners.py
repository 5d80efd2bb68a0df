"""Owners of forgotten sessions: the subject of a session outlives it, so that later events without a subject are not
visible to everybody.

Enters: a session that is forgotten, with its subject and the time of its last event (ms). Leaves: the subject of a
session that comes back; `NOBODY_KNOWN` if that is lost; an empty text if it never had one. A partition remembers
OWNERS_KEPT of them. Beyond that the subject with most, of the tenant with most, loses the oldest. A mark says from then
on whose sessions are not all known: those that begin with this subject, if the lost one did, else all that the tenant's
subjects may have had.
"""

from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Any, Final

import msgspec

from hmx_pipeline.contracts.episode import NOBODY_KNOWN, own_session, owner_in
from hmx_pipeline.contracts.erasure import ErasedScope, Erasure, mark_of
from hmx_pipeline.contracts.keys import join_key, split_key
from hmx_pipeline.contracts.limits import OWNERS_KEPT
from hmx_pipeline.stages.fair_shares import FairShares
from hmx_pipeline.stages.state_tx import STALE_TIMERS, Tx

_NEWEST: Final = 1 << 62
"""When a subject's mark was made: after all its sessions, so it is the last that goes."""
_ANY: Final = None


class SessionOwner(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    subject: str
    at: int = 0
    """Partition clock when the session was forgotten."""
    newest: int = 0
    """Time of its last event in milliseconds, if that was still to come then: an erasure has to know it, and whether
    it was anybody's or not."""
    own: bool = False
    """True if the session's name says whose it is, as those that a bound key writes."""


def _key(tenant_id: str, scope: ErasedScope, name: str) -> str:
    return f"o/{join_key(tenant_id)}/{mark_of(tenant_id, scope, name)}"


def _lost_key(tenant: str) -> str:
    """`tenant` is encoded."""
    return f"o/{tenant}/"


class OwnerIndex:
    """Follows changes of owners, and undone changes too."""

    def __init__(self) -> None:
        self.count = FairShares()
        """Encoded tenant → number of forgotten sessions whose owner is known, or was, and of its subjects' marks."""
        self._subjects: dict[str, FairShares] = {}
        self._oldest: dict[tuple[str, str | None], list[tuple[int, str]]] | None = None
        """Encoded tenant and subject, or all its subjects → heap of (when forgotten, key), with stale entries; built
        when first needed."""
        self._listed = 0

    def changed(self, key: str, old: SessionOwner | None, new: SessionOwner | None) -> None:
        if key.endswith("/"):
            return  # it only says that some are not known any more
        tenant = key.split("/", 2)[1]
        self.count.add(tenant, (new is not None) - (old is not None))
        subjects = self._subjects.setdefault(tenant, FairShares())
        for owner, by in ((old, -1), (new, 1)):
            if owner is not None:
                subjects.add(owner.subject, by)
        if not subjects.total:
            del self._subjects[tenant]
        if new is not None and self._oldest is not None:
            self._list(self._oldest, key, new)
            if self._listed > 2 * self.count.total + STALE_TIMERS:
                self._oldest = None  # most entries are stale

    def surplus(self, state: Mapping[str, Any]) -> str:
        """Return the key of the owner whose session was forgotten first, of the subject with most, of the tenant with
        most."""
        if self._oldest is None:
            self._oldest, self._listed = {}, 0
            for key, value in state.items():
                if key[0] == "o" and not key.endswith("/"):
                    self._list(self._oldest, key, value)
        tenant = self.count.most()
        most = self._subjects[tenant].most()
        subject = _ANY if self.only(tenant, most) else most
        heap = self._oldest[tenant, subject]
        while True:
            at, key = heap[0]
            owner: SessionOwner | None = state.get(key)
            if owner is not None and owner.at == at and subject in (owner.subject, _ANY):
                return key
            heappop(heap)

    def only(self, tenant: str, subject: str) -> bool:
        """Return True if a single session of the subject is known."""
        return self._subjects[tenant].of(subject) == 1

    def _list(self, oldest: dict[tuple[str, str | None], list[tuple[int, str]]], key: str, owner: SessionOwner) -> None:
        for subject in (owner.subject, _ANY):
            heappush(oldest.setdefault((key.split("/", 2)[1], subject), []), (owner.at, key))
        self._listed += 1


def remember(tx: Tx, owners: OwnerIndex, session: str, subject: str, newest: int) -> None:
    """Remember whose a forgotten session is, whose last event is of the time `newest` in milliseconds; if it was never
    anybody's, only that. Where some owners are lost, nobody's needs no remembering."""
    if not subject and newest <= tx.clock:
        return
    tenant_id, session_id = split_key(session)
    if subject == NOBODY_KNOWN and tx.get(_lost_key(join_key(tenant_id))) is not None:
        return
    key = _key(tenant_id, ErasedScope.SESSION, session_id)
    before: SessionOwner | None = tx.get(key)
    newest = max(newest, before.newest if before is not None else 0)
    owner = SessionOwner(
        subject=subject,
        at=tx.clock,
        newest=newest if newest > tx.clock else 0,
        own=subject != "" and own_session(subject, session_id) == session_id,
    )
    tx.put(key, owner)
    while owners.count.total > OWNERS_KEPT:
        _lose(tx, owners, owners.surplus(tx.values()))


def _lose(tx: Tx, owners: OwnerIndex, key: str) -> None:
    """Forget an owner, and mark whose sessions are not all known any more. A subject's only one makes no room for a
    mark of its own."""
    owner: SessionOwner = tx.get(key)
    tenant = key.split("/")[1]
    mark, gone = _lost_key(tenant), SessionOwner(subject=NOBODY_KNOWN)
    if owner.own and not owners.only(tenant, owner.subject):
        (tenant_id,) = split_key(tenant)
        mark = _key(tenant_id, ErasedScope.SUBJECT, owner.subject)
        gone = SessionOwner(subject=owner.subject, at=_NEWEST)
    tx.put(key, None)
    if owner.subject and tx.get(mark) is None:
        tx.put(mark, gone)
    tx.count("session_owner_lost")


def recalled(tx: Tx, owners: OwnerIndex, session: str) -> str:
    """Return whose a session is that comes back, and drop what was remembered of it unless an event of it is still to
    come: nobody's who can be named, if that is not known any more; empty if it was never anybody's."""
    tenant, known = session.partition("/")[0], None
    if owners.count.of(tenant):
        tenant_id, session_id = split_key(session)
        key = _key(tenant_id, ErasedScope.SESSION, session_id)
        known = tx.get(key)
        if known is not None:
            if known.newest <= tx.clock:
                tx.put(key, None)
        elif subject := owner_in(session_id):
            known = tx.get(_key(tenant_id, ErasedScope.SUBJECT, subject))
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
            tx.put(key, SessionOwner(subject=NOBODY_KNOWN, at=owner.at) if owner.subject else None)
            if owner.newest > erasure.at:
                ahead[key.removeprefix(prefix)] = owner.newest
    return ahead
