"""Knowledge kinds: the protocol by which contributions of a pattern become statements."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hmx_pipeline.compiler.evidence_kind import EvidenceKind
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.knowledge import Kind as RecordKind
from hmx_pipeline.contracts.knowledge import Standing

_ALONE: Final = 0.2
"""How much less certain one session is than many."""


def sureness(sessions: int) -> float:
    """Return the confidence in what that many independent sessions say (at least one); below 1."""
    return 1 - _ALONE / sessions


@dataclass(frozen=True, slots=True)
class Statement:
    """A knowledge record without ids. `name` identifies it within its pattern, whatever it rests on."""

    name: str
    kind: RecordKind
    text: str
    body: Mapping[str, Any]
    confidence: float
    source_events: Sequence[str]
    """Ids in event-time order."""
    sources: Sequence[Contribution]
    """Contributions in event-time order."""
    start: int
    """When it begins to hold, event time in milliseconds."""
    end: int | None = None
    standing: Standing = Standing.ACTIVE
    superseded_by: str = ""
    """Name of the statement that supersedes it."""


Under = Callable[[str, bool], Sequence[Contribution]]
"""Looks up the endings under a form; the flag says whether another ending asks."""


def _nothing(_: Sequence[Contribution], __: Under) -> list[Contribution]:
    return []


@dataclass(frozen=True, slots=True)
class KnowledgeKind(EvidenceKind):
    state: Callable[[Sequence[Contribution], Sequence[Contribution]], list[Statement]]
    """Makes statements from contributions in event-time order and those beside them."""
    beside: Callable[[Sequence[Contribution], Under], list[Contribution]] = field(default=_nothing, kw_only=True)
    """Selects contributions of another kind that are read with these."""
    rivals: bool = field(default=False, kw_only=True)
    """True if the statements of a pattern are values of one thing, so that one excludes the others."""
