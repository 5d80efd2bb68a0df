"""Linear classifier of sentences: whether one states a rule, a fact, or neither.

Input: a sentence. Output: two integers; the larger, the more likely it is a rule or a fact; far below 0 it is neither.
Features are words, word pairs, character n-grams of Japanese and Chinese, and the kinds of cues in the language files.
All languages share these kinds, so what is learnt from one language helps with the others. A feature's bucket is its
CRC-32, and weights are integers, so results are the same on every machine. `python -m tests.quality.train_statements`
makes the weights (`classifier.xz`); `tests/quality/statements.md` names the training sentences.
"""

import lzma
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import accumulate
from operator import itemgetter
from typing import Final, NamedTuple
from zlib import crc32

from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.languages import of_all
from hmx_pipeline.languages.cues import WIDE

LONGEST: Final = 400
"""Most characters read."""
BUCKETS: Final = 1 << 18
_ZERO: Final = 128
_ENDS: Final = " .。"
"""Final characters without meaning: a full stop says nothing."""
_MANY: Final = 60
"""Most words read."""
_STEM: Final = 5
_KINDS: Final = (
    "modal", "negation", "prefer", "when", "scope", "verb", "once", "states", "deny", "always", "unsure",
)  # fmt: skip
"""Kinds of cues."""
_OPENING: Final = 4
"""Number of words that count as the opening."""
_CODE: Final = re.compile(
    r"`[^`]*`|\"[^\"]*\"|„[^“”]*[“”]|“[^”]*”|«[^»]*»|「[^」]*」|『[^』]*』|(?<!\w)'[^']*'(?!\w)|\S*\w[/_.:@=]+[\w/]\S*|\S+/(?=\s|$)|--?\w[\w-]*"
)
_CODE_MARKS: Final = frozenset("`\"„“«「『'/_.:@=-")
"""Whatever `_CODE` matches holds one of these."""
_NAMED: Final = " \x01 "
"""Stands for code, quotes, paths and the like, whose names say nothing."""
_TOKEN: Final = re.compile(r"[぀-ヿ㐀-鿿々ー]+|[^\W\d_]+(?:['’][^\W\d_]+)*|\d+|[^\w\s]|\x01")


class Scores(NamedTuple):
    rule: int
    fact: int


class _Cues(NamedTuple):
    phrases: Mapping[str, Sequence[tuple[tuple[str, ...], str]]]
    """First word → phrases that begin with it, and the kind of each."""
    pieces: re.Pattern[str]
    """Cues of languages that write no spaces."""
    kinds: Mapping[str, Sequence[str]]
    """Kinds of each piece."""


@remembered(MB)  # rules ask first, then facts
def scores(sentence: str) -> Scores:
    of_rules, of_facts = weights()
    own = buckets(sentence)
    raised, taken = len(own) * _ZERO, itemgetter(*own)  # any sentence has several
    return Scores(sum(taken(of_rules)) - raised, sum(taken(of_facts)) - raised)


def buckets(sentence: str) -> set[int]:
    return {hashed % BUCKETS for hashed in map(crc32, map(str.encode, _features(sentence)))}


def _features(sentence: str) -> list[str]:
    sentence = sentence[:LONGEST].rstrip(_ENDS)
    text = sentence if _CODE_MARKS.isdisjoint(sentence) else _CODE.sub(_NAMED, sentence)
    text = text.lower().replace("’", "'")
    tokens = _TOKEN.findall(text)[:_MANY]
    wide = [token for token in tokens if WIDE.match(token)] if WIDE.search(text) else []
    return ["all", f"long {min(len(tokens) // 4, 8)}", *_shape(sentence, tokens), *_cues(tokens, wide), *_pieces(wide),
            *_words(tokens, wide)]  # fmt: skip


def _shape(sentence: str, tokens: Sequence[str]) -> Iterator[str]:
    last = sentence.rstrip(" )\"'”»")[-1:]
    if last in "!?:！？":
        yield f"ends {last}"
    if "\x01" in tokens:
        yield "code"
        yield "code first" if tokens[0] == "\x01" else "code later"
    if sentence[:1].islower():
        yield "small"
    if any(len(word) > 2 for word in filter(str.isupper, sentence.split()[:_MANY])):
        yield "loud"


