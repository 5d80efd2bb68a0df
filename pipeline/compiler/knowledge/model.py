"""What a kind of knowledge is: it says, of all that was taken for one pattern, what is known and what was known."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.compiler.model import Kind
from pipeline.contracts.evidence import Contribution
from pipeline.contracts.knowledge import Kind as RecordKind
from pipeline.contracts.knowledge import Standing

_ALONE: Final = 0.2
"""What one session says is so much less sure than what many do."""


def sureness(sessions: int) -> float:
    """Of what so many independent sessions say, at least one; less than 1."""
    return 1 - _ALONE / sessions


@dataclass(frozen=True, slots=True)
class Statement:
    """A record before it has ids. `name` tells the statements of one pattern apart, whatever they rest on."""

    name: str
    kind: RecordKind
    text: str
    body: Mapping[str, Any]
    confidence: float
    source_events: Sequence[str]
    """In event-time order."""
    sources: Sequence[Contribution]
    """What it is read from, in event-time order."""
    start: int
    """Event time in milliseconds from which on it holds."""
    end: int | None = None
    standing: Standing = Standing.ACTIVE
    superseded_by: str = ""
    """The name of the statement that does."""


Under = Callable[[str, bool], Sequence[Contribution]]
"""The endings that stand under a form; whether it is an ending itself that names it."""


def _nothing(_: Sequence[Contribution], __: Under) -> list[Contribution]:
    return []


@dataclass(frozen=True, slots=True)
class KnowledgeKind(Kind):
    state: Callable[[Sequence[Contribution], Sequence[Contribution]], list[Statement]]
    """A function of the contributions that stand, which it gets in event-time order, and of those beside them."""
    beside: Callable[[Sequence[Contribution], Under], list[Contribution]] = field(default=_nothing, kw_only=True)
    """What of another kind is read together with these."""
