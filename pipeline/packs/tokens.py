"""How many tokens a text takes: an upper estimate for today's byte-pair vocabularies, in integers. Pure.

Counts the pieces that such tokenisers split a text into (words, digits by threes, runs of marks, whitespace), each
by its length and kind, in hundredths of a token, with a margin on top; text outside ASCII gets a larger one.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import repeat
from typing import Final

_KINDS: Final = (
    ("run", r" ?[A-Za-z0-9+/=]{24,}"),
    ("upper", r" ?(?:[A-Z]{2,}(?![a-z])|[A-Z](?![a-z]))"),
    ("word", r" ?[A-Z]?[a-z]+"),
    ("digits", r"[0-9]+"),
    ("marks", r" ?[!-/:-@\[-`{-~]+"),
    ("newline", r"\s*[\r\n]+"),
    ("space", r"[ \t]+"),
    ("wide", r" ?[^\x00-\x7f]+"),
    ("control", r"[\x00-\x1f\x7f]+"),
)
_PIECES: Final = re.compile("|".join(form for _, form in _KINDS))
_NAMED: Final = re.compile("|".join(f"(?P<{name}>{form})" for name, form in _KINDS))
_WORDS: Final = re.compile(r"(?P<word>[A-Z]?[a-z]+)|(?P<upper>[A-Z]+)|(?P<digits>[0-9]+)|(?P<marks>[+/=]+)")
_CLASSES: Final = re.compile(r"[A-Z]+|[a-z]+|[0-9]+|[+/=]+")
_UNPRONOUNCED: Final = re.compile(r"[bcdfghjklmnpqrstvwxzBCDFGHJKLMNPQRSTVWXZ]{5}")
_SAME: Final = re.compile(r"(.)\1*", re.DOTALL)
_ACCENTED: Final = re.compile("[\u00c0-\u024f]")
_MARGIN: Final = 110
_ACCENTED_MARGIN: Final = 130
"""Of the ASCII parts of a text whose letters have accents: its words are not English ones."""
_WIDE_MARGIN: Final = 140


def estimate(text: str) -> int:
    """Tokens, rounded up, and one for what separates a text from the next; 0 for the empty text."""
    if not text:
        return 0
    margin = _ACCENTED_MARGIN if not text.isascii() and _ACCENTED.search(text) else _MARGIN
    return -(-sum(map(_cost, _PIECES.findall(text), repeat(margin))) // 10_000) + 1


@lru_cache(maxsize=65_536)  # words repeat; most texts are looked up piece by piece
def _cost(piece: str, margin: int) -> int:
    """In hundredths of hundredths of a token. What a lookahead saw beside the piece does not change its kind's cost."""
    match = _NAMED.match(piece)
    assert match is not None
    kind = match.lastgroup or ""
    if kind == "wide":
        return sum(map(_wide, piece.lstrip(" "))) * _WIDE_MARGIN
    return _COSTS[kind](piece if kind == "space" else piece.removeprefix(" ")) * margin


def _word(piece: str) -> int:
    n = len(piece)
    if n > 16 or (n > 4 and _UNPRONOUNCED.search(piece)):
        return n * 60
    name = 50 if n > 4 and piece[0] < "a" else 0
    return name + (100 if n < 6 else 110 if n < 9 else 135 if n < 12 else 250)


def _upper(piece: str) -> int:
    n = len(piece)
    return 100 if n == 1 else 55 * n


def _run(piece: str) -> int:
    """Many changes between cases and digits: encoded bytes. Else words, a path for one."""
    switches = sum(1 for _ in _CLASSES.finditer(piece))
    if switches * 5 >= len(piece) * 2:
        return len(piece) * 72
    return sum(_COSTS[match.lastgroup or ""](match.group(match.lastgroup or "")) for match in _WORDS.finditer(piece))


def _digits(piece: str) -> int:
    return -(-len(piece) // 3) * 100


def _marks(piece: str) -> int:
    """Vocabularies know runs of one mark, and many pairs."""
    runs = [len(match.group()) for match in _SAME.finditer(piece)]
    return sum(100 + n // 8 * 100 for n in runs) * (100 if len(runs) < 3 else 75) // 100


def _blank(piece: str) -> int:
    return 100 + len(piece) // 40 * 100


def _wide(character: str) -> int:
    """By bytes in UTF-8: two for most alphabets, three for Han, kana and Hangul, four for emoji and rare signs."""
    code = ord(character)
    if code < 0x400:
        return 80
    return 40 if code < 0x530 else 60 if code < 0x800 else 100 if code < 0x10000 else 250


_COSTS: Final[Mapping[str, Callable[[str], int]]] = {
    "run": _run,
    "word": _word,
    "upper": _upper,
    "digits": _digits,
    "marks": _marks,
    "newline": _blank,
    "space": _blank,
    "control": lambda piece: 100 * len(piece),
}