def _words(tokens: Sequence[str], wide: Sequence[str]) -> list[str]:
    before, found = "^", [f"t {' '.join(tokens[:3])}"]
    for said in tokens:
        if wide and said in wide:
            before = "~"
            continue
        token = "0" if said.isdecimal() else said
        found += (f"w {token}", f"p {before} {token}")
        if len(token) > _STEM:
            found.append(f"s {token[:_STEM]}")
        before = token
    found.append(f"p {before} $")
    if tokens and tokens[0] not in wide:
        first = "0" if tokens[0].isdecimal() else tokens[0]
        found += (f"f {first[-2:]}", f"f {first[-3:]}")
    found += [f"g {one} {other}" for one, other in zip(tokens, tokens[2:], strict=False)]
    return found


def _pieces(runs: Sequence[str]) -> Iterator[str]:
    for run in runs:
        for size in (1, 2, 3):
            for at in range(len(run) - size + 1):
                yield f"c {run[at : at + size]}"
    if not runs:
        return
    for size in (1, 2, 3, 4, 5, 6):
        yield f"e {runs[-1][-size:]}"
    for size in (1, 2, 3):
        yield f"b {runs[0][:size]}"


def _cues(tokens: Sequence[str], wide: Sequence[str]) -> list[str]:
    """Return the kinds of cues, their positions, and which occur together."""
    often = dict[str, int]()
    places: list[set[str]] = [set() for _ in range(_OPENING)]
    for place, kind in _found(tokens, wide):
        often[kind] = often.get(kind, 0) + 1
        if place < _OPENING:
            places[place].add(kind)
    kinds, found = sorted(often), list[str]()
    for at, kind in enumerate(kinds):
        found += (f"k {kind}", f"n {kind} {min(often[kind], 4)}", f"x {tokens[0]} {kind}")
        found += [f"k {kind} {other}" for other in kinds[at + 1 :]]
    opening = [sorted(place) or ["-"] for place in places]
    those = list(accumulate(map("+".join, opening), "{} {}".format))
    found += [f"q {each}" for each in those[1:]]
    for kind in opening[0]:
        found += (f"first {kind}", f"first {kind} {min(len(tokens) // 4, 5)}")
        found.append(f"first {kind} {'code' if _NAMED.strip(' ') in tokens else 'plain'}")
        found += [f"first {kind} {other}" for other in kinds]
    found += [f"second {kind}" for kind in opening[1]]
    return found


def _found(tokens: Sequence[str], wide: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the position and kind of each cue."""
    known = _known()
    for place, token in enumerate(tokens):
        if wide and token in wide:
            yield from ((place, kind) for piece in known.pieces.findall(token) for kind in known.kinds[piece])
        for phrase, kind in known.phrases.get(token, ()):
            if tuple(tokens[place : place + len(phrase)]) == phrase:
                yield place, kind


@cache
def _known() -> _Cues:
    pieces: dict[str, set[str]] = {}
    listed: dict[str, dict[tuple[str, ...], set[str]]] = {}
    for table in of_all("rules").values():
        for kind in _KINDS:
            for cue in table.get(kind, "").split():
                if WIDE.match(cue):
                    pieces.setdefault(cue, set()).add(kind)
                    continue
                phrase = tuple(_TOKEN.findall(cue.lower().replace("_", " ")))
                listed.setdefault(phrase[0], {}).setdefault(phrase, set()).add(kind)
    by_first = {
        first: [(phrase, kind) for phrase, kinds in sorted(those.items()) for kind in sorted(kinds)]
        for first, those in listed.items()
    }
    ordered = sorted(pieces, key=lambda piece: (-len(piece), piece))
    return _Cues(
        by_first,
        re.compile("|".join(map(re.escape, ordered)) or r"(?!)"),
        {piece: sorted(kinds) for piece, kinds in pieces.items()},
    )


@cache
def weights() -> tuple[bytes, bytes]:
    """Return the weights of each bucket, plus _ZERO. As bytes they stay in the processor's caches."""
    table = lzma.decompress(files(__package__).joinpath("classifier.xz").read_bytes())
    raised = table.translate(bytes((byte + _ZERO) % 256 for byte in range(256)))
    return raised[:BUCKETS], raised[BUCKETS:]
