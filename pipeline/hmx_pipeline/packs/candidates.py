"""Entry candidates of a pack, and which of them are duplicates."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from hmx_pipeline.contracts.options import Section, SourceType
from hmx_pipeline.contracts.pack import DropReason, Provenance
from hmx_pipeline.contracts.safe_text import as_data
from hmx_pipeline.packs.entry_lines import EntryLines
from hmx_pipeline.packs.excerpt import LongMessage
from hmx_pipeline.packs.near_duplicates import Mark, alike, folded, in_order, mark, near, told, words
from hmx_pipeline.retrieval.score import Components, Made
from hmx_pipeline.retrieval.terms import terms

_AS_WELL: Final = 0.9
Source = TypeVar("Source")


class Exclusion(NamedTuple):
    """Why a candidate must not be shown."""

    reason: DropReason
    because: str


UNSOUND: Final = Exclusion(
    DropReason.PROVENANCE_FAILED, "its content is not what its hash says, or all that it rests on has outlived its time"
)
NOT_CONFIRMED: Final = Exclusion(
    DropReason.PROVENANCE_FAILED,
    "it is not for subjects: no operator, trusted agent or three subjects say it",
)


class Scored(msgspec.Struct, Generic[Source], frozen=True, gc=False):
    source: Source
    parts: Components
    score: float
    barred: Exclusion | None = None
    least: float = 0.0
    """Least relevance at which sources of its kind help."""
    made: Made = msgspec.field(default_factory=Made)
    """Cache of the source's rendering (`FoundSource.made`)."""
    past: bool = False
    """True if it no longer holds and is shown because the request includes superseded records."""

    @property
    def relevance(self) -> float:
        return self.parts.relevance

    @property
    def helps(self) -> bool:
        return self.parts.relevance >= self.least


class EntryCandidate(msgspec.Struct, frozen=True, eq=False, gc=False):
    """An entry without its rank. `session_id` is set for an episode, whose id is unique only there."""

    section: Section
    source_id: str
    source_type: SourceType
    score: float
    relevance: float
    """How well it answers the query, without recency, provenance and salience."""
    text: str
    said: str
    """The text without actor and date; duplicates are found by it."""
    tokens: int
    provenance: Provenance
    session_id: str | None = None
    least: float = 0.0
    """The least relevance at which it helps."""
    barred: Exclusion | None = None
    parts: Components | None = None
    """The components of the score."""
    pattern: str = ""
    """The pattern it is compiled from; empty for an episode."""
    at: int = 0
    """When an episode happened, in milliseconds."""
    times: int = 1
    """How many equal episodes it stands for."""
    asks: bool = False
    """True for an episode in which a user states a wish."""
    events: tuple[str, ...] = ()
    """Ids of the events it rests on, if it says what they say."""
    always: bool = False
    """True if it is in the pack whatever was asked."""
    past: bool = False
    """True if it is shown because it held before, so it is never a near duplicate of what holds now."""
    is_cut: bool = False
    """True if it was cut; its text ends with the marker."""
    mark: Mark | None = None
    """The near duplicate mark of `said`, if known already."""
    lines: EntryLines | LongMessage | None = None
    """The lines of what was learnt, which may be left out where the budget is small; or what a long message has."""

    @property
    def key(self) -> tuple[str, str, str]:
        """The unique key of a candidate within a pack."""
        return self.section, self.source_id, self.session_id or ""

    @property
    def states(self) -> bool:
        """True for a fact, a rule or another statement; False for what happened, and for what was learnt to do."""
        return self.source_type not in (SourceType.EPISODE, SourceType.ARTIFACT)

    @property
    def order(self) -> tuple[float, int, str, str]:
        """Sort key of HMX-C §3.3; the session breaks ties between equal event ids."""
        return -self.score, self.tokens, self.source_id, self.session_id or ""


class FaintCandidate(msgspec.Struct, frozen=True, gc=False):
    """A source that answers too little to help. It becomes a candidate only if the pack lists it among its drops."""

    score: float
    make: Callable[[Any], EntryCandidate]
    scored: Scored[Any]


class SaidElsewhere:
    """What candidates of other sections say, indexed by the events they rest on; and what the question says."""

    def __init__(self, candidates: Iterable[EntryCandidate], question: str) -> None:
        self._asked = {mark(folded(said)): in_order(as_data(said)) for said in (question, *question.splitlines())}
        self._by_event: defaultdict[str, list[EntryCandidate]] = defaultdict(list)
        for each in candidates:
            for event in each.events:
                self._by_event[event].append(each)

    def by_question(self, candidate: EntryCandidate) -> bool:
        """Return True for a wish in the words of the question, or of one of its lines. Who asks knows it."""
        asked = self._asked.get(candidate.mark, ()) if candidate.asks and candidate.mark else ()
        return len(asked) > 0 and in_order(candidate.text)[-len(asked) :] == asked

    def by(self, candidate: EntryCandidate) -> EntryCandidate | None:
        """Return the candidate that says the same from the same events in a better form: a procedure instead of the
        requests it was learnt from, a fact instead of a relation or a turn."""
        episode = candidate.source_type is SourceType.EPISODE
        if not episode and candidate.section is not Section.GRAPH_RELATIONS:
            return None
        for event in (candidate.source_id,) if episode else candidate.events:
            for teller in self._by_event.get(event, ()):
                if teller.section is not candidate.section and _tells(teller, candidate):
                    return teller
        return None


def _tells(teller: EntryCandidate, candidate: EntryCandidate) -> bool:
    if teller.source_type is SourceType.ARTIFACT:
        return candidate.asks
    return told(words(candidate.said), words(teller.said))


def folds(ordered: Sequence[EntryCandidate], repeated: Mapping[int, int]) -> dict[int, list[int]]:
    """Group each episode with its repetitions: positions, the one to show first. That is the newest of those that
    answer about as well as the best."""
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


def duplicates(ordered: Sequence[EntryCandidate]) -> dict[int, int]:
    """Map positions of duplicates to the first of them. Duplicates have the same id or are near duplicates, within a
    section or between an episode and a standing entry. Statements of which one has a word that tells it apart are
    none: they may be about different things."""
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
            same = (i for i in kept if alike(said(i), said(position)))
            first = next((i for i in same if not _told_apart(ordered[i], candidate)), None)
        if first is None:
            ids[candidate.section, candidate.source_id] = position
        else:
            repeated[position] = first
    return repeated


def _told_apart(one: EntryCandidate, other: EntryCandidate) -> bool:
    return one.states and other.states and set(terms(one.said)) != set(terms(other.said))


def _near_before(ordered: Sequence[EntryCandidate]) -> Mapping[int, Sequence[int]]:
    """Map each position to the earlier ones that may be near duplicates of it."""
    before: defaultdict[int, list[int]] = defaultdict(list)
    for position, earlier in near([each.mark or mark(each.said) for each in ordered]):
        one, other = ordered[earlier], ordered[position]
        beside = one.section is other.section or (one.always and other.source_type is SourceType.EPISODE)
        if beside and not (one.past or other.past):
            before[position].append(earlier)
    return before
