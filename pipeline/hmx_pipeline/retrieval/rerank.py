"""Reranking of found episodes by speaker, by time and by how much a turn says. Integers only.

Input: the query, the candidates with their BM25 scores and the time that the query names. Output: the same candidates
in the same order, with new scores.
"""

import re
from collections.abc import Sequence
from typing import Final

from hmx_pipeline.retrieval.score import FoundSource
from hmx_pipeline.retrieval.searchable import Document
from hmx_pipeline.retrieval.times import TimeSpan
from hmx_pipeline.segments.speakers import speaker_of

_UNIT: Final = 30
_UNCHANGED: Final = _UNIT**3
_SPEAKER: Final = 45
"""Factor, in thirtieths, for turns of the only speaker that the query names."""
_OTHER_TIMES: Final = 20
"""Factor, in thirtieths, for turns of other times than the query names, if there are some of its time."""
_SAYS_LITTLE: Final = 24
"""Factor, in thirtieths, for short turns and questions: their words were mostly lent by their neighbours."""
_SHORT: Final = 50
"""A turn is short if it has fewer characters."""
_WORD: Final = re.compile(r"\w+")


def reranked(
    query: str, found: Sequence[FoundSource[Document]], time: TimeSpan | None = None
) -> list[FoundSource[Document]]:
    about = [each.made.about or read(each) for each in found]
    asked_about = _named(query, {who for _, who, _ in about})
    at_other_times = [time is not None and time.distance(each.source.at) > 0 for each in found]
    timely = not all(at_other_times)
    ranked = []
    for each, (_, who, factor), other in zip(found, about, at_other_times, strict=True):
        kept = factor * (_SPEAKER if who == asked_about else _UNIT) * (_OTHER_TIMES if other and timely else _UNIT)
        score = each.bm25 * kept // _UNCHANGED
        ranked.append(each if kept == _UNCHANGED else FoundSource(each.source, score, each.sound, each.made))
    return ranked


def read(found: FoundSource[Document]) -> tuple[str, str, int]:
    """Return the name at the start of a turn, empty if there is none; its speaker, who else is the event's actor; and
    the factor in thirtieths for how much it says."""
    text = found.source.text
    name, says_little = speaker_of(text), len(text) < _SHORT or text.rstrip().endswith("?")
    found.made.about = about = name, name or found.source.actor, _SAYS_LITTLE if says_little else _UNIT
    return about


def _named(query: str, speakers: set[str]) -> str | None:
    """Return the one speaker that the query names; None if it names none or several."""
    words = set(_WORD.findall(query.casefold()))
    named = [who for who in speakers if words.issuperset(_WORD.findall(who.casefold())) and who.strip()]
    return named[0] if len(named) == 1 else None
