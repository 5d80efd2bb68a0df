"""What a kind of evidence is: a name, what it takes from a segment, what it makes of all that was taken. An artifact
type is a kind whose artifacts packs show.

`extract` and `compile` are pure; `compile` is a function of the set of contributions, which it gets in event-time
order.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pipeline.compiler.confidence import Verdict
from pipeline.contracts.artifact import Status, ValidityScope
from pipeline.contracts.evidence import Contribution, Pattern, Segment, SegmentOutcome
from pipeline.contracts.pack import Section
from pipeline.segments.pairing import Action


@dataclass(frozen=True, slots=True)
class Extracted:
    """What one segment says about one pattern: `key` names the pattern within its type, `body` is bounded JSON."""

    key: str
    source_events: list[str]
    outcome: SegmentOutcome
    tags: list[str]
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Candidate:
    """What the contributions of a pattern say by now, before it has an id or a place in a chain."""

    title: str
    summary: str
    content: dict[str, Any]
    confidence: float
    status: Status
    """DRAFT or ACTIVE (HMX-A §5)."""
    source_events: list[str]
    tags: list[str]
    observed_count: int
    success_rate: float | None
    newest_at: int
    """Event time of the newest evidence, milliseconds."""
    source_memory_ids: list[str]
    validity_scope: ValidityScope | None = None
    lineage_tags: Sequence[str] = ()
    """Tags that every event it rests on carries: what packs are filtered by."""
    lineage_session: str = ""
    lineage_agent: str = ""
    """The session and the agent that all of its evidence is of; empty where there are several."""
    checked: Mapping[str, Any] = field(default_factory=dict)
    """What validation looked at, and what was left out at a bound."""
    imported: Mapping[str, Any] = field(default_factory=dict)
    """Where it was learnt elsewhere: by which fingerprint, and how sure that was of it."""
    contradicted: str = ""
    """Why it no longer holds, where recent evidence speaks against it: then nothing of the pattern may be live."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The part of a candidate that its type decides; where it comes from is the same for all (`evidence`)."""

    title: str
    summary: str
    content: dict[str, Any]
    confidence: float
    status: Status
    success_rate: float | None
    checked: Mapping[str, Any]
    verdicts: Sequence[Verdict] = ()
    """How it went for those who did what it advises, in event-time order; none where it advises nothing."""
    rests_on: Sequence[Contribution] | None = None
    """Those of the contributions, in their order, that it says something about; None: all of them."""


class Need(NamedTuple):
    """One thing that it takes for an artifact to be active, and how much of it there is."""

    what: str
    has: float
    wanted: float
    at_most: bool = False
    """Less is better."""

    @property
    def met(self) -> bool:
        return self.has <= self.wanted if self.at_most else self.has >= self.wanted


Extract = Callable[[Segment, SegmentOutcome, Sequence[Action]], list[Extracted]]
Compile = Callable[[Sequence[Contribution]], Finding | None]
Group = Callable[[Sequence[Contribution]], Mapping[Pattern, list[Contribution]]]


def nothing(_segment: Segment, _outcome: SegmentOutcome, _actions: Sequence[Action]) -> list[Extracted]:
    """Of a type that is made of what other kinds extract."""
    return []


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    extract: Extract
    compile: Compile | None
    """None: its contributions are kept for advice, and make nothing that is published."""
    group: Group | None = field(default=None, kw_only=True)
    """Where one segment cannot know what it is about: the patterns that all of them make, of other kinds."""
    made_of: str = field(default="", kw_only=True)
    """The kind whose `group` makes its patterns."""


@dataclass(frozen=True, slots=True)
class ArtifactType(Kind):
    section: Section
    """Where packs show its artifacts (HMX-C §3.1)."""
    clients_name: str
    """What the Hippocortex clients call its entries (X23)."""
    lines: Callable[[Mapping[str, Any]], Iterator[str]]
    """Its content as packs show it, tersely: what stands below the title."""
    needs: Callable[[Sequence[Contribution]], list[Need]]
    """What it takes for one of this type to be active; of contributions in event-time order, one at least."""
