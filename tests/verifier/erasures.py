"""What an erasure covers, and whether something is of its past: spelled here by the documented form of the marks.

Every rule on the erased past stands in this module. Enters: an erasure's content, or its mark on a topic. Nothing
fails.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from hmx_pipeline.contracts.keys import join_key, partition_of, session_key

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
        """By the place of the event that brought it about."""
        return self.hides_episode(partition, offset, fields["session_id"], fields.get("subject", ""))

    def told(self) -> dict[str, Any]:
        """As it stands on topics."""
        return {**self._asdict(), "marks": sorted(self.marks)}


def asked(content: Json, partition: int, offset: int) -> Erased:
    """As an operator's event asks for it."""
    tenant_id = content["tenant_id"]
    marks = {mark_of(tenant_id, content["scope"], content.get("name", "")), *content.get("sessions", ())}
    return Erased(content["erasure_id"], tenant_id, content["at"], frozenset(marks), partition, offset)


def read_mark(fields: Json) -> Erased:
    names: Iterable[str] = Erased._fields
    return Erased(**{name: frozenset(fields[name]) if name == "marks" else fields[name] for name in names})
