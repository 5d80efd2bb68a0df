"""Text → terms: the words that are compared, the same for what is stored and for what is asked. Pure.

Enters: any text. Leaves: words in order of appearance, and their stems. Nothing can fail. `VERSION` is part of every
Redis key: an index made by other rules is never read.
"""

import re
import unicodedata
from typing import Final

import Stemmer

VERSION: Final = 2
_WORD_CHARACTERS: Final = 64

_WORD: Final = re.compile(r"[^\W_]+")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Scripts without spaces between words: kana, Han, Hangul.
_UNSPACED: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]+")
STOP_WORDS: Final = frozenset(
    re.findall(
        r"\w+",
        """a about after again all also am an and any are aren as at be because been before being both but by can could
        couldn d did didn do does doesn doing don down during each few for from further get got had hadn has hasn
        have haven having he her here hers herself him himself his how i if in into is isn it its itself just let ll
        m ma may me might more most must my myself no nor not now of off on once only or other our ours ourselves
        out over own please re s same shan she should shouldn so some such t than that the their theirs them
        themselves then there these they this those through to too under until up us ve very was wasn we were weren
        what when where which while who whom why will with won would wouldn y you your yours yourself yourselves""",
    )
)


def words(text: str) -> list[str]:
    """Lowercase words without stop words; `camelCase` and `snake_case` come apart, unspaced scripts in pairs."""
    found: list[str] = []
    for raw in _WORD.findall(_HUMP.sub(" ", unicodedata.normalize("NFKC", text))):
        word = raw.casefold()[:_WORD_CHARACTERS]
        pieces = (word,) if word.isascii() else _pieces(word)
        found.extend(piece for piece in pieces if piece not in STOP_WORDS)
    return found


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


def stems(found: list[str]) -> list[str]:
    """The stem of each word."""
    # A stemmer must not be shared between threads; making one costs less than a microsecond.
    return list(Stemmer.Stemmer("english").stemWords(found))


def terms(text: str) -> list[str]:
    """Stems of the text's words, repeats included."""
    return stems(words(text))
