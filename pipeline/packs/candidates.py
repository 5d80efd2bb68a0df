"""What may become an entry of a pack, and which of them say the same. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import msgspec

from pipeline.contracts.pack import DropReason, Provenance, Section, SourceType
from pipeline.packs.sameness import Mark, alike, mark, near, words
from pipeline.retrieval.score import Components


class Bar(NamedTuple):
    """Why something must not be an entry."""

    reason: DropReason
    because: str


class Candidate(msgspec.Struct, frozen=True, eq=False, gc=False):
    """An entry that is ready but for its rank. `session_id`: where an episode's id is to be looked up."""

    section: Section
    source_id: str
    source_type: SourceType
    score: float
    relevance: float
    """How well it answers the query, apart from recency, provenance and salience."""
    text: str
    said: str
    """The text without who and when: what decides whether two say the same."""
    tokens: int
    provenance: Provenance
    session_id: str | None = None
    least: float = 0.0
    """What relevance it must have to help."""
    barred: Bar | None = None
    parts: Components | None = None
    """What the score is made of."""
    pattern: str = ""
    """What it is compiled from; empty for an episode."""
    always: bool = False
    """It stands in the pack whatever was asked."""
    past: bool = False
    """It is shown for what held before, so it is not folded into what says nearly the same now."""
    is_cut: bool = False
    """Only a beginning of it is left, with the marker."""
    mark: Mark | None = None
    """Of `said`, where it is known already."""

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells candidates of a pack apart."""
        return self.section, self.source_id, self.session_id or ""

    @property
    def order(self) -> tuple[float, int, str, str]:
        """HMX-C §3.3; a session decides where one id stands for two episodes."""
        return -self.score, self.tokens, self.source_id, self.session_id or ""


def duplicates(ordered: Sequence[Candidate]) -> dict[int, int]:
    """Positions of those that have an earlier one's id or say the same, within a section or, an episode, as what always
    stands; and the position of that one."""
    repeated: dict[int, int] = {}
    if len(ordered) < 2:
        return repeated
    ids: dict[tuple[Section, str], int] = {}
    before = _near_before(ordered)
    said = cache(lambda position: words(ordered[position].said))
    for position, candidate in enumerate(ordered):
        first = ids.get((candidate.section, candidate.source_id))
        if first is None and position in before:
            kept = (i for i in before[position] if i not in repeated)
            first = next((i for i in kept if alike(said(i), said(position))), None)
        if first is None:
            ids[candidate.section, candidate.source_id] = position
        else:
            repeated[position] = first
    return repeated


def _near_before(ordered: Sequence[Candidate]) -> Mapping[int, Sequence[int]]:
    """Of a position the earlier ones that may say the same in its place."""
    before: defaultdict[int, list[int]] = defaultdict(list)
    for position, earlier in near([each.mark or mark(each.said) for each in ordered]):
        one, other = ordered[earlier], ordered[position]
        beside = one.section is other.section or (one.always and other.source_type is SourceType.EPISODE)
        if beside and not (one.past or other.past):
            before[position].append(earlier)
    return before
