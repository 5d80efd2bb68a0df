"""What may become an entry of a pack, and which of them say the same. Pure."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from sys import intern
from typing import Final, NamedTuple

from pipeline.contracts.pack import DropReason, Provenance, Section, SourceType
from pipeline.retrieval.documents import REMEMBERED
from pipeline.retrieval.score import Components

_WORD: Final = re.compile(r"\w+")
"""Small words count too: a `not` makes another saying."""


class Bar(NamedTuple):
    """Why something must not be an entry."""

    reason: DropReason
    because: str


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
    barred: Bar | None = None
    parts: Components | None = None
    """What the score is made of."""
    pattern: str = ""
    """What it is compiled from; empty for an episode."""
    always: bool = False
    """It stands in the pack whatever was asked."""
    is_cut: bool = False
    """Only a beginning of it is left, with the marker."""

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells candidates of a pack apart."""
        return self.section, self.source_id, self.session_id or ""

    @property
    def order(self) -> tuple[float, int, str, str]:
        """HMX-C §3.3; a session decides where one id stands for two episodes."""
        return -self.score, self.tokens, self.source_id, self.session_id or ""


def duplicates(ordered: Sequence[Candidate]) -> dict[int, int]:
    """Positions of those that have an earlier one's id or at least four fifths of all words, within a section; and the
    position of that one."""
    own = [_words(candidate.said) for candidate in ordered]
    held_by = Counter(chain.from_iterable(own))
    repeated: dict[int, int] = {}
    ids: dict[tuple[Section, str], int] = {}
    holders: dict[tuple[Section, str], list[int]] = {}
    for position, candidate in enumerate(ordered):
        # Two sets that share four fifths share one of each one's rarest fifth too: only these are looked up, and of
        # these only what another one holds at all.
        shared = [(held_by[word], word) for word in own[position] if held_by[word] > 1]
        alone = len(own[position]) - len(shared)
        rare = [word for _, word in sorted(shared)[: max(0, len(own[position]) // 5 + 1 - alone)]]
        near = sorted({holder for word in rare for holder in holders.get((candidate.section, word), ())})
        same = ids.get((candidate.section, candidate.source_id))
        first = same if same is not None else next((i for i in near if _alike(own[position], own[i])), None)
        if first is not None:
            repeated[position] = first
            continue
        ids[candidate.section, candidate.source_id] = position
        for word in rare:
            holders.setdefault((candidate.section, word), []).append(position)
    return repeated


@lru_cache(REMEMBERED)
def _words(said: str) -> tuple[str, ...]:
    """Each once; texts come again with every question, and words in every text."""
    return tuple(map(intern, sorted(set(_WORD.findall(said.casefold())))))


def _alike(one: Sequence[str], other: Sequence[str]) -> bool:
    """Jaccard similarity of at least .8, in integers."""
    shared = len(set(one).intersection(other))
    return 5 * shared >= 4 * (len(one) + len(other) - shared)
