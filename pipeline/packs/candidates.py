"""What may become an entry of a pack, and which of them say the same. Pure."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pipeline.contracts.pack import DropReason, Provenance, Section, SourceType

_WORD: Final = re.compile(r"\w+")
"""Small words count too: a `not` makes another saying."""


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
    said: str
    """The text without who and when: what decides whether two say the same."""
    tokens: int
    provenance: Provenance
    session_id: str | None = None
    barred: DropReason | None = None
    """Why it must not be an entry."""
    always: bool = False
    """It stands in the pack whatever was asked."""
    is_cut: bool = False
    """Only a beginning of it is left, with the marker."""

    @property
    def order(self) -> tuple[float, int, str, str]:
        """HMX-C §3.3; a session decides where one id stands for two episodes."""
        return -self.score, self.tokens, self.source_id, self.session_id or ""


def duplicates(ordered: Sequence[Candidate]) -> set[int]:
    """Positions of those that have an earlier one's id or at least four fifths of all words, within a section."""
    own = [frozenset(_WORD.findall(candidate.said.casefold())) for candidate in ordered]
    held_by = Counter(word for found in own for word in found)
    repeated: set[int] = set()
    ids: set[tuple[Section, str]] = set()
    holders: dict[tuple[Section, str], list[int]] = {}
    for position, candidate in enumerate(ordered):
        # Two sets that share four fifths share one of each one's rarest fifth too: only these are looked up.
        rare = sorted(own[position], key=lambda word: (held_by[word], word))[: len(own[position]) // 5 + 1]
        near = {holder for word in rare for holder in holders.get((candidate.section, word), ())}
        if (candidate.section, candidate.source_id) in ids or any(_alike(own[position], own[i]) for i in near):
            repeated.add(position)
            continue
        ids.add((candidate.section, candidate.source_id))
        for word in rare:
            holders.setdefault((candidate.section, word), []).append(position)
    return repeated


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    """Jaccard similarity of at least .8, in integers."""
    shared = len(one & other)
    return 5 * shared >= 4 * (len(one) + len(other) - shared)
