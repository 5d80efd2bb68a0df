"""A pack as Markdown text to paste: about 150 words, each entry with its id.

Input: the placed entries, the intent of the question and its terms. Output: the text, or a sentence that says that
nothing answers. Lines of what was learnt are kept whole, because half a command may do something else; of what somebody
said the beginning is.
"""

import re
from collections.abc import Iterator, Sequence, Set
from typing import Final

from hmx_pipeline.contracts.options import ENTRY_MARK, NOTHING, Section, SourceType
from hmx_pipeline.packs.candidates import EntryCandidate
from hmx_pipeline.packs.entry_lines import BESIDE
from hmx_pipeline.packs.near_duplicates import told, words
from hmx_pipeline.packs.render import begun
from hmx_pipeline.retrieval.terms import terms

WORDS: Final = 150
"""Another entry is started while the text has fewer words."""
SAID: Final = 60
"""Most words of what somebody said, or one long message would be all of the text."""
EMPTY: Final = "Memory holds nothing of this tenant: check its name, or publish its events."
_NEAR: Final = 0.4
"""Least share of the best relevance that an entry needs here."""
_EACH: Final = 3
"""Most entries per section."""
_RULES: Final = (Section.CORE, Section.CONSTRAINTS)
_LEARNT: Final = (Section.PROCEDURES, Section.FACTS, Section.CONFLICTS)
_HAPPENED: Final = (Section.EPISODES, Section.EVIDENCE)
_REMEDY: Final = re.compile(r"If `.*` fails")


def as_text(placed: Sequence[EntryCandidate], intent: str, asked: Set[str]) -> str:
    """Return the text: rules first, then what was learnt, then what happened. `asked`: the terms of the question."""
    rules, learnt, happened = ([*_of(placed, sections)] for sections in (_RULES, _LEARNT, _HAPPENED))
    if intent == "failure":  # remedies come before the procedure that failed
        learnt.sort(key=lambda each: _REMEDY.search(each.text) is None)
    answers = [*learnt, *happened]
    parts: list[str] = []
    size = 0
    for each in [*rules, *answers]:
        lines = _lines(each, intent)
        so_far = " ".join(parts)
        if told(words(lines[0]), words(so_far)) and not _adds(each, lines[0], so_far, asked):
            continue
        part = _told(lines, each.source_id)
        more = len(part.split())
        if parts and size + more > WORDS:
            continue
        parts.append(part)
        size += more
    answered = answers or any(each.relevance >= each.least > 0 for each in rules)
    return "\n\n".join(parts if answered else [NOTHING, *parts])


def _adds(each: EntryCandidate, line: str, so_far: str, asked: Set[str]) -> bool:
    """Return True if it has what the question names, or is a statement of its own, and the text so far has it not."""
    new = set(terms(each.said if each.states else line)).difference(terms(so_far))
    return bool(new if each.states else new & asked)


def _of(placed: Sequence[EntryCandidate], sections: Sequence[Section]) -> Iterator[EntryCandidate]:
    """Yield the most relevant entries by section, those that happened most often first."""
    best = max((each.relevance for each in placed), default=0.0)
    for section in sections:
        own = [each for each in placed if each.section is section]
        near = [each for each in own if each.always or each.relevance >= _NEAR * best]
        yield from sorted(near, key=lambda each: -each.times)[:_EACH]


def _lines(each: EntryCandidate, intent: str) -> list[str]:
    """Return an entry's lines; if a failure is asked about and the procedure has remedies, only those."""
    first, *rest = each.text.removeprefix(ENTRY_MARK).lstrip().splitlines()
    first = begun(first, SAID) if each.source_type is SourceType.EPISODE else first
    remedies = [line for line in rest if _REMEDY.match(line)] if intent == "failure" else []
    return [first, *(remedies or [line for line in rest if not BESIDE.match(line)])]


def _told(lines: Sequence[str], source_id: str) -> str:
    """Format an entry: a bold first line if more follow, else a list item."""
    first, *rest = lines
    return "\n".join([f"**{first}** (`{source_id}`)", *rest]) if rest else f"- {first} (`{source_id}`)"
