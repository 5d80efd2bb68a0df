"""What may become an entry of a pack, and which of them say the same. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

import msgspec

from pipeline.contracts.pack import DropReason, Provenance, Section, SourceType
from pipeline.packs.sameness import Mark, alike, mark, near, told, words
from pipeline.retrieval.score import Components

_AS_WELL: Final = 0.9


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
    at: int = 0
    """Of an episode: when it happened."""
    times: int = 1
    """It stands for so many of the same."""
    asks: bool = False
    """Of an episode: a user says what they want."""
    events: tuple[str, ...] = ()
    """What it rests on, where it says what these say."""
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


class Told:
    """What candidates of other sections say, by the events that they rest on."""

    def __init__(self, candidates: Iterable[Candidate]) -> None:
        self._by_event: defaultdict[str, list[Candidate]] = defaultdict(list)
        for each in candidates:
            for event in each.events:
                self._by_event[event].append(each)

    def by(self, candidate: Candidate) -> Candidate | None:
        """Who says the same from the same events, in a more telling way: a procedure what users asked for when it was
        learnt, a fact what a relation or a turn says."""
        episode = candidate.source_type is SourceType.EPISODE
        if not episode and candidate.section is not Section.GRAPH_RELATIONS:
            return None
        for event in (candidate.source_id,) if episode else candidate.events:
            for teller in self._by_event.get(event, ()):
                if teller.section is not candidate.section and _tells(teller, candidate):
                    return teller
        return None


def _tells(teller: Candidate, candidate: Candidate) -> bool:
    if teller.source_type is SourceType.ARTIFACT:
        return candidate.asks
    return told(words(candidate.said), words(teller.said))


def folds(ordered: Sequence[Candidate], repeated: Mapping[int, int]) -> dict[int, list[int]]:
    """Of each episode that others repeat the positions of all of them: the one to show, then the others. That is the
    newest of those that answer about as well as the best."""
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for position, first in repeated.items():
        if ordered[first].source_type is SourceType.EPISODE:
            groups[first].append(position)
    found = {}
    for first, others in groups.items():
        members = [first, *others]
        enough = _AS_WELL * ordered[first].relevance
        good = [i for i in members if ordered[i].relevance >= enough]
        newest = max(good, key=lambda i: (ordered[i].at, -i))
        found[newest] = [newest, *(i for i in members if i != newest)]
    return found


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
