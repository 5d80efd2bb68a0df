"""Normal forms of names and values: texts with the same form are about the same thing.

Input: a subject, a predicate or a value. Output: stems without small words; `@` before them stands for a thing, `=` for
a thing and its predicate, `~` for all versions of a name. English words are stemmed; scripts without spaces stay as
they are.
"""

import re
from typing import Final

from hmx_pipeline.contracts.limits import KNOWLEDGE_TOUCHES
from hmx_pipeline.segments.intent import stem
from hmx_pipeline.segments.lexicon import word_set

_SMALL: Final = word_set(
    """
    the a an my our your its his her their to of in on at for and or please you we i is are be do
    """
)
_EDGES: Final = ".,:;!?()'\"`«»„“”「」『』。、"
_VERSIONED: Final = re.compile(r"(?P<name>[^\W\d][\w+#.-]*?)[ -]?v?(?P<number>\d[\w.]*)")
_WITHIN: Final = re.compile(r"[\W_]+")
_NAMED_WORDS: Final = 6
_NAMED: Final = re.compile(r"[^\W\d_]*[A-ZÄÖÜ0-9_/.@:#+-]|[ァ-ヴ一-鿿]")
_UNSPACED: Final = re.compile(r"[A-Za-z0-9_./@#+-]+|[ァ-ヴー]+|[一-鿿]{2,}|[^\W\d_]+")
"""Words of a text that may be written without spaces."""


def stems(text: str) -> str:
    return " ".join(_kept(text)) or text.lower().strip()


def _kept(text: str) -> list[str]:
    words = [word.strip(_EDGES) for word in text.lower().removesuffix("'s").replace("'s ", " ").split()]
    return [stem(word) for word in words if word and word not in _SMALL]


def words_of(text: str) -> frozenset[str]:
    return frozenset(_kept(text))


def words_within(text: str) -> frozenset[str]:
    """Return the stems, also of the words within identifiers."""
    return words_of(_WITHIN.sub(" ", text))


def thing(subject: str) -> str:
    """Return the normal form of a subject. A tenant has one team, so `team's database` equals `the database`."""
    return stems(subject.removeprefix("team's "))


def of_thing(subject: str) -> str:
    return f"@ {thing(subject)}"


def of_slot(subject: str, predicate: str) -> str:
    """Return the key of a thing and a predicate that may have several values at once."""
    return f"= {thing(subject)} | {stems(predicate)}"


def family(value: str) -> str:
    """Return the form that all versions of a thing share (`Postgres 16`, `Postgres 15`); empty if it is no version."""
    match = _VERSIONED.fullmatch(value.strip(_EDGES))
    return f"~ {stem(match['name'].lower())}" if match is not None else ""


def of_value(value: str) -> list[str]:
    """Return the forms of a value and of each name in it."""
    words = _UNSPACED.findall(value) if not value.isascii() else value.split()
    named = [word for word in words if _NAMED.match(word)][:_NAMED_WORDS]
    return list(dict.fromkeys(stems(one) for one in (value, *named)))


def touches(subject: str, predicate: str, value: str, *, plural: bool) -> list[str]:
    """Return the keys by which endings can reach a claim."""
    found = [*of_value(value), of_thing(subject), thing(subject), family(value)]
    if plural:
        found.append(of_slot(subject, predicate))
    return list(dict.fromkeys(filter(None, found)))[:KNOWLEDGE_TOUCHES]
