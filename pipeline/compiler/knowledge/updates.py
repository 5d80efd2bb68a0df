"""What a message says to have changed. In: its text. Out: updates, with what was and what is, as far as it says.
Nothing fails.

The forms of each language are data (`[updates]`): `<s>` moved from `<old>` to `<new>`. A form that knows the old value ends it
wherever it stands; one that knows the thing alone ends what is said of it in the same respect.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from pipeline.compiler.knowledge.clauses import sentences
from pipeline.compiler.knowledge.words import ANYTHING, VAGUE
from pipeline.contracts.limits import MB
from pipeline.contracts.remembered import remembered
from pipeline.languages import of_all
from pipeline.languages.detect import language_of
from pipeline.languages.form import Form, forms

VALUE: Final = "value"
PLACE: Final = "place"
NAME: Final = "name"
VERSION: Final = "version"
DEED: Final = "deed"
_KINDS: Final = (VALUE, PLACE, NAME, VERSION, DEED)
_WORDS: Final = 5
_CHARACTERS: Final = 60
_EDGES: Final = " \t`'\"«»„“”「」『』.,;:!?。、！？()"
_NEVER: Final = re.compile(r"(?!)")


class Update(NamedTuple):
    how: str
    subject: str
    """As it was said; empty where it names nobody and nothing."""
    old: str
    new: str
    ours: bool
    """The subject is who speaks, with others."""
    mine: bool
    """Who speaks alone."""
    loose: bool
    """It names no subject: whoever speaks may mean what is shared or their own."""


class _Pack(NamedTuple):
    forms: tuple[tuple[str, Form], ...]
    fillers: re.Pattern[str]
    ends: re.Pattern[str]
    articles: re.Pattern[str]
    ours: frozenset[str]
    mine: frozenset[str]
    leads: re.Pattern[str]
    markers: re.Pattern[str]
    beside: re.Pattern[str]


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE) if text else _NEVER


def _pack(table: Mapping[str, Any]) -> _Pack:
    named = table.get("named", {})
    return _Pack(
        tuple((kind, one) for kind in _KINDS for one in forms(table.get(kind, ()), named)),
        _pattern(table.get("fillers", "")),
        _pattern(table.get("ends", "")),
        _pattern(table.get("articles", "")),
        frozenset(table.get("ours", ())),
        frozenset(table.get("mine", ())),
        _pattern(table.get("leads", "")),
        _pattern(table.get("markers", "")),
        _pattern(table.get("beside", "")),
    )


_PACKS: Final = {code: _pack(table) for code, table in of_all("updates").items()}


@remembered(4 * MB)
def updates(text: str) -> tuple[Update, ...]:
    pack = _PACKS[language_of(text)]
    found: list[Update] = []
    for said in sentences(text):
        found += _read(pack, said)
    return tuple(dict.fromkeys(found))


def says_changed(said: str, language: str = "en") -> bool:
    """Does a sentence say that it was otherwise before, and not that it holds beside what held?"""
    pack = _PACKS[language]
    return pack.markers.search(said) is not None and pack.beside.search(said) is None


def _read(pack: _Pack, said: str) -> Iterator[Update]:
    plain = pack.fillers.sub("", pack.leads.sub("", said.strip(_EDGES), count=1))
    for kind, one in pack.forms:
        holes = one.read(plain)
        if holes is not None and (update := _update(pack, kind, holes)) is not None:
            yield update
            return


def _update(pack: _Pack, how: str, holes: Mapping[str, str]) -> Update | None:
    old, new = (_trimmed(pack, holes.get(hole, "")) for hole in ("old", "new"))
    said = holes.get("s", "")
    last = said.lower().split()[-1:] or [""]
    ours, mine = last[0] in pack.ours, last[0] in pack.mine
    subject = "" if ours or mine else _trimmed(pack, said)
    if ("old" in holes and not old) or (said and not (ours or mine or subject)):
        return None
    if "old" not in holes and not new:
        return None
    return Update(how, subject, old, new, ours, mine, not said)


def _trimmed(pack: _Pack, said: str) -> str:
    """Without what it begins and trails off with; empty where it could be anything, or is no name of something."""
    found = pack.ends.search(said)
    kept = said[: found.start()] if found is not None else said
    kept = pack.articles.sub("", kept.strip(_EDGES), count=1).strip(_EDGES)
    words = kept.lower().split()
    if not words or len(words) > _WORDS or len(kept) > _CHARACTERS:
        return ""
    return "" if {words[0], words[-1]} & (ANYTHING | VAGUE) else kept
