"""How near a question's wording is to the wishes that procedures were learnt from, by pieces of words: so `Umstellung`
finds `umstellen`, in any language. Pure; nothing fails.

Enters: a question, and of each procedure its goals. Leaves: of each a share, 0 to 1, of what the question's pieces
weigh; a piece weighs the more, the fewer of the procedures have it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from math import log
from typing import Final

from pipeline.contracts.limits import MB
from pipeline.contracts.remembered import remembered
from pipeline.retrieval.terms import STOP_WORDS

_PIECE: Final = 4
_WORDS: Final = 64
_WORD: Final = re.compile(r"[^\W\d_]{2,32}")
_SLOT: Final = re.compile(r"<[^<>]*>")


def nearness(question: str, goals: Sequence[Sequence[str]]) -> list[float]:
    held = [_pieces(tuple(own)) for own in goals]
    having = Counter(piece for own in held for piece in own)
    asked = _pieces((question,))
    weight = {piece: log(1 + len(held) / max(1, having[piece])) for piece in sorted(asked)}
    whole = sum(weight.values())
    return [sum(weight[piece] for piece in sorted(asked & own)) / whole if whole else 0.0 for own in held]


@remembered(2 * MB)
def _pieces(texts: tuple[str, ...]) -> frozenset[str]:
    words = (word for text in texts for word in _WORD.findall(_SLOT.sub(" ", text.casefold()))[:_WORDS])
    return frozenset(piece for word in words if word not in STOP_WORDS for piece in _of(word))


def _of(word: str) -> Iterable[str]:
    """A word that is shorter than a piece is one."""
    return (word[i : i + _PIECE] for i in range(max(1, len(word) - _PIECE + 1)))
