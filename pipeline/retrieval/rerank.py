"""The episodes that were found, judged once more by what an index of words cannot see: who speaks, and how much a turn
says. Pure, integers only: no order of sums changes a rank.

Enters: the query and the candidates with their BM25. Leaves: the same candidates in the same order, scored anew.
"""

import re
from collections.abc import Sequence
from typing import Final

from pipeline.retrieval.documents import Document
from pipeline.retrieval.score import Found
from pipeline.segments.speakers import speaker_of

_UNIT: Final = 10
_SPEAKER: Final = 15
"""Tenths of its score that a turn keeps whose speaker alone of all is named in the query: they are asked about."""
_SAYS_LITTLE: Final = 8
"""Likewise a short turn, or one that asks: what it is about stands in its neighbours, who lent it their words."""
_SHORT: Final = 50
"""Characters."""
_WORD: Final = re.compile(r"\w+")


def reranked(query: str, found: Sequence[Found[Document]]) -> list[Found[Document]]:
    speakers = [speaker(each.source) for each in found]
    asked_about = _named(query, set(speakers))
    return [
        Found(
            each.source,
            each.bm25 * _kept(each.source.text, who == asked_about) // (_UNIT * _UNIT),
            each.sound,
            made=each.made,
        )
        for each, who in zip(found, speakers, strict=True)
    ]


def speaker(document: Document) -> str:
    """Who speaks: in a transcript the name that a turn begins with, else the event's actor."""
    return speaker_of(document.text) or document.actor


def _named(query: str, speakers: set[str]) -> str | None:
    """The one speaker that the query names; None where it names none or several."""
    words = set(_WORD.findall(query.casefold()))
    named = [who for who in speakers if words.issuperset(_WORD.findall(who.casefold())) and who.strip()]
    return named[0] if len(named) == 1 else None


def _kept(text: str, is_asked_about: bool) -> int:
    """Of a hundred."""
    says_little = len(text) < _SHORT or text.rstrip().endswith("?")
    return (_SPEAKER if is_asked_about else _UNIT) * (_SAYS_LITTLE if says_little else _UNIT)
