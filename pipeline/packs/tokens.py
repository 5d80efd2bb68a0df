"""How many tokens a text takes: an upper estimate for today's byte-pair vocabularies. Pure.

Enters: any text. Leaves: tokens. Nothing fails. A text is split into pieces as such tokenisers split it, and each piece
is cut greedily into the longest tokens that cl100k_base and o200k_base both know (`vocabulary.xz`, made of them by
`python -m tests.support.vocabulary`). A tokeniser cuts by rank, which now and then takes more: hence a margin.
"""

import lzma
import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final

_PIECES: Final = re.compile(
    r"'(?i:[sdmt]|ll|ve|re)|(?:[^\r\n\w]|_)?[^\W\d_]+|\d{1,3}| ?(?:[^\s\w]|_)+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_MARGIN: Final = 32
"""One token more for so many, rounded up: a piece or two of a short text may be cut worse too."""
_LONGEST: Final = 64


def estimate(text: str) -> int:
    """0 for the empty text."""
    if not text:
        return 0
    runs = text.split(" ")
    # Where all that is blank is single spaces, no piece reaches beyond one, and each belongs to what comes after it.
    if runs == text.split() and max(map(len, runs)) < _LONGEST:
        tokens = _alone(runs[0]) + sum(map(_after_space, runs[1:]))
    else:
        tokens = _pieces(text)
    return tokens - (-tokens // _MARGIN)


@lru_cache(maxsize=1_024)
def _alone(run: str) -> int:
    return _pieces(run)


@lru_cache(maxsize=65_536)  # runs repeat; most texts are looked up run by run
def _after_space(run: str) -> int:
    return _pieces(f" {run}")


def _pieces(text: str) -> int:
    return sum([_short(piece) if len(piece) < _LONGEST else _tokens(piece) for piece in _PIECES.findall(text)])


@lru_cache(maxsize=65_536)  # pieces repeat
def _short(piece: str) -> int:
    return _tokens(piece)


def _tokens(piece: str) -> int:
    known, reach = _vocabulary(), _reach()
    text, begin, count = piece.encode(errors="replace"), 0, 0
    while begin < len(text):
        end = begin + reach.get(text[begin : begin + 2], 1)
        while text[begin:end] not in known and end > begin + 1:  # every single byte is
            end -= 1
        begin = min(end, len(text))
        count += 1
    # Ranks were learnt from small letters: of a word in capitals they leave more parts than they need.
    return count + (count > 1 and piece.isupper())


@cache
def _vocabulary() -> frozenset[bytes]:
    return frozenset(unpacked(lzma.decompress(files(__package__).joinpath("vocabulary.xz").read_bytes())))


@cache
def _reach() -> dict[bytes, int]:
    """How long the longest token is that begins with two bytes; what is longer than `_LONGEST` is a run of blanks."""
    reach: dict[bytes, int] = {}
    for token in _vocabulary():
        reach[token[:2]] = min(_LONGEST, max(len(token), reach.get(token[:2], 1)))
    return reach


def packed(tokens: Iterable[bytes]) -> bytes:
    """In order, each as how much of the one before it begins with, how much follows, and that."""
    found, before = bytearray(), b""
    for token in sorted(tokens):
        shared = next((i for i, (a, b) in enumerate(zip(before, token, strict=False)) if a != b), None)
        shared = min(len(before), len(token)) if shared is None else shared
        found += bytes((shared, len(token) - shared)) + token[shared:]
        before = token
    return bytes(found)


def unpacked(found: bytes) -> Iterator[bytes]:
    place, token = 0, b""
    while place < len(found):
        shared, more = found[place], found[place + 1]
        token = token[:shared] + found[place + 2 : place + 2 + more]
        place += 2 + more
        yield token
