"""Subjects and values of claims as words to show and to compare; empty if they could be anything.

Input: the subject or object of an English clause as it was said, and the speaker's name if the message gives it.
Output: a text such as `user`, `team's database` or `billing service`.
"""

import re
from typing import Final

from hmx_pipeline.compiler.knowledge import forms
from hmx_pipeline.compiler.knowledge.plain_statements import without_trail
from hmx_pipeline.compiler.knowledge.word_lists import ANYTHING, NO_SUBJECT, ORDINARY, VAGUE
from hmx_pipeline.segments.intent import stem

USER: Final = "user"
TEAM: Final = "team"
TEAMS: Final = frozenset(("we", "team", "the team", "our team", "the whole team", "my team", "whole team"))
_ORDINARY: Final = frozenset(stem(word) for word in ORDINARY)
_WITHIN: Final = frozenset(("for", "of", "in", "on", "at", "from", "with"))
"""Allowed within `the deadline for this`, but not within a bare name."""
_OBJECT_WORDS: Final = 7
_EMAIL: Final = re.compile(r"\be-?mail(?: address)?\b", re.IGNORECASE)
REDACTED: Final = "[REDACTED"


def subject_of(said: str, who: str) -> str:
    """Return the subject as shown; empty if it could be anything."""
    lowered = said.lower()
    if lowered == "i" or lowered in TEAMS:
        return named("I" if lowered == "i" else "we", who)
    determined = forms.DETERMINER.match(said) is not None or "'s " in said
    words, bare = lowered.split(), forms.DETERMINER.sub("", lowered).split()
    if (
        not bare
        or not words[0][0].isalpha()
        or not all(map(str.isalnum, (word[:1] for word in words)))
        or "," in said
        or ":" in said[:-1]
    ):
        return ""
    if set(bare) & (NO_SUBJECT - _WITHIN if determined else NO_SUBJECT) or {bare[0], bare[-1]} & (ANYTHING | VAGUE):
        return ""
    if not determined and not (forms.NAMED.match(said) if len(words) > 1 else _a_name(said)):
        return ""
    return named(said, who)


def _a_name(word: str) -> bool:
    """Return True for a word that is a name even without an article."""
    lowered = word.lower()
    return len(word) > 1 and not lowered.endswith(("ly", "ing")) and stem(lowered) not in _ORDINARY


def named(said: str, who: str) -> str:
    """Replace pronouns: `my sister` → `user's sister`, `our database` → `team's database`, `the billing service` →
    `billing service`."""
    said = _EMAIL.sub("email", said)
    lowered = said.lower()
    if lowered in ("i", "we"):
        return TEAM if lowered == "we" else who or USER
    if lowered.startswith("my "):
        return f"{who or USER}'s {said[3:]}"
    return f"{TEAM}'s {said[4:]}" if lowered.startswith("our ") else forms.DETERMINER.sub("", said)


def value_of(said: str) -> str:
    """Return the object without trailing phrases; empty unless that is short and plain."""
    kept = without_trail(forms.OBJECT_END.sub("", without_trail(said))).strip(" '\"")
    kept = re.sub(r"^(?:the|an?) (?=\S)", "", kept, flags=re.IGNORECASE)
    short = 0 < len(kept.split()) <= _OBJECT_WORDS
    return kept if short and re.search(r"\w", kept) and REDACTED not in kept else ""
