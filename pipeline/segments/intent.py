"""What a user wants. In: the goal's text. Out: intent classes, an immutable key made of them, and words for a
title.

Mask → verbs of two words → stop words → Snowball stems → lexicon. The key of a segment is the sorted set of the
classes in its first two user messages, so that the same wish in other words and another order has the same key.
Nothing fails.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import Stemmer

from pipeline.contracts.event_types import Role
from pipeline.contracts.evidence import Step
from pipeline.contracts.limits import MB
from pipeline.contracts.remembered import remembered
from pipeline.segments.lexicon import (
    CHOOSING,
    LEXICON_VERSION,
    LIGHT_VERBS,
    OBJECTS,
    PHRASES,
    STOP_WORDS,
    VERBS,
    WEAK,
)
from pipeline.segments.masking import mask, shorten

GOAL_TURNS: Final = 2
_GOAL_WORDS: Final = 60
_CLASSES: Final = 3
_QUESTION_WORDS: Final = 16
_OPTION: Final = 80
_REACH: Final = 4  # content words between a light verb and its object

_stemmer = Stemmer.Stemmer("english", 0)
_TOKEN: Final = re.compile(r"[a-z][a-z'-]*[a-z]|[a-z]")
_WRITTEN: Final = re.compile(r"[^\W\d_]\w+")
_OPTION_WORD: Final = re.compile(r"\w+(?:[-.']\w+)*")
_PHRASE: Final = re.compile(r"\b(" + "|".join(sorted(PHRASES, key=lambda p: (-len(p), p))) + r")\b")
_FIRST: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_GREETING: Final = re.compile(
    r"^(?:(?:hi|hello|hey|good (?:morning|afternoon|evening)|please)\b[\s,!.]*|there[,!.]+\s*)+", re.IGNORECASE
)


@remembered(MB)
def stem(word: str) -> str:
    return str(_stemmer.stemWord(word))


def _classes(table: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {stem(word): name for name, words in table for word in words.split()}


_STRONG: Final = _classes(VERBS.items())
_LIGHT: Final = _classes(LIGHT_VERBS.items())
_WEAK: Final = _classes(WEAK.items())
_OBJECT: Final = _classes(OBJECTS.items())
_CLASS_OF: Final = {**_OBJECT, **_LIGHT, **_STRONG}
_NOUNS: Final = frozenset(  # what Snowball takes for a verb: a reservation is no wish to reserve
    form for words in OBJECTS.values() for word in words.split() if stem(word) in _STRONG for form in (word, f"{word}s")
)


def verb_class(word: str) -> str:
    """What kind of wish the word speaks of; empty where of none."""
    stemmed = stem(word)
    return _STRONG.get(stemmed) or _LIGHT.get(stemmed, "")


class Intent(NamedTuple):
    """`classes` in order of appearance; `phrases[i]` is the surface that said `classes[i]`, such as `cancel order`."""

    classes: tuple[str, ...]
    phrases: tuple[str, ...]


def content_words(text: str) -> list[str]:
    """Words of a text that carry meaning, in order, unstemmed; verbs of two words as one."""
    lowered = _PHRASE.sub(lambda found: PHRASES[found[1]], re.sub(r"<\w+>", " ", mask(text)).lower())
    return [word for word in _TOKEN.findall(lowered) if word not in STOP_WORDS and "'" not in word]


def plain_stems(text: str) -> list[str]:
    """Stems of a text's words but stop words, in order. Cheaper than `content_words`: nothing is masked, so what stands
    around the digits of an id counts as a word."""
    return [stemmed for stemmed in map(_plain_stem, _TOKEN.findall(text.lower())) if stemmed]


def plain_words(text: str) -> list[str]:
    """Its words but stop words and numbers, in order and as they are written."""
    return [word for word in _WRITTEN.findall(text) if word.lower() not in STOP_WORDS]


@remembered(4 * MB)
def _plain_stem(word: str) -> str:
    """Empty where the word carries no meaning."""
    return "" if word in STOP_WORDS or "'" in word else stem(word)


@remembered(MB)
def intent(text: str) -> Intent:
    """The classes that a message's first words name: strong ones and light verbs with their object, else weak ones."""
    words = content_words(text)[:_GOAL_WORDS]
    stems = [stem(word) for word in words]
    found: dict[str, str] = {}
    for i, stemmed in enumerate(stems):
        if stemmed in _STRONG and words[i] not in _NOUNS:
            found.setdefault(_STRONG[stemmed], _surface(_STRONG[stemmed], _object(words, stems, i)))
        elif stemmed in _LIGHT:
            about = _object(words, stems, i)
            if about:
                found.setdefault(f"{_LIGHT[stemmed]}.{_OBJECT[stem(about)]}", _surface(_LIGHT[stemmed], about))
    for table in (_LIGHT, _WEAK):
        if not found:
            for i, stemmed in enumerate(stems):
                if stemmed in table:
                    found.setdefault(table[stemmed], _surface(table[stemmed], _object(words, stems, i)))
    kept = list(found.items())[:_CLASSES]
    return Intent(tuple(name for name, _ in kept), tuple(phrase for _, phrase in kept))


