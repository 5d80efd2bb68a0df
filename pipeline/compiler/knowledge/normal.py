"""Normal forms of what is said: two texts of one form are about the same. In: texts as they were said. Out: forms.
Nothing fails.

English words are stemmed; what is written without blanks stays as it is.
"""

import re
from typing import Final

from pipeline.contracts.limits import KNOWLEDGE_TOUCHES
from pipeline.segments.intent import stem
from pipeline.segments.lexicon import word_set

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
"""The words of a text that may be written without blanks."""


def stems(text: str) -> str:
    return " ".join(_kept(text)) or text.lower().strip()


def _kept(text: str) -> list[str]:
    words = [word.strip(_EDGES) for word in text.lower().removesuffix("'s").replace("'s ", " ").split()]
    return [stem(word) for word in words if word and word not in _SMALL]


def words_of(text: str) -> frozenset[str]:
    return frozenset(_kept(text))


def words_within(text: str) -> frozenset[str]:
    """Those within identifiers as well."""
    return words_of(_WITHIN.sub(" ", text))


def thing(subject: str) -> str:
    """A tenant has one team: its database is `the`."""
    return stems(subject.removeprefix("team's "))


def of_thing(subject: str) -> str:
    return f"@ {thing(subject)}"


def of_slot(subject: str, predicate: str) -> str:
    """Of what may have several values at once: the thing and what is said of it."""
    return f"= {thing(subject)} | {stems(predicate)}"


def family(value: str) -> str:
    """Of `Postgres 16` what `Postgres 15` has as well; empty where it is no version of something."""
    match = _VERSIONED.fullmatch(value.strip(_EDGES))
    return f"~ {stem(match['name'].lower())}" if match is not None else ""


def of_value(value: str) -> list[str]:
    """The value, and each name in it."""
    words = _UNSPACED.findall(value) if not value.isascii() else value.split()
    named = [word for word in words if _NAMED.match(word)][:_NAMED_WORDS]
    return list(dict.fromkeys(stems(one) for one in (value, *named)))


def touches(subject: str, predicate: str, value: str, *, plural: bool) -> list[str]:
    """The keys under which endings can reach it."""
    found = [*of_value(value), of_thing(subject), thing(subject), family(value)]
    if plural:
        found.append(of_slot(subject, predicate))
    return list(dict.fromkeys(filter(None, found)))[:KNOWLEDGE_TOUCHES]
