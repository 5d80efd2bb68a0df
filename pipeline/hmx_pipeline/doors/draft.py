"""An event before its door adds ids, time and place in the session; how an import adds them, and what it reports; and
texts cut to a size that memory can use.

Enters: a `DraftEvent` with its session, agent and time; or any JSON value. Leaves: the whole event, whose id follows
from its key; or the value with texts of at most 16,384 characters, 256 items and 12 levels.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

from hmx_pipeline.contracts.ids import keyed_id
from hmx_pipeline.contracts.versions import HMX_VERSION

TEXT: Final = 16_384
"""Characters of a text. Of a longer one the beginning and the end stay: an error stands in one of them."""
ITEMS: Final = 256
"""Members of an object, and items of a list."""
DEPTH: Final = 12
"""Objects and lists in each other; what lies deeper becomes text."""
VALUES: Final = 4_096
"""Texts and other values of one call's arguments."""

BETWEEN: Final = "words of the assistant between its calls"
"""What every import leaves out under this name."""
NAMED: Final = 20
"""Lines that cannot be read are named up to here, and counted beyond."""


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def object_of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


class DraftEvent(NamedTuple):
    event_type: str
    content: dict[str, Any]
    key: str
    """Makes what happened once one event of its session; empty if nothing tells it from a repetition."""
    metadata: Mapping[str, Any] = MappingProxyType({})


@dataclass
class ImportReport:
    """What became of a transcript's lines."""

    lines: int = 0
    events: Counter[str] = field(default_factory=Counter)
    """Event type → events."""
    sessions: set[str] = field(default_factory=set)
    left_out: Counter[str] = field(default_factory=Counter)
    """What it was → lines, or parts of lines, without an event."""
    unreadable: list[str] = field(default_factory=list)
    """File, line and reason of the first lines that could not be read."""
    noted: list[str] = field(default_factory=list)
    """The same of lines that are imported all the same."""

    def unread(self, where: str, why: str) -> None:
        self.left_out["lines that cannot be read"] += 1
        if len(self.unreadable) < NAMED:
            self.unreadable.append(f"{where}: {why}")

    def note(self, where: str, why: str) -> None:
        if len(self.noted) < NAMED:
            self.noted.append(f"{where}: {why}")


class TranscriptImport:
    """One import of any number of files. The order of the files is part of it: sequences count across them."""

    AGENT: ClassVar[str]

    def __init__(self, tenant: str, subject: str = "") -> None:
        self.report = ImportReport()
        self._tenant = tenant
        self._extra = {"subject_id": subject} if subject else {}
        self._sequences: Counter[str] = Counter()
        self._seen: set[str] = set()

    def _numbered(
        self, draft: DraftEvent, session: str, agent: str, timestamp: str, about: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Make a draft whole: an id that follows from its key, and a sequence that counts in its session."""
        sequence = self._sequences[session]
        self._sequences[session] += 1
        self.report.sessions.add(session)
        self.report.events[draft.event_type] += 1
        return {
            "hmx_version": HMX_VERSION,
            "event_id": keyed_id(self._tenant, session, draft.key),
            "event_type": draft.event_type,
            "agent_id": agent,
            "tenant_id": self._tenant,
            "session_id": session,
            "timestamp": timestamp,
            "sequence": sequence,
            "content": draft.content,
            "metadata": {**{name: value for name, value in about.items() if value}, **draft.metadata, **self._extra},
            "source": self.AGENT,
        }


def message_of(role: str, text: str, key: str) -> DraftEvent:
    return DraftEvent("message", {"role": role, "text": cut(text.strip()), "attachments": []}, key)


def cut(text: str, characters: int = TEXT) -> str:
    """Return the text; the middle of a long one is left out and said to be."""
    if len(text) <= characters:
        return text
    half = characters // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters left out …]\n{text[-half:]}"


def _told(value: Any) -> str:
    try:
        return cut(str(value), 256)
    except RecursionError:
        return "values too deep in each other"


def bounded(value: Any) -> Any:
    """Return a JSON value with long texts cut, and without what exceeds a bound."""
    left = VALUES

    def kept(value: Any, depth: int) -> Any:
        nonlocal left
        left -= 1
        if isinstance(value, dict | list) and (depth >= DEPTH or left <= 0):
            return _told(value)
        if isinstance(value, dict):
            return {cut(str(name), 256): kept(item, depth + 1) for name, item in list(value.items())[:ITEMS]}
        if isinstance(value, list):
            return [kept(item, depth + 1) for item in value[:ITEMS]]
        return cut(value, TEXT if left > VALUES - 16 else 256) if isinstance(value, str) else value

    return kept(value, 0)
