"""A pack as a text that one would paste: Markdown of some 150 words, each entry whole and with its id.

Enters: the entries of a pack, as they were placed. Leaves: the text; empty where nothing answers. Pure; nothing fails.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from pipeline.contracts.pack import ENTRY_MARK, Section
from pipeline.packs.candidates import Candidate

WORDS: Final = 150
"""Another entry is begun as long as there are fewer."""
_NEAR: Final = 0.6
"""Of the best answer's relevance: what answers less well is left to who reads the entries."""
_EACH: Final = 3
"""Entries of a section."""
_FIRST: Final = (Section.CORE, Section.CONSTRAINTS, Section.PROCEDURES, Section.FACTS, Section.CONFLICTS)
_HAPPENED: Final = (Section.EPISODES, Section.EVIDENCE)
"""Only where nothing was learnt that answers."""


def as_text(placed: Sequence[Candidate]) -> str:
    """Rules first, then what was learnt; where that is nothing, what was said."""
    learnt = [each for section in _FIRST for each in _of(placed, section)]
    answers = [each for each in learnt if not each.always]
    told = learnt if answers else [*learnt, *(each for section in _HAPPENED for each in _of(placed, section))]
    parts: list[str] = []
    words = 0
    for each in told:
        part = _told(each)
        size = len(part.split())
        if parts and words + size > WORDS:
            continue
        parts.append(part)
        words += size
    return "\n\n".join(parts)


def _of(placed: Sequence[Candidate], section: Section) -> Iterator[Candidate]:
    own = [each for each in placed if each.section is section]
    yield from [each for each in own if each.always or each.relevance >= _NEAR][:_EACH]


def _told(each: Candidate) -> str:
    """The first line stands out where more follow."""
    first, *rest = each.text.removeprefix(ENTRY_MARK).lstrip().splitlines()
    source = f"`{each.source_id}`"
    return "\n".join([f"**{first}** ({source})", *rest]) if rest else f"- {first} ({source})"
