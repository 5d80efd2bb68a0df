"""Encoding tag: whether memory holds the like of a text already (taxonomy). It is told, and blocks nothing."""

import re
from collections.abc import Iterable
from itertools import islice
from typing import Final

from hmx_pipeline.retrieval.terms import terms

_HITS: Final = 5
_REDUNDANT, _REINFORCING, _RELATED = 0.9, 0.6, 0.4
_WORD: Final = re.compile(r"\w+")


def encoding(text: str, hits: Iterable[str]) -> str:
    """Return `redundant`, `reinforcing` or `novel`, by the best of the first hits."""
    words, names = frozenset(terms(text)), _names(text)
    nearest = 0.0
    for hit in islice(hits, _HITS):
        other = frozenset(terms(hit))
        share = len(words & other) / len(words | other) if words else 0.0
        if share >= _RELATED and names and names <= _names(hit):
            share = max(share, _REINFORCING)
        nearest = max(nearest, share)
    return "redundant" if nearest >= _REDUNDANT else "reinforcing" if nearest >= _REINFORCING else "novel"


def _names(text: str) -> frozenset[str]:
    """Return the words with a capital letter or a digit, which name something."""
    return frozenset(word for word in _WORD.findall(text) if word != word.lower() or not word.isalpha())
