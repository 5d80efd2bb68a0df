"""What may become an entry of a pack, and which of them say the same. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.contracts.pack import Provenance, Section, SourceType
from pipeline.retrieval.terms import words


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry that is ready but for its rank. `session_id`: where an episode's id is to be looked up."""

    section: Section
    source_id: str
    source_type: SourceType
    score: float
    relevance: float
    """How well it answers the query, apart from recency, provenance and salience."""
    text: str
    tokens: int
    provenance: Provenance
    session_id: str | None = None

    @property
    def order(self) -> tuple[float, int, str, str]:
        """HMX-C §3.3; a session decides where one id stands for two episodes."""
        return -self.score, self.tokens, self.source_id, self.session_id or ""


def duplicates(ordered: Sequence[Candidate]) -> set[int]:
    """Positions of those that have an earlier one's id or at least four fifths of all words, within a section."""
    repeated: set[int] = set()
    kept: dict[int, frozenset[str]] = {}
    ids: set[tuple[Section, str]] = set()
    holders: dict[tuple[Section, str], list[int]] = {}
    for position, candidate in enumerate(ordered):
        named = (candidate.section, candidate.source_id)
        if named in ids:
            repeated.add(position)
            continue
        ids.add(named)
        own = frozenset(words(candidate.text))
        shared = Counter(holder for word in own for holder in holders.get((candidate.section, word), ()))
        if any(5 * n >= 4 * (len(own) + len(kept[holder]) - n) for holder, n in shared.items()):
            repeated.add(position)
            continue
        kept[position] = own
        for word in own:
            holders.setdefault((candidate.section, word), []).append(position)
    return repeated
