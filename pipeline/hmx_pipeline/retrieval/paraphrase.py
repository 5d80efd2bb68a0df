"""Character n-gram similarity of a question to the goals of procedures: `Umstellung` finds `umstellen`.

Input: a question, and the goals of each procedure. Output: for each the share, 0 to 1, of the weights of the n-grams of
one of the question's sentences that it contains. An n-gram weighs more, the fewer procedures contain it. Works in any
language.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from math import log
from typing import Final

from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.retrieval.terms import STOP_WORDS

_PIECE: Final = 4
_WORDS: Final = 64
_WORD: Final = re.compile(r"[^\W\d_]{2,32}")
_SLOT: Final = re.compile(r"<[^<>]*>")
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n+|(?<=[。！？])")
_SENTENCES: Final = 8
_SAYS: Final = 3
"""Fewest words of a sentence that can be a wish."""


def nearness(question: str, goals: Sequence[Sequence[str]]) -> list[float]:
    """A request tells its wish in one sentence. Who asks and why stand in others, and no procedure has their words."""
    held = [_pieces(tuple(own)) if own else frozenset() for own in goals]
    having = Counter(piece for own in held for piece in own)
    if not having:
        return [0.0] * len(held)
    sentences = [said for said in _SENTENCE.split(question)[:_SENTENCES] if len(set(_words(said))) >= _SAYS]
    found = [_near(_pieces((said,)), held, having) for said in sentences or [question]]
    return [max(shares) for shares in zip(*found, strict=True)]


def _near(asked: frozenset[str], held: Sequence[frozenset[str]], having: Counter[str]) -> list[float]:
    weight = {piece: log(1 + len(held) / max(1, having[piece])) for piece in sorted(asked)}
    whole = sum(weight.values())
    shared = (sorted(asked & own) for own in held)
    return [sum([weight[piece] for piece in own]) / whole if own else 0.0 for own in shared]


@remembered(2 * MB)
def _pieces(texts: tuple[str, ...]) -> frozenset[str]:
    return frozenset(piece for text in texts for word in _words(text) for piece in _of(word))


def _words(text: str) -> list[str]:
    found = _WORD.findall(_SLOT.sub(" ", text.casefold()))[:_WORDS]
    return [word for word in found if word not in STOP_WORDS]


def _of(word: str) -> Iterable[str]:
    """Return the n-grams of a word; a shorter word is one."""
    return (word[i : i + _PIECE] for i in range(max(1, len(word) - _PIECE + 1)))
