"""Evidence kinds and artifact types: the protocol of `extract` and `compile`, and their values.

Input of `extract`: a segment, its outcome and its actions. Output: an `Extracted` for each pattern. Input of `compile`:
a pattern's contributions in event-time order. Output: a `Finding`, or None. Both are pure: what `compile` makes depends
on the set of contributions alone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hmx_pipeline.compiler.confidence import Verdict
from hmx_pipeline.contracts.artifact import ValidityScope
from hmx_pipeline.contracts.evidence import Contribution, Pattern, Segment, SegmentOutcome
from hmx_pipeline.contracts.options import Section, Status
from hmx_pipeline.segments.pairing import Action


@dataclass(frozen=True, slots=True)
class Extracted:
    """What a segment contributes to one pattern: `key` identifies the pattern within its kind, `body` is
    bounded JSON."""

    key: str
    source_events: list[str]
    body: dict[str, Any]
    outcome: SegmentOutcome = SegmentOutcome.UNKNOWN
    tags: list[str] = field(default_factory=list)
    kind: str = ""
    """The pattern's type, where it is not the one that has extracted it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The part of a candidate that its type decides; `candidate` adds the rest."""

    title: str
    summary: str
    content: dict[str, Any]
    confidence: float
    status: Status
    """DRAFT or ACTIVE (HMX-A §5)."""
    success_rate: float | None
    checked: Mapping[str, Any] = field(default_factory=dict)
    """What validation looked at, and what was left out at a bound."""
    verdicts: Sequence[Verdict] = ()
    """How it went for those who followed its advice, in event-time order; empty if it gives none."""
    rests_on: Sequence[Contribution] | None = None
    """The contributions that it rests on, in their order; None for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactCandidate(Finding):
    """The current content of a pattern, before it has an id or a place in a chain."""

    source_events: list[str]
    tags: list[str]
    observed_count: int
    newest_at: int
    """Event time of the newest evidence, in milliseconds."""
    source_memory_ids: list[str]
    validity_scope: ValidityScope | None = None
    lineage_tags: Sequence[str] = ()
    """Tags that all source events share; packs filter by them."""
    salience: float | None = None
    """What its sources say of their own salience."""
    lineage_session: str = ""
    lineage_agent: str = ""
    """The session and agent of all evidence; empty if there are several."""
    subject: str = ""
    """The subject of all evidence, to whom it is private; empty if the tenant shares it."""
    unconfirmed: bool = False
    """True if it is for none of the tenant's subjects: nobody in particular decided it."""
    imported: Mapping[str, Any] = field(default_factory=dict)
    """For an imported artifact: its fingerprint, and the confidence there."""
    contradicted: str = ""
    """Why recent evidence contradicts it; then nothing of the pattern may be live. Empty if it does not."""


class Need(NamedTuple):
    """A condition for an artifact to be active: what is needed, and how much there is."""

    what: str
    has: float
    wanted: float
    at_most: bool = False
    """True if less is better."""

    @property
    def met(self) -> bool:
        return self.has <= self.wanted if self.at_most else self.has >= self.wanted


Extract = Callable[[Segment, SegmentOutcome, Sequence[Action]], list[Extracted]]
Compile = Callable[[Sequence[Contribution]], Finding | None]
Group = Callable[[Sequence[Contribution]], Mapping[Pattern, list[Contribution]]]


def nothing(_segment: Segment, _outcome: SegmentOutcome, _actions: Sequence[Action]) -> list[Extracted]:
    """Extract nothing: for types that are made from the evidence of other kinds."""
    return []


@dataclass(frozen=True, slots=True)
class EvidenceKind:
    name: str
    extract: Extract
    compile: Compile | None
    """None if contributions are only kept for advice."""
    group: Group | None = field(default=None, kw_only=True)
    """Groups all contributions into patterns of other kinds, if a single segment cannot know its pattern."""
    made_of: str = field(default="", kw_only=True)
    """The kind whose `group` makes its patterns."""


@dataclass(frozen=True, slots=True)
class ArtifactType(EvidenceKind):
    section: Section
    """The pack section that shows it (HMX-C §3.1)."""
    clients_name: str
    """Name of its entries in Hippocortex clients (X23)."""
    lines: Callable[[Mapping[str, Any]], Iterator[str]]
    """Yields its content as terse lines below the title of a pack entry."""
    needs: Callable[[Sequence[Contribution]], list[Need]]
    """What an artifact needs to be active, from at least one contribution in event-time order."""
