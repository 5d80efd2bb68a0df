"""Tokeniser: text → lowercase words, stems and id shapes, the same for indexed texts and queries.

`VERSION` is part of every Redis key, so that an index made by other rules is never read.
"""

import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

import Stemmer

from hmx_pipeline.contracts.bounded_cache import ShortTextCache
from hmx_pipeline.languages import of_all

VERSION: Final = 4
_WORD_CHARACTERS: Final = 64
REMEMBERED: Final = 32_768
"""Most cached runs of letters and digits; most texts consist of few."""

_RUN: Final = re.compile(r"[^\W_]+")
_SPACED: Final = bytes(ord(c) if c.isascii() and c.isalnum() else ord(" ") for c in map(chr, range(256)))
"""Translation table for ASCII bytes: whatever is in no run becomes a space."""
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_TOKEN: Final = re.compile(r"[\w-]+")
_IS_ID: Final = re.compile(r"(?=.*\d)(?=.*[^\W\d_]).|\d{5}", re.DOTALL)
_BEGINS: Final = re.compile(r"[^\W\d_]+(?:[-_]|(?=\d))")
_UNSPACED: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]+")  # kana, Han, Hangul
STOP_WORDS: Final = frozenset(word for table in of_all("search").values() for word in table["stop_words"].split())
"""Words that no text is found by, of all languages, except words that have a meaning in another of them."""


def words(text: str) -> list[str]:
    """Return lowercase words without stop words. `camelCase` and `snake_case` are split, unspaced scripts are cut into
    bigrams."""
    return [word for run in _runs(text) for word in _words(run)]


def stems(found: list[str]) -> list[str]:
    # Threads must not share a stemmer, and making one takes less than a microsecond.
    return list(Stemmer.Stemmer("english").stemWords(found))


def terms(text: str) -> list[str]:
    """Return the stems of the text's words, repetitions included."""
    return list(chain.from_iterable(map(_KNOWN.__getitem__, _runs(text))))


def shapes(text: str) -> list[str]:
    """Return the shapes of the ids in a text, such as `=dev-0000`: the prefix, then `x` for letters and `0`
    for digits."""
    return [f"={_shape(found)}" for found in ids_in(text)]


def ids_in(text: str) -> list[str]:
    """Return the words that contain both letters and digits, or five digits in a row."""
    return [found for found in _TOKEN.findall(text) if _IS_ID.match(found)]


def masks(text: str) -> list[str]:
    """Return the shapes of the ids without their prefixes, such as `=xxx-0000`."""
    return [f"={_mask(found)}" for found in ids_in(text)]


def _shape(written: str) -> str:
    begins = _BEGINS.match(written)
    kept = begins[0] if begins is not None else ""
    return kept.casefold()[:_WORD_CHARACTERS] + _mask(written[len(kept) :])


def _mask(written: str) -> str:
    return "".join("0" if c.isdigit() else "x" if c.isalpha() else c for c in written[:_WORD_CHARACTERS])


def _runs(text: str) -> list[str]:
    if text.isascii():  # the same as the expression, four times as fast
        return text.encode().translate(_SPACED).decode().split()
    return _RUN.findall(unicodedata.normalize("NFKC", text))


def _words(run: str) -> list[str]:
    found: list[str] = []
    for raw in (run,) if run.islower() else _HUMP.sub(" ", run).split():
        word = raw.casefold()[:_WORD_CHARACTERS]
        found += (word,) if word.isascii() else _pieces(word)
    return [word for word in found if word not in STOP_WORDS]


def _pieces(word: str) -> list[str]:
    pieces: list[str] = []
    end = 0
    for run in _UNSPACED.finditer(word):
        pieces.append(word[end : run.start()])
        characters = run.group()
        pieces.extend(characters[i : i + 2] for i in range(max(1, len(characters) - 1)))
        end = run.end()
    pieces.append(word[end:])
    return [piece for piece in pieces if piece]


_KNOWN: Final = ShortTextCache(lambda run: tuple(map(sys.intern, stems(_words(sys.intern(run))))), REMEMBERED)
"""One object for each word, which whoever counts and looks up words finds in the processor's caches."""


def strings(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value, in the order of their keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key in sorted(value):
            yield from strings(value[key])
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
