"""What an erasure covers, and whether something is of its past: spelled here by the documented form of the marks.

Every rule on the erased past stands in this module. Enters: an erasure's content, or its mark on a topic. Nothing
fails.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from hmx_pipeline.contracts.keys import join_key, partition_of, session_key
from tests.verifier.cuts import RETENTION, Policies

Json = Mapping[str, Any]


def mark_of(tenant_id: str, scope: str, name: str) -> str:
    """128 bits of a hash: a mark names nobody."""
    return hashlib.sha256(join_key(tenant_id, scope, name).encode(errors="surrogatepass")).hexdigest()[:32]


class Erased(NamedTuple):
    """An erasure as one partition of the events topic has it."""

    erasure_id: str
    tenant_id: str
    at: int
    marks: frozenset[str]
    partition: int
    before: int
    """The erasure's own offset there."""
    policy: str = ""
    cuts: Mapping[str, int] = {}
    """Of a tenant's retention, which has no marks (see cuts)."""

    def covers(self, session_id: str, subject: str) -> bool:
        names = [("session", session_id), ("tenant", ""), *([("subject", subject)] if subject else [])]
        return any(mark_of(self.tenant_id, scope, name) in self.marks for scope, name in names)

    @property
    def whole(self) -> bool:
        return mark_of(self.tenant_id, "tenant", "") in self.marks

    def is_late(self, instant_ms: int, session_id: str, subject: str) -> bool:
        """Is an event that comes after the erasure of its past?"""
        return instant_ms <= self.at and self.covers(session_id, subject)

    def takes_contribution(self, fields: Json, partitions: int) -> bool:
        """Of what patterns are made of; `partitions` of the events topic."""
        if not self.covers(fields["session_id"], fields.get("subject", "")):
            return False
        if not partitions:
            return bool(fields["first_at"] <= self.at)
        return partition_of(session_key(fields["tenant_id"], fields["session_id"]), partitions) == self.partition

    def hides_episode(self, partition: int, offset: int, session_id: str, subject: str) -> bool:
        return partition == self.partition and offset < self.before and self.covers(session_id, subject)

    def hides_contribution(self, fields: Json, partition: int, offset: int) -> bool:
        """By the place of the event that brought it about; the erasure itself does so by its time alone."""
        return self.hides_episode(partition, offset - 1, fields["session_id"], fields.get("subject", ""))

    def told(self) -> dict[str, Any]:
        """As it stands on topics."""
        return {**self._asdict(), "marks": sorted(self.marks)}


def asked(content: Json, partition: int, offset: int) -> Erased:
    """As an operator's event asks for it."""
    tenant_id = content["tenant_id"]
    marks = {mark_of(tenant_id, content["scope"], content.get("name", "")), *content.get("sessions", ())}
    return Erased(content["erasure_id"], tenant_id, content["at"], frozenset(marks), partition, offset)


def read_mark(fields: Json) -> Erased:
    told: dict[str, Any] = {name: fields[name] for name in Erased._fields if name in fields}
    return Erased(**(told | {"marks": frozenset(fields["marks"])}))


def retained(tenant_id: str, policies: Policies, partition: int) -> Erased:
    """As a tenant's retention stands on topics."""
    at, cuts = max(policies.moments.values(), default=0), dict(policies.moments)
    return Erased(RETENTION, tenant_id, at, frozenset(), partition, 0, policies.text, cuts)
