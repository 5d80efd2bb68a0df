"""Single records as a subject sees them: its own, and what all of the tenant share, as in packs.

Enters: a tenant, and a subject: empty for nobody in particular, None for whoever sees everybody's, as a tenant's own
backend does. Leaves: records, or None for those of others, as if there were none. Raises StoreUnavailableError,
TamperedError.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from hmx_pipeline.compiler.knowledge.authority import is_for
from hmx_pipeline.contracts.artifact import UNCONFIRMED, owner_of
from hmx_pipeline.contracts.episode import is_visible, own_session, subject_of
from hmx_pipeline.contracts.options import Standing
from hmx_pipeline.store.fetch import Ambiguous, Store

Json = dict[str, Any]
_SOURCES: Final = ("source_events", "source_memory_ids")


def sees_knowledge(record: Mapping[str, Any], subject: str) -> bool:
    """Returns whether a subject may see a record. What the tenant does not share any more is nobody's to see, and what
    nobody confirmed is no subject's."""
    owner = record.get("subject_id") or ""
    shared = record["status"] != Standing.WITHDRAWN and is_for(record.get("body", {}), subject)
    return is_visible(owner, subject) and (owner != "" or shared)


def _owner(record: Json) -> str:
    return record.get("subject_id") or owner_of(record | {"metadata": record.get("metadata", {})})


def _sides(record: Json) -> list[Json]:
    """Returns the sides of a conflict."""
    found: list[Json] = record.get("body", {}).get("sides", [])
    return found


def _events(record: Json) -> Iterator[str]:
    for one in (record, *_sides(record)):
        yield from one["source_events"]


def _without(record: Json, seen: Container[str], sees: Callable[[str, str], bool]) -> Json:
    """Returns the record with those ids alone that are seen."""

    def kept(one: Json) -> Json:
        return {**one, **{name: [i for i in one[name] if i in seen] for name in _SOURCES if name in one}}

    told = kept(record)
    if sides := _sides(record):
        told["body"] = {**record["body"], "sides": list(map(kept, sides))}
    if record.get("session_id") and not sees("", record["session_id"]):
        del told["session_id"]
    return told


@dataclass(frozen=True, slots=True)
class SubjectView:
    store: Store
    tenant: str
    subject: str | None

    def session(self, session_id: str) -> str:
        """Returns the name of a session in memory: the subject's own has its name before that which clients use."""
        own = own_session(self.subject, session_id) if self.subject else session_id
        return own if own != session_id and self.store.subject_of_session(self.tenant, own) else session_id

    def event(self, event_id: str, session_id: str | None = None) -> Json | Ambiguous | None:
        """Returns the newest episode with this id; Ambiguous if several sessions that are seen use it."""
        if session_id is not None:
            session_id = self.session(session_id)
        found = self.store.get_event(self.tenant, event_id, session_id)
        if self.subject is None:
            return found
        if isinstance(found, Ambiguous):
            seen = [name for name in found.sessions if self._sees("", name)]
            if len(seen) > 1:
                return Ambiguous(tuple(seen))
            return self.event(event_id, seen[0]) if seen else None
        return found if found is not None and self.sees_episode(found) else None

    def told(self, records: Sequence[Json]) -> list[Json]:
        """Returns knowledge records and artifacts that it sees, without the ids of events, contributions and sessions
        that it does not see: what the tenant shares may rest on other subjects' words."""
        if self.subject is None:
            return list(records)
        shared = [one for one in records if not _owner(one)]
        sees = cache(self._sees)
        events = self.store.newest_events(self.tenant, [name for one in shared for name in _events(one)])
        seen = {
            name
            for name, found in events.items()
            if any(sees(subject_of(fields), fields["sessionId"]) for fields in found)
        }
        names = list(dict.fromkeys(name for one in shared for name in one["source_memory_ids"]))
        made = zip(names, self.store.get_contributions(self.tenant, names), strict=True)
        seen.update(name for name, c in made if c is not None and sees(c.get("subject", ""), c["session_id"]))
        return [one if _owner(one) else _without(one, seen, sees) for one in records]

    def contribution(self, contribution_id: str) -> Json | None:
        found = self.store.get_contribution(self.tenant, contribution_id)
        return found if found is None or self._sees(found.get("subject", ""), found["session_id"]) else None

    def knowledge(self, record_id: str) -> Json | None:
        found = self.store.get_knowledge(self.tenant, record_id)
        if found is None or (self.subject is not None and not sees_knowledge(found, self.subject)):
            return None
        return self.told([found])[0]

    def artifact(self, artifact_id: str) -> Json | None:
        found = self.store.get_artifact(self.tenant, artifact_id)
        return self.told([found])[0] if found is not None and self.sees_artifact(found) else None

    def sees_artifact(self, artifact: Json) -> bool:
        """Returns whether it sees an artifact: as packs do, a subject none that nobody confirmed."""
        confirmed = not self.subject or UNCONFIRMED not in artifact.get("metadata", {})
        return self.subject is None or (confirmed and is_visible(owner_of(artifact), self.subject))

    def sees_episode(self, episode: Json) -> bool:
        return self._sees(subject_of(episode), episode["sessionId"])

    def _sees(self, subject: str, session_id: str) -> bool:
        """What names no subject belongs to that of its session."""
        if self.subject is None:
            return True
        return is_visible(subject or self.store.subject_of_session(self.tenant, session_id), self.subject)
