"""A pack as a text that one would paste: Markdown of some 150 words, each entry with its id.

Enters: the entries of a pack, as they were placed, and what kind of question it answers. Leaves: the text; where
nothing answers, a sentence that says so. Pure; nothing fails. Lines are told whole or not at all: half a command may
do something else.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pipeline.contracts.pack import ENTRY_MARK, Section
from pipeline.packs.candidates import Candidate
from pipeline.packs.sameness import told, words

WORDS: Final = 150
"""Another entry is begun as long as there are fewer."""
NOTHING: Final = "Memory holds nothing that answers this."
_NEAR: Final = 0.4
"""Of the best answer's relevance: what answers less well is left to who reads the entries."""
_EACH: Final = 3
"""Entries of a section."""
_RULES: Final = (Section.CORE, Section.CONSTRAINTS)
_LEARNT: Final = (Section.PROCEDURES, Section.FACTS, Section.CONFLICTS)
_HAPPENED: Final = (Section.EPISODES, Section.EVIDENCE)
_BESIDE: Final = re.compile(r"(?:Goal|When|Shows|Fails as): |<[^>]*>: ")
"""Lines that help to find an entry, or to fill in its slots: not what one does."""
_REMEDY: Final = re.compile(r"If `.*` fails")


def as_text(placed: Sequence[Candidate], intent: str) -> str:
    """Rules first, then what was learnt, then what was said and seen."""
    rules, learnt, happened = ([*_of(placed, sections)] for sections in (_RULES, _LEARNT, _HAPPENED))
    if intent == "failure":  # what helps with a failure, before the way that failed
        learnt.sort(key=lambda each: _REMEDY.search(each.text) is None)
    answers = [*learnt, *happened]
    parts: list[str] = []
    size = 0
    for each in [*rules, *answers]:
        lines = _lines(each, intent)
        if told(words(lines[0]), words(" ".join(parts))):
            continue
        part = _told(lines, each.source_id)
        more = len(part.split())
        if parts and size + more > WORDS:
            continue
        parts.append(part)
        size += more
    return "\n\n".join(parts if answers else [NOTHING, *parts])


def _of(placed: Sequence[Candidate], sections: Sequence[Section]) -> Iterator[Candidate]:
    """What happened often says more than what did once."""
    best = max((each.relevance for each in placed), default=0.0)
    for section in sections:
        own = [each for each in placed if each.section is section]
        near = [each for each in own if each.always or each.relevance >= _NEAR * best]
        yield from sorted(near, key=lambda each: -each.times)[:_EACH]


def _lines(each: Candidate, intent: str) -> list[str]:
    """Of a procedure that says what to do about a failure, that alone where a failure is asked about."""
    first, *rest = each.text.removeprefix(ENTRY_MARK).lstrip().splitlines()
    remedies = [line for line in rest if _REMEDY.match(line)] if intent == "failure" else []
    return [first, *(remedies or [line for line in rest if not _BESIDE.match(line)])]


def _told(lines: Sequence[str], source_id: str) -> str:
    """The first line stands out where more follow."""
    first, *rest = lines
    return "\n".join([f"**{first}** (`{source_id}`)", *rest]) if rest else f"- {first} (`{source_id}`)"
