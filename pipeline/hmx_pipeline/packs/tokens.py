"""Token counts by two public BPE tokenisers (cl100k_base, o200k_base); the larger count is used.

Input: any text. Output: the most tokens that either tokeniser makes of it, alone or followed by a line break or blank
line. So the sum over a pack's entries is an upper bound for the joined text. Other models' tokenisers differ.

Why it is an upper bound: both tokenisers first split a text into pieces, and no piece spans a visible character and the
space after it. So texts are counted run by run, and runs repeat. Within a piece they merge the neighbours with the
lowest rank first, as `_merged` does. Merging never adds a token, so bytes are an upper bound. Bytes are counted if a
piece is very long, or if it contains a character that Unicode versions, and so the tokenisers, classify differently.
"""

import lzma
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import accumulate, pairwise
from typing import Final
from unicodedata import category

from hmx_pipeline.contracts.bounded_cache import ShortTextCache

_BREAKS: Final = ("", "\n", "\n\n")
"""What may follow an entry in the joined text. Each entry begins with `[`, which shares no piece with a line break."""
_LONGEST: Final = 64
"""Most characters of a cached run."""
_LONG_PIECE: Final = 512
"""Most bytes of a merged piece, because merging takes quadratic time."""
_SECOND: Final = 32
"""Bit offset of the second count: both counts are added in one integer."""
_FIRST: Final = (1 << _SECOND) - 1
_LATER: Final = 1 << 30
"""Rank of bytes that are no token."""

# A text's shape has one character for each of its own: ASCII stays, others become a letter of their class.
_UPPER, _LOWER, _LETTER, _ACCENT, _DIGIT, _BLANK, _SIGN, _UNSURE = "Z", "z", "ª", "\u0300", "0", "\t", "!", "\uffff"
_SHAPES: Final = {"Lu": _UPPER, "Lt": _UPPER, "Ll": _LOWER, "Lm": _LETTER, "Lo": _LETTER, "Cn": _UNSURE, "Cs": _UNSURE}
_SHAPES_OF_MAJOR: Final = {"M": _ACCENT, "N": _DIGIT, "Z": _BLANK}
_FOLDED: Final = "ſ"
"""Case-insensitive expressions match it as an s."""
_S, _L, _N = r" \t\n\r\x0b\x0c", "A-Za-zª", "0-9"
_BLANKS: Final = rf"[{_S}]*[\r\n]+|[{_S}]+(?![^{_S}])|[{_S}]+"
_CL100K: Final = re.compile(
    rf"'(?i:[sdmt]|ll|ve|re)|[^\r\n{_L}{_N}]?[{_L}]+|[{_N}]{{1,3}}| ?[^{_S}{_L}{_N}]+[\r\n]*|{_BLANKS}"
)
_CL100K_LAST: Final = re.compile(rf"[{_S}]+\Z|{_CL100K.pattern}")
"""Later releases take all trailing whitespace as one piece."""
_WORD: Final = rf"[A-Zª{_ACCENT}]*[a-zª{_ACCENT}]+|[A-Zª{_ACCENT}]+[a-zª{_ACCENT}]*"
_O200K: Final = re.compile(
    rf"[^\r\n{_L}{_N}]?(?:{_WORD})(?:'(?i:[sdmt]|ll|ve|re))?|[{_N}]{{1,3}}| ?[^{_S}{_L}{_N}]+[\r\n/]*|{_BLANKS}"
)
_RUNS: Final = re.compile(r"(?<=\S)(?= )")

Ranks = dict[bytes, int]


def estimate(text: str) -> int:
    """Return the largest number of tokens; 0 for the empty text."""
    if not text:
        return 0
    # If all whitespace is single spaces, each space belongs to the run after it. What is printable has no other.
    if text.isprintable() and "  " not in text and " " in text and text[0] != " " != text[-1]:
        first, *between, last = text.split(" ")
        last = f" {last}"
        before = _RUN[first] + sum(map(_AFTER_SPACE.__getitem__, between))
    else:
        *runs, last = _RUNS.split(text)
        before = sum(map(_RUN.__getitem__, runs))
    ends = _ends(last) if len(last) < _LONGEST else _ends.__wrapped__(last)
    return max([max((both := before + end) & _FIRST, both >> _SECOND) for end in ends])


