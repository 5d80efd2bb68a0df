"""Standing instructions: sentences that say what a user wants always or never done.

Input: a sentence. Output: a policy or None. The classifier decides which sentences are rules, with a lower threshold in
a list that declares rules. Questions, suppositions and reports are no rules. Nor are orders for one case (`do not do
that yet`), or orders that refer to something outside the sentence (`always do it like this`), which a later reader
could not follow. Sentences with always, never or when are parsed exactly, so that equal rules get equal keys.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from hmx_pipeline.compiler.knowledge.classifier import scores
from hmx_pipeline.compiler.knowledge.forms import ALWAYS, EVERY_TIME, FROM_NOW, NEVER, POINTING, clause_form
from hmx_pipeline.compiler.knowledge.plain_statements import plainly, spoken, stated, without_trail
from hmx_pipeline.compiler.knowledge.word_lists import ASKING, BASE_FORMS, BOUND, NO_VERB
from hmx_pipeline.intake.scan import Prefiltered
from hmx_pipeline.languages.cues import WIDE, cue
from hmx_pipeline.segments.lexicon import word_set
from hmx_pipeline.segments.masking import sentence as with_capital

RULED: Final = -17
"""Rule score from which a sentence is a rule."""
LISTED: Final = -70
"""The same for a sentence in a list that declares rules."""
_LONGEST: Final = 24
"""Most words of an instruction that fits a form."""
_SHORT: Final = 7
"""In a sentence of at most so many words, a pointing word means that it cannot be followed."""
_STATES: Final = clause_form("states")
_POINTS: Final = word_set("this that these those it them here there him her they she he")
_ASKING: Final = ASKING - {"when", "where", "any"}
_BAN: Final = 8
"""A ban is expressed within the first so many words."""
_WORD: Final = re.compile(r"[a-z][a-z-]+", re.IGNORECASE)
_WORDS: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_PLEASE: Final = re.compile(r"please,? |let us (?!know\b)", re.IGNORECASE)
_ENDS: Final = " .!。！"
_BLANK: Final = re.compile(r"\s+")
_ITEM: Final = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])\s")
_HEADING: Final = re.compile(r"\s*#|.{1,80}[:：]\s*\**\s*$")


class Policy(NamedTuple):
    action: str
    """The action, with its condition if there is one."""
    never: bool
    text: str
    loose: bool = False
    """True if no form and no heading says that it is a rule."""


_DENY: Final = cue("deny")
_NEGATION: Final = cue("negation")
_ALWAYS: Final = cue("always")
_UNSURE: Final = Prefiltered(cue("unsure"))
_DECLARES: Final = Prefiltered(cue("declares"))
_MUST: Final = re.compile("なければ(?:なら|いけ)")
"""A double negation that demands."""


def policy(said: str, *, listed: bool = False) -> Policy | None:
    plain = _without_please(stated(said))
    known = _in_form(plain) if plain else None
    if known is not None:
        return known
    lasting = FROM_NOW.fullmatch(plain)
    said = lasting["what"] or said if lasting is not None else said
    if not _ordered(said) or scores(said).rule < (LISTED if listed else RULED):
        return None
    return _as_said(said)._replace(loose=not listed)


def listed(text: str) -> frozenset[str]:
    """Return the sentences of list items under a heading that declares rules."""
    return frozenset(one for item in _items(text.split("\n")) for one in spoken(item))


def _items(lines: Iterable[str]) -> Iterator[str]:
    declared = False
    for line in lines:
        if _ITEM.match(line):
            if declared:
                yield line
        elif line.strip():
            declared = _HEADING.match(line) is not None and _DECLARES.search(line) is not None


def _ordered(said: str) -> bool:
    """Return True if the sentence neither asks nor supposes, and can be followed without its context."""
    words = _WORDS.findall(said[:400].lower())
    if not words or words[0] in _ASKING or (words[0] in ("do", "have") and words[1:2] in (["you"], ["we"], ["i"])):
        return False
    if len(words) == 1 and not WIDE.search(said):
        return False
    if words[0] == "stop" and not BOUND.isdisjoint(words[1:3]):
        return False
    if len(words) <= _SHORT and not _POINTS.isdisjoint(words):
        return False
    return _UNSURE.search(said) is None and _STATES.match(plainly(said) or said) is None


def _as_said(said: str) -> Policy:
    """Make the policy from the text: the action without the words that ban or demand it."""
    text = _without_please(plainly(said) or said).rstrip(_ENDS)
    opening = " ".join(text.split()[:_BAN])
    plain = _MUST.sub(" ", opening)
    first = _NEGATION.match(text)
    never = _DENY.search(plain) is not None or first is not None
    action = _ALWAYS.sub(" ", _DENY.sub(" ", text) if never else text)
    action = _BLANK.sub(" ", action).strip(" ,:;")
    return Policy(action or text, never, with_capital(text))


def _without_please(said: str) -> str:
    asked = _PLEASE.match(said)
    return said[asked.end() :] if asked is not None else said


def _in_form(said: str) -> Policy | None:
    text, ended = without_trail(said), said.rstrip(" .!")
    for form in (ALWAYS, NEVER, FROM_NOW, EVERY_TIME):
        match = form.fullmatch(ended) or form.fullmatch(text)
        if match is not None:
            return _instruction(match.groupdict(), never=form is NEVER)
    return None


def _instruction(found: dict[str, str | None], *, never: bool) -> Policy | None:
    what = without_trail(next(found[name] or "" for name in ("what", "before", "also") if found.get(name)))
    when = found.get("when") or ""
    if not _acts(what) or (POINTING.search(what) and not when):
        return None
    never = never or (found.get("how") or "").lower() == "never" or bool(found.get("not") or found.get("not_before"))
    if when:
        return Policy(f"{when}, {what}", never, with_capital(f"{when}, {'do not ' if never else ''}{what}"))
    return Policy(what, never, with_capital(f"{'never' if never else 'always'} {what}"))


def _acts(what: str) -> bool:
    """Return True if it begins with a verb in base form and has an object."""
    words = what.split()
    first = words[0].lower().strip(",")
    return (
        1 < len(words) <= _LONGEST
        and first not in NO_VERB
        and _WORD.fullmatch(first) is not None
        and (first in BASE_FORMS or not first.endswith(("ing", "ed", "ly")))
        and (not first.endswith("s") or first.endswith(("ss", "us", "is")))
    )
