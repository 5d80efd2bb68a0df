"""Updates in a message: what it says has changed, with the old and new value if named.

Input: a message in any of the languages. Output: its updates: kind, subject, old and new value, each empty if not
named. Each language's forms are data (`[updates]`): `<s>` moved from `<old>` to `<new>`. A form that names the old
value ends it wherever it stands. One that names only the thing ends its values for the same predicate.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple

from hmx_pipeline.compiler.knowledge.language import DEED, LEAVE, NAME, PLACE, TONGUES, VALUE, Language
from hmx_pipeline.compiler.knowledge.normal_forms import of_value
from hmx_pipeline.compiler.knowledge.plain_statements import sentences
from hmx_pipeline.compiler.knowledge.word_lists import ANYTHING, VAGUE
from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.intake.scan import finder
from hmx_pipeline.languages.detect import language_of

_WORDS: Final = 5
_DEED_WORDS: Final = 10
_CHARACTERS: Final = 60
_EDGES: Final = " \t`'\"«»„“”「」『』.,;:!?。、！？()"
_CLAUSES: Final = frozenset(",;、，；")


class Update(NamedTuple):
    how: str
    subject: str
    """The subject as it was said; empty if none is named."""
    old: str
    new: str
    ours: bool
    """True if the subject is the speaker's group."""
    mine: bool
    """True if the subject is the speaker alone."""


@remembered(4 * MB)
def updates(text: str) -> tuple[Update, ...]:
    tongue = TONGUES[language_of(text)]
    found = (update for said in sentences(text, tongue=tongue) for update in read(tongue, said))
    return tuple(dict.fromkeys(found))


def says_changed(said: str, tongue: Language) -> bool:
    """Return True if a sentence announces a change, and not an addition."""
    return tongue.says["markers"].search(said) is not None and tongue.says["beside"].search(said) is None


def read(tongue: Language, said: str) -> Iterator[Update]:
    """Yield the updates of a sentence."""
    untrue = tongue.says["untrue"].match(said)
    if untrue is None and tongue.says["unreal"].search(said) is None:
        yield from _changed(tongue, said)
    elif untrue is not None and not any(_changed(tongue, said[untrue.end() :])):
        yield from _denied(tongue, said[untrue.end() :].strip(_EDGES))


def _changed(tongue: Language, said: str) -> Iterator[Update]:
    plain = tongue.without("fillers", tongue.led(said.strip(_EDGES)))
    if plain.isascii() and not _shape(tongue.code)(plain):
        return
    for kind, one in tongue.updates:
        holes = one.read(plain)
        if holes is None or _runs_on(tongue, plain, holes.get("old", "")):
            continue
        if (update := _update(tongue, kind, holes)) is not None:
            yield update
            return


@cache
def _shape(code: str) -> Callable[[str], bool]:
    """Return what says of an ASCII sentence whether any form of the language may fit, in a tenth of the time."""
    return finder(*(one.shape for _, one in TONGUES[code].updates), strict=True)


def _runs_on(tongue: Language, said: str, old: str) -> bool:
    """Return True if the old value begins in another clause than it ends, as in `it is new now, the old one is gone`. A
    list, or an apposition, says nothing of a change."""
    return not said.endswith(old) and not _CLAUSES.isdisjoint(old) and tongue.says["markers"].search(old) is not None


def _denied(tongue: Language, said: str) -> Iterator[Update]:
    """Yield an update for each name that the sentence denies."""
    words = said.lower().split()
    ours, mine = not tongue.ours.isdisjoint(words), not tongue.mine.isdisjoint(words)
    for value in of_value(said)[1:]:
        yield Update(VALUE, "" if ours or mine else said, value, "", ours, mine)


def _update(tongue: Language, how: str, holes: Mapping[str, str]) -> Update | None:
    if how in (DEED, LEAVE):
        deed = holes["old"].strip(_EDGES)
        return Update(how, "", deed, "", False, False) if deed and len(deed.split()) <= _DEED_WORDS else None
    old, new = named(tongue, holes.get("old", "")), named(tongue, holes.get("new", ""), ANYTHING)
    said = holes.get("s", "")
    last = said.lower().replace("'", " ").split()[-1:] or [""]
    ours, mine = last[0] in tongue.ours, last[0] in tongue.mine
    subject = "" if ours or mine else named(tongue, said)
    if said and (last[0] == "not" or not (ours or mine or subject)):
        return None  # `do not use mocks any more` is about what is done
    if how in (PLACE, NAME) and not subject:
        return None
    if not (old if "old" in holes else new):
        return None
    return Update(how, subject, old, new, ours, mine)


def named(tongue: Language, said: str, nothing: frozenset[str] = ANYTHING | VAGUE) -> str:
    """Return the name without article and trailing phrases; empty if it could be anything, or is no name."""
    found = tongue.says["ends"].search(said)
    kept = said[: found.start()] if found is not None else said
    kept = tongue.says["articles"].sub("", kept.strip(_EDGES), count=1).strip(_EDGES)
    words = kept.lower().split()
    if not words or len(words) > _WORDS or len(kept) > _CHARACTERS:
        return ""
    return "" if {words[0], words[-1]} & nothing else kept
