"""Single records as a subject sees them: its own, and what all of the tenant share.

Enters: a tenant, and a subject or None, which sees everybody's, as a tenant's own backend does. Leaves: records, or
None for those of others, as if there were none. Raises StoreUnavailableError, TamperedError.
"""

from dataclasses import dataclass
from typing import Any

from hmx_pipeline.contracts.artifact import owner_of
from hmx_pipeline.contracts.episode import subject_of
from hmx_pipeline.store.fetch import Ambiguous, Store

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SubjectView:
    store: Store
    tenant: str
    subject: str | None

    def event(self, event_id: str, session_id: str | None = None) -> Json | Ambiguous | None:
        """Returns the newest episode with this id; Ambiguous if several sessions that are seen use it."""
        found = self.store.get_event(self.tenant, event_id, session_id)
        if self.subject is None:
            return found
        if isinstance(found, Ambiguous):
            seen = [name for name in found.sessions if self._sees("", name)]
            if len(seen) > 1:
                return Ambiguous(tuple(seen))
            return self.event(event_id, seen[0]) if seen else None
        return found if found is not None and self.sees_episode(found) else None

    def contribution(self, contribution_id: str) -> Json | None:
        found = self.store.get_contribution(self.tenant, contribution_id)
        return found if found is None or self._sees(found.get("subject", ""), found["session_id"]) else None

    def knowledge(self, record_id: str) -> Json | None:
        found = self.store.get_knowledge(self.tenant, record_id)
        return found if found is None or self.subject in (None, found.get("subject_id") or self.subject) else None

    def artifact(self, artifact_id: str) -> Json | None:
        found = self.store.get_artifact(self.tenant, artifact_id)
        return found if found is None or self.sees_artifact(found) else None

    def sees_artifact(self, artifact: Json) -> bool:
        return self.subject is None or owner_of(artifact) in ("", self.subject)

    def sees_episode(self, episode: Json) -> bool:
        return self._sees(subject_of(episode), episode["sessionId"])

    def _sees(self, subject: str, session_id: str) -> bool:
        """What names no subject belongs to that of its session."""
        if self.subject is None:
            return True
        return (subject or self.store.subject_of_session(self.tenant, session_id) or self.subject) == self.subject