@lru_cache(maxsize=16_384)
def _ends(run: str) -> tuple[int, ...]:
    """Return the possible counts of a text's last run, by what follows it, without counts that another one exceeds for
    both tokenisers."""
    found = {_counts(run + each) for each in _BREAKS}
    if run[-1].isspace():
        found.add(_counts(run, _CL100K_LAST))
    both = {each: (each & _FIRST, each >> _SECOND) for each in found}
    return tuple(
        each
        for each, (first, second) in sorted(both.items())
        if not any(other != each and first <= a and second <= b for other, (a, b) in both.items())
    )


def _counts(run: str, cl100k: re.Pattern[str] = _CL100K) -> int:
    """Count a run for both tokenisers. No piece spans two runs."""
    if run.isascii():
        first, second = cl100k.findall(run), _O200K.findall(run)
    else:
        shape = "".join(map(_shape, run))
        if _UNSURE in shape:
            size = len(run.encode(errors="surrogatepass"))
            return size + (size << _SECOND)
        first, second = ([run[slice(*piece.span())] for piece in of.finditer(shape)] for of in (cl100k, _O200K))
    return sum([_piece(piece, 0) for piece in first]) + (sum([_piece(piece, 1) for piece in second]) << _SECOND)


_RUN: Final = ShortTextCache(_counts, 16_384)
_one: Final = lru_cache(4_096)(int)
"""One object for equal counts: it is in the processor's cache when a text is added up."""
_AFTER_SPACE: Final = ShortTextCache(lambda run: _one(_counts(f" {run}")), 65_536)
"""Runs repeat, so most texts are counted by lookup."""


@lru_cache(maxsize=16_384)
def _shape(character: str) -> str:
    if character.isascii():
        return character
    if character == "\x85":
        return _BLANK
    if character in _FOLDED:
        return _UNSURE
    kind = category(character)
    return _SHAPES.get(kind) or _SHAPES_OF_MAJOR.get(kind[0], _SIGN)


def _piece(piece: str, tokeniser: int) -> int:
    return _short(piece, tokeniser) if len(piece) < _LONGEST else _merged(piece.encode(), _vocabulary()[tokeniser])


@lru_cache(maxsize=65_536)  # pieces repeat
def _short(piece: str, tokeniser: int) -> int:
    return _merged(piece.encode(), _vocabulary()[tokeniser])


def _merged(piece: bytes, ranks: Ranks) -> int:
    """Count the parts that are left when no two neighbours form a token."""
    if piece in ranks:
        return 1
    if len(piece) > _LONG_PIECE:
        return len(piece)
    begins = list(range(len(piece) + 1))
    merges = [ranks.get(piece[begin : begin + 2], _LATER) for begin in begins[:-2]]
    while merges and (lowest := min(merges)) < _LATER:
        at = merges.index(lowest)
        del begins[at + 1], merges[at]
        for pair in (at - 1, at):
            if 0 <= pair < len(merges):
                merges[pair] = ranks.get(piece[begins[pair] : begins[pair + 2]], _LATER)
    return len(merges) + 1


@cache
def _vocabulary() -> tuple[Ranks, Ranks]:
    """Return the tokens with their ranks for each tokeniser; tokens that both know are stored once."""
    packed = lzma.decompress(files(__package__).joinpath("vocabulary.xz").read_bytes())
    first, rest = _unpacked(packed)
    second, _ = _unpacked(rest)
    held = dict(zip(first, first, strict=True))
    ranks = range(max(len(first), len(second)))
    return dict(zip(first, ranks, strict=False)), dict(zip((held.get(t, t) for t in second), ranks, strict=False))


def vocabulary_bytes(tokens: Sequence[bytes]) -> bytes:
    """Serialise tokens: their number, their lengths, their bytes. The order is the rank."""
    return len(tokens).to_bytes(4) + bytes(map(len, tokens)) + b"".join(tokens)


def _unpacked(found: bytes) -> tuple[list[bytes], bytes]:
    """Return the tokens, and the bytes after them."""
    begin = 4 + int.from_bytes(found[:4])
    places = list(accumulate(found[4:begin], initial=begin))
    return [found[a:b] for a, b in pairwise(places)], found[places[-1] :]
