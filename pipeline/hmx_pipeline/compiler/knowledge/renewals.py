"""Renewals: a message says that something is otherwise now, in words of its own.

Input: a message, or what a statement says. Output: what finds an earlier statement about the same thing, and what holds
now. Either the message has a number, date or address of the same kind: `the Brandt hearing has been pushed back to
April 2` renews `the hearing in the Brandt matter is set for March 14`. Or it names who or what is gone: `Priya is on
leave, Edmund has taken over Holloway as partner` replaces `Priya Raman is the partner in the Holloway matter`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from hmx_pipeline.compiler.knowledge.language import TONGUES, Language
from hmx_pipeline.compiler.knowledge.normal_forms import of_value, words_within
from hmx_pipeline.compiler.knowledge.plain_statements import sentences
from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.languages import of_all
from hmx_pipeline.languages.detect import language_of
from hmx_pipeline.segments.masking import shorten

RENEWAL: Final = "renewal"
FAREWELL: Final = "farewell"
_TABLES: Final = of_all("language").values()
_MONTHS: Final = "|".join(sorted({month for table in _TABLES for month in table.get("months", "").split()}))
_DAYS: Final = "|".join(sorted({day for table in _TABLES for day in table.get("days", "").split()}))
_VALUE: Final = re.compile(
    rf"(?P<date>\b(?:{_MONTHS}) \d{{1,2}}\b|\b\d{{1,2}}\.? (?:de )?(?:{_MONTHS})\b)"
    rf"|(?P<weekday>\b(?:{_DAYS})s?\b)"
    r"|(?P<time>\b\d{1,2}[:h]\d\d(?: ?[ap]m\b)?|\b\d{1,2} ?(?:[ap]m|uhr|h)\b)"
    r"|(?P<phone>\b\d{2,4}(?:[ -]\d{2,4}){1,3}\b)"
    r"|(?P<dotted>\b(?:https?://)?[a-z_][\w-]*(?:\.[\w-]+)*\.[a-z]{2,8}\b(?:/\S*)?)"
    r"|(?P<number>[$€£]?\b\d+(?:[.,]\d+)*)",
    re.IGNORECASE,
)
_BESIDE: Final = re.compile(r"[^\W\d_]+|[°%][^\W\d_]?")
_DIGITS: Final = 3
"""Numbers of at least so many digits are alike if they have equally many."""
_SHORT: Final = 5
_SMALL: Final = frozenset(
    word
    for section, name in (("search", "stop_words"), ("language", "words"))
    for table in of_all(section).values()
    for word in table.get(name, "").split()
    if len(word) <= _SHORT or section == "search"
)
_EDGES: Final = ".,:;!?()\"'"
_NAME: Final = re.compile(r"(?<![.!?] )(?<!^)\b[A-Z][\w&'.-]*\w|\b[A-Z][\w&'-]*[A-Z\d]\w*")
_VALUES: Final = 8
_TEXT: Final = 200
LONGEST: Final = 300
"""Most characters of a message that may end something in words of its own; a longer one speaks of many things."""
_KEYS: Final = 4
_FEW: Final = 2


class KindedValue(NamedTuple):
    text: str
    kinds: frozenset[str]


@remembered(2 * MB)
def values_of(text: str) -> tuple[KindedValue, ...]:
    """Return the first values of a text, each once."""
    found: dict[str, frozenset[str]] = {}
    for match in _VALUE.finditer(text):
        found.setdefault(match[0], frozenset(_kinds(match, text)))
    return tuple(KindedValue(*one) for one in found.items())[:_VALUES]


def _kinds(match: re.Match[str], text: str) -> Iterator[str]:
    kind, value = match.lastgroup or "", match[0]
    if kind == "dotted":
        yield f".{value.partition('//')[2].partition('/')[0].rpartition('.')[2] or value.rpartition('.')[2]}".lower()
    elif kind != "number":
        yield kind
    else:
        before, after = text[: match.start()].split()[-1:], _BESIDE.match(text[match.end() :].lstrip())
        yield from (f"{word.lower()} #" for word in before if word.isalpha() and words_within(word))
        if after is not None and words_within(after[0]):
            yield f"# {after[0].lower()}"
        if value[0] in "$€£":
            yield value[0]
        elif len(value) >= _DIGITS and value.isdigit():
            yield f"#{len(value)}"


class Topic(NamedTuple):
    """What a statement is about: its words, and those of them that are names."""

    words: frozenset[str]
    names: frozenset[str]

    def is_in(self, said: Sequence[str]) -> bool:
        """Return True if all names and nearly all words are said."""
        shared, among = len(self.words.intersection(said)), len(self.words)
        enough = shared == among if among <= _FEW else 3 * shared >= 2 * among
        return among > 0 and enough and self.names.issubset(said)


def topic(subject: str, predicate: str, value: str, *, anybody: bool) -> Topic:
    """`anybody`: its subject is the speaker or the team, so that its other words say what it is about."""
    text = f"{predicate.removeprefix('states')} {value}" if anybody else subject.removeprefix("team's ")
    words = _said(text)
    return Topic(words, words & _said(" ".join(of_value(text)[1:])))


def keys(about: frozenset[str]) -> list[str]:
    return [f"# {word}" for word in sorted(about, key=lambda word: (-len(word), word))[:_KEYS]]


def renewals(text: str) -> tuple[Mapping[str, Any], ...]:
    """Return what the sentences say that announce a change: the words of each and of the one before, and the values."""
    tongue, found, before = TONGUES[language_of(text)], [], ""
    corrects = tongue.says["corrects"].search(text)
    for said in sentences(text, tongue=tongue):
        changes = corrects or tongue.says["markers"].search(said) or tongue.says["turns"].search(said)
        if changes is not None and not _is_unreal(tongue, said) and (values := values_of(said)):
            found.append(
                {
                    "about": sorted(_said(f"{before} {said}")),
                    "values": [[one.text, sorted(one.kinds)] for one in values],
                }
            )
        before = said
    return tuple(found)


def farewells(text: str) -> tuple[Mapping[str, Any], ...]:
    """Return of a message that says that something is gone: the names in it, its words, and itself."""
    tongue = TONGUES[language_of(text)]
    told = [*sentences(text, tongue=tongue)]
    cues = [tongue.says[name] for name in ("markers", "turns", "leaves")]
    ended = [said for said in told if any(cue.search(said) for cue in cues)]
    names = {name: None for said in ended for name in of_value(said)[1:]}
    if len(names) < _FEW or any(_is_unreal(tongue, said) for said in told):
        return ()
    whole = " ".join(told)
    return ({"about": sorted(_said(whole)), "names": [*names], "new": shorten(whole, _TEXT)},)


def _is_unreal(tongue: Language, said: str) -> bool:
    return any(tongue.says[name].search(said) is not None for name in ("unreal", "once"))


def is_replaced(text: str, instead: str) -> bool:
    """Return True if a message names somebody or something that a statement does not."""
    return any(words_within(name[0]).isdisjoint(words_within(text)) for name in _NAME.finditer(instead))


def _said(text: str) -> frozenset[str]:
    """Return the stems of words that say what a text is about."""
    words = (word for word in _VALUE.sub(" ", text).split() if word.strip(_EDGES).lower() not in _SMALL)
    return words_within(" ".join(words))


def renewed(value: str, values: Sequence[tuple[str, Sequence[str]]]) -> tuple[str, str]:
    """Return the value in a statement and what it is now; empty if it is not said, or could be several."""
    pairs = {
        (own.text, text)
        for own in values_of(value)
        for text, kinds in values
        if not own.kinds.isdisjoint(kinds) and text.lower() not in value.lower()
    }
    named = {text.lower() for text, _ in values}
    told = {(old, new) for old, new in pairs if old.lower() in named} or pairs
    return next(iter(told)) if len(told) == 1 else ("", "")
