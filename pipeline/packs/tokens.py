"""How many tokens a text takes: counted, not guessed, by two public byte-pair tokenisers, and the larger number. Pure.

Enters: any text. Leaves: the most tokens that cl100k_base or o200k_base make of it, alone or with the line break or the
blank line that parts it from the next entry. So the sum over a pack's entries is an upper bound for the entries joined,
for these two; other models' tokenisers count differently. Nothing fails.

Why it is an upper bound. Both tokenisers first cut a text into pieces, and no piece reaches across the place between
something visible and a space after it: texts are counted run by run, and runs repeat. In a piece they merge two
neighbours at a time, those first whose bytes are the most common token: `_merged` does the same. Merging never adds a
token, so bytes are an upper bound: they are counted where a piece is very long, and where a run holds a character that
Unicode's versions, and so the tokenisers, class differently.
"""

import lzma
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import accumulate, pairwise
from typing import Final
from unicodedata import category

_BREAKS: Final = ("", "\n", "\n\n")
"""What may follow an entry where a reader joins them. `[`, with which each begins, is in no piece with a line break."""
_LONGEST: Final = 64
"""Characters of what is remembered."""
_LONG_PIECE: Final = 512
"""Bytes; the work to merge a piece grows with their square."""
_SECOND: Final = 32
"""Bits between the two tokenisers' counts, which are added up in one number."""
_FIRST: Final = (1 << _SECOND) - 1
_LATER: Final = 1 << 30
"""Rank of what is no token."""

# A text's shape has one character for each of it: ASCII as it is, else one that stands for its class.
_UPPER, _LOWER, _LETTER, _ACCENT, _DIGIT, _BLANK, _SIGN, _UNSURE = "Z", "z", "ª", "\u0300", "0", "\t", "!", "\uffff"
_SHAPES: Final = {"Lu": _UPPER, "Lt": _UPPER, "Ll": _LOWER, "Lm": _LETTER, "Lo": _LETTER, "Cn": _UNSURE, "Cs": _UNSURE}
_SHAPES_OF_MAJOR: Final = {"M": _ACCENT, "N": _DIGIT, "Z": _BLANK}
_FOLDED: Final = "ſ"
"""Regular expressions that do not tell capitals from small letters take it for an s."""
_S, _L, _N = r" \t\n\r\x0b\x0c", "A-Za-zª", "0-9"
_BLANKS: Final = rf"[{_S}]*[\r\n]+|[{_S}]+(?![^{_S}])|[{_S}]+"
_CL100K: Final = re.compile(
    rf"'(?i:[sdmt]|ll|ve|re)|[^\r\n{_L}{_N}]?[{_L}]+|[{_N}]{{1,3}}| ?[^{_S}{_L}{_N}]+[\r\n]*|{_BLANKS}"
)
_CL100K_LAST: Final = re.compile(rf"[{_S}]+\Z|{_CL100K.pattern}")
"""Later releases take all that is blank at a text's end for one piece."""
_WORD: Final = rf"[A-Zª{_ACCENT}]*[a-zª{_ACCENT}]+|[A-Zª{_ACCENT}]+[a-zª{_ACCENT}]*"
_O200K: Final = re.compile(
    rf"[^\r\n{_L}{_N}]?(?:{_WORD})(?:'(?i:[sdmt]|ll|ve|re))?|[{_N}]{{1,3}}| ?[^{_S}{_L}{_N}]+[\r\n/]*|{_BLANKS}"
)
_RUNS: Final = re.compile(r"(?<=\S)(?= )")

Ranks = dict[bytes, int]


def estimate(text: str) -> int:
    """0 for the empty text."""
    if not text:
        return 0
    runs = text.split(" ")
    # Where all that is blank is single spaces, each belongs to the run after it.
    if len(runs) > 1 and runs == text.split() and max(map(len, runs)) < _LONGEST:
        last = f" {runs[-1]}"
        before = _remembered(runs[0]) + sum(map(_after_space, runs[1:-1]))
    else:
        *runs, last = _RUNS.split(text)
        before = sum(map(_run, runs))
    ends = _ends(last) if len(last) < _LONGEST else _ends.__wrapped__(last)
    return max([max((before + end) & _FIRST, (before + end) >> _SECOND) for end in ends])


@lru_cache(maxsize=16_384)
def _ends(run: str) -> tuple[int, ...]:
    """What a text's last run may count, by what follows; without what another one exceeds for both tokenisers."""
    found = {_counts(run + each) for each in _BREAKS}
    if run[-1].isspace():
        found.add(_counts(run, _CL100K_LAST))
    both = {each: (each & _FIRST, each >> _SECOND) for each in found}
    return tuple(
        each
        for each, (first, second) in sorted(both.items())
        if not any(other != each and first <= a and second <= b for other, (a, b) in both.items())
    )


def _run(run: str) -> int:
    return _remembered(run) if len(run) < _LONGEST else _counts(run)


@lru_cache(maxsize=65_536)  # runs repeat; most texts are looked up run by run
def _after_space(run: str) -> int:
    return _counts(f" {run}")


@lru_cache(maxsize=16_384)
def _remembered(run: str) -> int:
    return _counts(run)


def _counts(run: str, cl100k: re.Pattern[str] = _CL100K) -> int:
    """Of both tokenisers; nothing of the run is in a piece with what stands beside it."""
    if run.isascii():
        first, second = cl100k.findall(run), _O200K.findall(run)
    else:
        shape = "".join(map(_shape, run))
        if _UNSURE in shape:
            size = len(run.encode(errors="surrogatepass"))
            return size + (size << _SECOND)
        first, second = ([run[slice(*piece.span())] for piece in of.finditer(shape)] for of in (cl100k, _O200K))
    return sum([_piece(piece, 0) for piece in first]) + (sum([_piece(piece, 1) for piece in second]) << _SECOND)


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
    """How many parts are left when no two neighbours are a token together."""
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
    """Of each tokeniser the tokens with their ranks; what both know is held once."""
    packed = lzma.decompress(files(__package__).joinpath("vocabulary.xz").read_bytes())
    first, rest = _unpacked(packed)
    second, _ = _unpacked(rest)
    held = dict(zip(first, first, strict=True))
    ranks = range(max(len(first), len(second)))
    return dict(zip(first, ranks, strict=False)), dict(zip((held.get(t, t) for t in second), ranks, strict=False))


def packed(tokens: Sequence[bytes]) -> bytes:
    """How many, how long each is, and they themselves: their order is their rank."""
    return len(tokens).to_bytes(4) + bytes(map(len, tokens)) + b"".join(tokens)


def _unpacked(found: bytes) -> tuple[list[bytes], bytes]:
    """Tokens, and what follows them."""
    begin = 4 + int.from_bytes(found[:4])
    places = list(accumulate(found[4:begin], initial=begin))
    return [found[a:b] for a, b in pairwise(places)], found[places[-1] :]