def _object(words: Sequence[str], stems: Sequence[str], at: int) -> str:
    """The first word after a verb that the lexicon knows as an object, else one before it; empty where there is
    none."""
    after = range(at + 1, min(at + 1 + _REACH, len(stems)))
    before = range(at - 1, max(at - 3, -1), -1)
    return next((words[i] for i in (*after, *before) if stems[i] in _OBJECT), "")


def _surface(verb: str, about: str) -> str:
    return f"{verb} {about}".strip()


def goal_messages(steps: Iterable[Step]) -> list[Step]:
    """The first user messages of a segment: what its intent is read from."""
    said: list[Step] = []
    for step in steps:
        if step.role is Role.MESSAGE and step.actor == "user":
            said.append(step)
            if len(said) == GOAL_TURNS:
                break
    return said


def goal_intent(messages: Sequence[Step]) -> Intent:
    """Classes of all goal messages; a later message adds none that the first, if it says anything, could already
    weakly say."""
    found: dict[str, str] = {}
    for message in messages:
        said = intent(message.text)
        for name, phrase in zip(said.classes, said.phrases, strict=True):
            if not (found and name in WEAK):
                found.setdefault(name, phrase)
    kept = list(found.items())[:_CLASSES]
    return Intent(tuple(name for name, _ in kept), tuple(phrase for _, phrase in kept))


def intent_key(classes: Iterable[str], messages: Sequence[Step]) -> str:
    """Immutable: the lexicon's version and the sorted classes; of a goal without any, its first two content stems.
    Empty where the goal says nothing."""
    names = sorted(set(classes))
    if not names and messages:
        names = [stem(word) for word in content_words(messages[0].text)[:2]]
    return f"{LEXICON_VERSION}:{'+'.join(names)}" if names else ""


def question_key(question: str) -> str:
    """Immutable: the lexicon's version and the sorted stems of all that the question says, lexicon words by their
    class, so that it has the same key in another order. Empty where it says nothing."""
    words = [word for word in content_words(question) if word not in CHOOSING][:_QUESTION_WORDS]
    names = sorted({_CLASS_OF.get(stemmed, stemmed) for stemmed in map(stem, words)})
    return f"{LEXICON_VERSION}:{'+'.join(names)}" if names else ""


def option_key(option: str) -> str:
    """What two ways to write one option have in common; numbers stay, they tell options apart."""
    words = _OPTION_WORD.findall(option[:_OPTION].casefold())
    bare = next((i for i, word in enumerate(words) if word not in CHOOSING and word not in ("a", "an", "the")), 0)
    return " ".join(words[bare:])


def goal_title(messages: Sequence[Step], limit: int = 80) -> str:
    """The first sentence of the first goal message, without its greeting; empty where it holds something masked."""
    if not messages:
        return ""
    sentences = (_GREETING.sub("", part).strip(" .!") for part in _FIRST.split(messages[0].text.strip()))
    first = next((part for part in sentences if len(part.split()) > 1), "")
    if "<" in mask(first):
        return ""
    return shorten(" ".join(first.split()), limit)
