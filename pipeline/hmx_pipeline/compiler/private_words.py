"""Words of a single subject, masked in the artifacts that its tenant shares.

Input: a finding and the contributions that it rests on. Output: the finding with `…` in place of the words of one
subject. A word of an artifact stays if contributions of two subjects have it, or one without a subject. Names of tools,
commands, options and slots stay, and so does what no contribution has: the wording of artifacts. Without subjects, and
in a team, nothing is masked.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from hmx_pipeline.compiler.evidence_kind import Finding
from hmx_pipeline.compiler.knowledge.word_lists import ANYTHING, BASE_FORMS, HANGING, NO_SUBJECT, ORDINARY, VAGUE
from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.segments.event_text import verb_in
from hmx_pipeline.segments.lexicon import CHOOSING, PLEASANTRIES, STOP_WORDS, word_set
from hmx_pipeline.segments.masking import sentence, shorten

FEWEST_SUBJECTS: Final = 2
"""Fewest subjects whose use makes something the tenant's."""
_MASK: Final = "…"
_TITLE: Final = 120
_WORD: Final = re.compile(r"[^\W_]+")
_FLAG: Final = re.compile(r"(?<!\S)--?([^\W\d_][\w-]*)")
_MASKS: Final = re.compile(rf"{_MASK}(?:[\s_-]*{_MASK})+")
_COUNT: Final = 4  # digits of a number that may be one of ours
_OURS: Final = (
    word_set(
        """
        seen times time session sessions recovered most reliable fails again right after wants want same comes back
        within worked still young done before try tries failed never chosen known choose decision without readable
        did work mostly becomes something passes followed otherwise step steps success successes run first went well
        phase phases task tasks kind ok yes no true false none null
        """
    )
    | ANYTHING
    | BASE_FORMS
    | CHOOSING
    | HANGING
    | NO_SUBJECT
    | ORDINARY
    | PLEASANTRIES
    | STOP_WORDS
    | VAGUE
)
"""Words that artifacts are worded in, or that say nothing of anybody."""
_VERBS: Final = ("verb", "verbs", "before", "after", "tries", "phases")
"""Fields of bodies with names of actions."""
_SHARED: Final = ("common", "named", "shared")
"""Fields with what two of the tenant's subjects have used."""
_SLOTS: Final = ("slots", "recovery_slots")
"""Fields of contents whose keys are names of slots."""


def of_several(found: Finding, contributions: Sequence[Contribution]) -> Finding:
    """Mask the words that contributions of one subject alone have."""
    if not any(c.subject for c in contributions):
        return found
    shown = {word.casefold() for text in _texts([found.title, found.summary, found.content, dict(found.checked)])
             for word in _WORD.findall(text)}  # fmt: skip
    names = _in(name for slots in _SLOTS for name in found.content.get(slots, ()))
    own = _of_one({word for word in shown - _OURS - names if not _plain(word)}, contributions)
    if not own:
        return found
    content, checked = _masked(found.content, own), _masked(dict(found.checked), own)
    if "goals" in content:
        content["goals"] = [goal for goal in content["goals"] if _MASK not in goal] or content["goals"]
    title, summary = (_hidden(text, own) for text in (found.title, found.summary))
    if _MASK in title and content.get("goals"):
        title = sentence(shorten(content["goals"][0], _TITLE))
    return replace(found, title=title, summary=summary, content=content, checked=checked)


def of_a_team(contributions: Sequence[Contribution]) -> list[Contribution]:
    """Return them as nobody's in particular: a team shares its words. Whose a value is stays in their bodies."""
    return [c.model_copy(update={"subject": ""}) if c.subject else c for c in contributions]


def only_subject(contributions: Sequence[Contribution]) -> str:
    """Return the subject whose all of them are; empty if there are several, or one without a subject."""
    subjects = {c.subject for c in contributions}
    return subjects.pop() if len(subjects) == 1 else ""


def several(contributions: Sequence[Contribution], tag: str) -> bool:
    """Return True if a tag is not a single subject's."""
    subjects = {c.subject for c in contributions if tag in c.tags or tag in c.lineage_tags}
    return "" in subjects or len(subjects) >= FEWEST_SUBJECTS


def _plain(word: str) -> bool:
    return len(word) == 1 or (word.isdigit() and len(word) <= _COUNT)


def _of_one(words: set[str], contributions: Sequence[Contribution]) -> frozenset[str]:
    by: dict[str, str] = {}
    for c in contributions:
        said, names = _words(c)
        words -= names
        for word in words & said:
            if not c.subject or by.setdefault(word, c.subject) != c.subject:
                words.discard(word)
    return frozenset(words & by.keys())


def said_words(c: Contribution) -> frozenset[str]:
    return _words(c)[0]


def shared_words(contributions: Sequence[Contribution]) -> set[str]:
    """Return the words that contributions of two subjects have, or one without a subject."""
    by: dict[str, str] = {}
    shared: set[str] = set()
    for c in contributions:
        for word in said_words(c) - shared:
            if not c.subject or by.setdefault(word, c.subject) != c.subject:
                shared.add(word)
    return shared


@remembered(32 * MB)
def _words(c: Contribution) -> tuple[frozenset[str], frozenset[str]]:
    """Return the words of a contribution, and those that are names."""
    names = [*_names(c.body), *(value for field in _SHARED for value in c.body.get(field, ()))]
    return _in(_texts(c.body.values())), _in(names)


def _in(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(word.casefold() for text in texts for word in _WORD.findall(text))


def _names(body: Mapping[str, Any]) -> Iterator[str]:
    for field in _VERBS:
        yield from _texts(body.get(field, ()))
    for line, name, arguments, *_ in body.get("acts", ()):
        yield from (name, *line.split(maxsplit=1)[:1], *_FLAG.findall(line), *(key for key, _ in arguments))
    yield from (verb_in(text) for text in _texts(body.get("times", ())) if "\t" in text)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from value
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, Iterable):
        for inner in value:
            yield from _texts(inner)


def _masked(value: Any, own: frozenset[str]) -> Any:
    if isinstance(value, str):
        return _hidden(value, own)
    if isinstance(value, Mapping):
        return {_hidden(key, own): _masked(inner, own) for key, inner in value.items()}
    return [_masked(inner, own) for inner in value] if isinstance(value, list | tuple) else value


def _hidden(text: str, own: frozenset[str]) -> str:
    return _MASKS.sub(_MASK, _WORD.sub(lambda word: _MASK if word[0].casefold() in own else word[0], text))
