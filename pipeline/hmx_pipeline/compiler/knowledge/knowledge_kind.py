"""Knowledge kinds: the protocol by which contributions of a pattern become statements.

Input of `state`: a pattern's contributions in event-time order, and the endings beside them. Output: statements, of
which `compiler/knowledge/knowledge_records` makes records.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hmx_pipeline.compiler.evidence_kind import EvidenceKind
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.options import Kind as RecordKind
from hmx_pipeline.contracts.options import Standing

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
    subject: str = ""
    """Whose it is, if the pattern is the tenant's."""
    named_by: Contribution | None = None
    """The contribution whose words the text is, but for its value, if it is none of the sources: they named another
    value of the same thing."""


Under = Callable[[str, bool], Sequence[Contribution]]
"""Looks up the endings under a form; the flag says whether another ending asks."""


def _nothing(_: Sequence[Contribution], __: Under) -> list[Contribution]:
    return []


def _as_said(said: Sequence[Contribution]) -> Sequence[Contribution]:
    return said


@dataclass(frozen=True, slots=True)
class KnowledgeKind(EvidenceKind):
    state: Callable[[Sequence[Contribution], Sequence[Contribution]], list[Statement]]
    """Makes statements from contributions in event-time order and those beside them."""
    beside: Callable[[Sequence[Contribution], Under], list[Contribution]] = field(default=_nothing, kw_only=True)
    """Selects contributions of another kind that are read with these."""
    rivals: bool = field(default=False, kw_only=True)
    """True if the statements of a pattern are values of one thing, so that one excludes the others."""
    items: str = field(default="", kw_only=True)
    """The list of a body that holds what was said."""
    named: Callable[[Mapping[str, Any]], str] = field(default=str, kw_only=True)
    """Names what one of its items says, the same for all who say it."""
    whole: str = field(default="", kw_only=True)
    """The name of the record that all items make together; empty if each thing that is said makes its own."""
    still: Callable[[Sequence[Contribution], Sequence[Contribution]], Iterable[str]] | None = field(
        default=None, kw_only=True
    )
    """Names what a subject states now, from its contributions and endings; by default all that it ever said."""
    agreed_text: Callable[[Sequence[Contribution]], Sequence[Contribution]] = field(default=_as_said, kw_only=True)
    """Leaves no words in what a quorum states but those that it agrees on."""

    def holds(self, own: Sequence[Contribution], ended: Sequence[Contribution]) -> set[str]:
        if self.still is not None:
            return set(self.still(own, ended))
        return {self.named(one) for c in own for one in c.body[self.items]}
