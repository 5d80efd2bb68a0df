"""Excerpts of long messages: the pieces that match the question and what stands beside them, in their order.

Input: a message and the stems of the question. Output: whole sentences, list items and commands; `[...]` stands where
others are left out. A block of code and a command over several lines are one piece each: half of one may do something
else.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.packs.render import cut, episode, marked
from hmx_pipeline.packs.rendered import RenderedEntry
from hmx_pipeline.retrieval.searchable import Document
from hmx_pipeline.retrieval.terms import terms

LONG: Final = 200
"""Tokens above which a message is long. Its excerpt stands for it in every pack, because the rest seldom helps."""
_EXCERPTS: Final = (LONG, 60, 40, 24)
"""About how many tokens its excerpts have: what is shown, then what a small budget gets."""
GAP: Final = "[...]"
_END: Final = re.compile(
    r"\n\s*|(?<=[\w)\]\"'”’`*][.!?])(?<![A-Z][a-z]\.)(?<!\b\w\.)[ \t]+|(?<=[.!?][)\"'”’*])[ \t]+|(?<=[。！？।؟])"
)
_WORD: Final = re.compile(r"[^\W_]")
_WRAPPED: Final = 50
"""A line that is as long may be a sentence that goes on in the next line."""
_LENT: Final = ((0, 10), (1, 9), (2, 8), (3, 7), (4, 6), (5, 5), (6, 4), (7, 3), (-1, 7), (-2, 5), (-3, 3))
"""How much a match counts for the pieces after it and, below zero, before it. An answer follows what it is about, and
what belongs together stays together."""
_REACH: Final = len(_LENT)
_LEAST: Final = 4
"""A piece that scores less than this part of the best is no help."""
_SHARED: Final = 2_520
"""A stem counts the less, the more pieces have it."""
_CACHED: Final = (300, 120)
"""Estimated bytes of a piece, and of a stem with its places."""


class LongMessage:
    """Excerpts of a long message. `asked`: the stems of the question with weights; `whole`: the message's entry."""

    fixes: Final = False

    def __init__(self, source: Document, asked: Mapping[str, int], whole: RenderedEntry) -> None:
        self._source, self._asked, self._whole = source, asked, whole

    def shorter(self) -> Iterator[str]:
        text = self._source.text
        for most in _EXCERPTS:
            part = excerpt(text, self._asked, most * len(text) // self._whole.tokens)
            # A message without any short piece is cut where it is.
            shown = marked(episode(self._source, part)) if part else cut(self._whole.text, most)
            if shown is not None:
                yield shown


class Pieces(NamedTuple):
    texts: tuple[str, ...]
    places: Mapping[str, Sequence[int]]
    """Stem → the pieces that have it."""


def excerpt(text: str, asked: Mapping[str, int], characters: int) -> str:
    """Return at most so many characters of the text; empty if no piece is that short. `asked`: the stems of the
    question with their weights. Where nothing matches, the beginning stands for the rest."""
    found, places = pieces(text)
    own: dict[int, int] = {}
    for stem, weight in asked.items():
        if (having := places.get(stem)) is not None:
            share = weight * _SHARED // len(having)
            for at in having:
                own[at] = own.get(at, 0) + share
    scores = [0] * (len(found) + _REACH)  # the rest is for what would stand before the first piece, or after the last
    for at, match in own.items():
        for far, lent in _LENT:
            scores[at + far] += match * lent
    enough = max(scores) // _LEAST
    kept: list[int] = []
    for i in sorted(range(len(found)), key=scores.__getitem__, reverse=True):
        size = len(found[i]) + 1
        if scores[i] < enough or (not enough and size > characters):
            break
        if size <= characters:
            kept.append(i)
            characters -= size
    return " ".join(_joined(found, sorted(kept))) if kept else ""


def _joined(found: Sequence[str], kept: Sequence[int]) -> Iterator[str]:
    last = -1
    for i in kept:
        if i > last + 1:
            yield GAP
        yield found[i]
        last = i
    if last < len(found) - 1:
        yield GAP


def _weighed(found: str | Pieces) -> int:
    if isinstance(found, str):
        return 2 * len(found)
    return _CACHED[0] * len(found.texts) + _CACHED[1] * len(found.places)


@remembered(16 * MB, _weighed)
def pieces(text: str) -> Pieces:
    found: list[str] = []
    start = 0
    for match in _END.finditer(text):
        if not _goes_on(text, start, match):
            found.append(text[start : match.end()])
            start = match.end()
    found.append(text[start:])
    texts = tuple(" ".join(piece.split()) for piece in _closed(found) if _WORD.search(piece))
    places: dict[str, list[int]] = {}
    for i, piece in enumerate(texts):
        for stem in set(terms(piece)):
            places.setdefault(stem, []).append(i)
    return Pieces(texts, places)


def _goes_on(text: str, start: int, match: re.Match[str]) -> bool:
    """Return True if the same sentence or command goes on after the match."""
    after, end = text[match.end() : match.end() + 1], match.start()
    if match[0][:1] == "\n":
        before = text[end - 1 : end]
        return before == "\\" or (end - start >= _WRAPPED and after.islower() and before not in ".:;!?")
    return after.islower() or end - start < 4  # the number of a list item


def _closed(found: Sequence[str]) -> Iterator[str]:
    """Join what stands between backticks."""
    opened: list[str] = []
    for piece in found:
        odd = piece.count("`") % 2
        if opened:
            opened.append(piece)
            if odd:
                yield "".join(opened)
                opened = []
        elif odd:
            opened = [piece]
        else:
            yield piece
    yield from opened  # the mark has no other
