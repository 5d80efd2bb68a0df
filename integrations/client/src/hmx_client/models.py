"""What the service's answers are read into. Fields that are not named here are in `raw`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rejected:
    index: int
    """Place among the events that were sent."""
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Appended:
    accepted: int
    rejected: Sequence[Rejected]
    after: str | None
    """For `pack`: it then waits until memory holds these events. None if none was accepted."""

    @classmethod
    def of(cls, said: Json) -> "Appended":
        wrong = [one for one in said["results"] if one["status"] == "rejected"]
        rejected = [Rejected(one["index"], one.get("reason", ""), one.get("detail", "")) for one in wrong]
        return cls(said["summary"]["accepted"], rejected, said.get("after"))


@dataclass(frozen=True, slots=True)
class Entry:
    section: str
    content: str
    source_id: str
    source_type: str
    relevance_score: float


@dataclass(frozen=True, slots=True)
class Pack:
    entries: Sequence[Entry]
    text: str
    """A block for a prompt."""
    complete: bool
    """False while memory is being loaded."""
    raw: Json

    @classmethod
    def of(cls, said: Json) -> "Pack":
        names = ("section", "content", "source_id", "source_type", "relevance_score")
        entries = [Entry(*(one[name] for name in names)) for one in said["entries"]]
        about = said.get("metadata", {})
        return cls(entries, about.get("as_text", ""), about.get("memory_complete", True), said)


@dataclass(frozen=True, slots=True)
class Page:
    records: Sequence[Json]
    cursor: str | None
    """For the next page; None at the end."""


def message(
    session_id: str, sequence: int, text: str, *, role: str = "user", agent_id: str = "python", **fields: Any
) -> Json:
    """Makes an event of now. Send the same one again after an error: it is recognised by its event_id."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    made = {"hmx_version": "HMX-1.0", "event_id": str(uuid4()), "event_type": "message", "timestamp": now}
    about = {"agent_id": agent_id, "session_id": session_id, "sequence": sequence, "metadata": {}}
    return {**made, **about, "content": {"role": role, "text": text}, **fields}
