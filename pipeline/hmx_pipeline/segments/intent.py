"""Intent of a user message: intent classes, a stable intent key, and a title.

Input: a user's message, or a segment's steps. Output: at most three classes (`cancel`, `modify.order`), and their key
with the lexicon's version. Questions and options of decisions get keys too; all rooms stem words here (`stem`). A text
is masked, two-word verbs are joined, stop words dropped, words stemmed (Snowball) and looked up in the lexicon. A
segment's key is the sorted set of the classes in its first two user messages, so the same wish in other words has the
same key.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import Stemmer

from hmx_pipeline.contracts.bounded_cache import once, remembered
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Step
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.segments.lexicon import (
    CHOOSING,
    LEXICON_VERSION,
    LIGHT_VERBS,
    OBJECTS,
    PHRASES,
    STOP_WORDS,
    VERBS,
    WEAK,
)
from hmx_pipeline.segments.masking import mask, shorten

_MESSAGE = Role.MESSAGE  # enum lookups are ten times slower
GOAL_TURNS: Final = 2
_GOAL_WORDS: Final = 60
_CLASSES: Final = 3
_QUESTION_WORDS: Final = 16
_OPTION: Final = 80
_KEPT: Final = 16_384
"""Words whose stems are kept: 6 MB at most."""
_KEPT_LENGTH: Final = 40
_REACH: Final = 4  # content words between a light verb and its object

_stemmer = Stemmer.Stemmer("english", 0)
_TOKEN: Final = re.compile(r"[a-z][a-z'-]*[a-z]|[a-z]")
_APART: Final = {code: chr(code) if chr(code) in "abcdefghijklmnopqrstuvwxyz'-" else " " for code in range(128)}
"""Splits ASCII as `_TOKEN` does, but for marks around a word, four times faster."""
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
_NOUNS: Final = frozenset(  # Snowball stems these like verbs: a reservation is no wish to reserve
    form for words in OBJECTS.values() for word in words.split() if stem(word) in _STRONG for form in (word, f"{word}s")
)


class Intent(NamedTuple):
    """Intent classes in order of appearance; `phrases[i]` names `classes[i]` in words, such as `cancel order`."""

    classes: tuple[str, ...]
    phrases: tuple[str, ...]


@remembered(MB)
def content_words(text: str) -> tuple[str, ...]:
    """Return the words that carry meaning, in order and unstemmed; two-word verbs are joined."""
    lowered = _PHRASE.sub(lambda found: PHRASES[found[1]], re.sub(r"<\w+>", " ", mask(text)).lower())
    return tuple(word for word in _TOKEN.findall(lowered) if word not in STOP_WORDS and "'" not in word)


def plain_stems(text: str) -> list[str]:
    """Return stems without stop words, in order. Cheaper than `content_words`: nothing is masked, so letters next to
    the digits of an id count as a word."""
    low = text.lower()
    words = low.translate(_APART).split() if low.isascii() else _TOKEN.findall(low)
    return list(filter(None, map(_STEM_OF.__getitem__, words)))


def plain_words(text: str) -> list[str]:
    """Return words without stop words and numbers, as written and in order."""
    return [word for word in _WRITTEN.findall(text) if word.lower() not in STOP_WORDS]


class _Stems(dict[str, str]):
    """The stem of a word, or "" for a stop word. To look up a known word calls no function."""

    def __missing__(self, word: str) -> str:
        bare = word.strip("'-")
        found = "" if bare in STOP_WORDS or "'" in bare else stem(bare)
        if len(word) <= _KEPT_LENGTH:
            if len(self) >= _KEPT:
                self.clear()
            self[word] = found
        return found


_STEM_OF: Final = _Stems()


@remembered(MB)
def intent(text: str) -> Intent:
    """Return the intent classes of a message's first words: strong verbs, and light verbs with an object; else weak
    ones."""
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
    """Return the first object word after the verb, else one before it, else ""."""
    after = range(at + 1, min(at + 1 + _REACH, len(stems)))
    before = range(at - 1, max(at - 3, -1), -1)
    return next((words[i] for i in (*after, *before) if stems[i] in _OBJECT), "")


def _surface(verb: str, about: str) -> str:
    return f"{verb} {about}".strip()


@once  # several kinds of evidence ask
def goal_messages(steps: Iterable[Step]) -> list[Step]:
    """Return the first user messages of a segment, which its intent is read from."""
    said: list[Step] = []
    for step in steps:
        if step.role is _MESSAGE and step.actor == "user":
            said.append(step)
            if len(said) == GOAL_TURNS:
                break
    return said


def goal_intent(messages: Sequence[Step]) -> Intent:
    """Return the classes of all goal messages. Weak classes of a later message count only if nothing was
    found before."""
    found: dict[str, str] = {}
    for message in messages:
        said = intent(message.text)
        for name, phrase in zip(said.classes, said.phrases, strict=True):
            if not (found and name in WEAK):
                found.setdefault(name, phrase)
    kept = list(found.items())[:_CLASSES]
    return Intent(tuple(name for name, _ in kept), tuple(phrase for _, phrase in kept))


def intent_key(classes: Iterable[str], messages: Sequence[Step]) -> str:
    """Return the lexicon version and the sorted classes, or the first two content stems if there are none. Empty if the
    goal has no content. Stored keys depend on this form, so it must not change."""
    names = sorted(set(classes))
    if not names and messages:
        names = [stem(word) for word in content_words(messages[0].text)[:2]]
    return f"{LEXICON_VERSION}:{'+'.join(names)}" if names else ""


def question_key(question: str) -> str:
    """Return the lexicon version and the sorted stems of a question, so word order does not matter; lexicon words count
    by class. Empty if it has no content. Stored keys depend on this form, so it must not change."""
    words = [word for word in content_words(question) if word not in CHOOSING][:_QUESTION_WORDS]
    names = sorted({_CLASS_OF.get(stemmed, stemmed) for stemmed in map(stem, words)})
    return f"{LEXICON_VERSION}:{'+'.join(names)}" if names else ""


def option_key(option: str) -> str:
    """Normalise an option, so that two spellings of it are equal. Numbers stay, because they tell options apart."""
    words = _OPTION_WORD.findall(option[:_OPTION].casefold())
    bare = next((i for i, word in enumerate(words) if word not in CHOOSING and word not in ("a", "an", "the")), 0)
    return " ".join(words[bare:])


@remembered(MB)
def first_wish(text: str) -> str:
    """Return the first sentence without its greeting; empty if it is all greeting."""
    sentences = (_GREETING.sub("", part).strip(" .!") for part in _FIRST.split(text.strip()))
    return next((part for part in sentences if len(part.split()) > 1), "")


def goal_title(messages: Sequence[Step], limit: int = 80) -> str:
    """Return the first sentence of the first goal message without its greeting; empty if it contains an id."""
    first = first_wish(messages[0].text) if messages else ""
    return "" if "<" in mask(first) else shorten(" ".join(first.split()), limit)
