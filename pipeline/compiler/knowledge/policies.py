"""Standing instructions: what a user wants always or never done. In: a sentence. Out: a policy or None. Nothing fails.

An order for the single case (`do not do that yet`) is none, and so is one that points at something outside the
sentence (`always do it like this`): whoever reads it later cannot follow it.
"""

import re
from typing import Final, NamedTuple

from pipeline.compiler.knowledge.clauses import without_trail
from pipeline.compiler.knowledge.forms import (
    ALWAYS,
    DAY,
    EVER,
    EVERY_TIME,
    FROM_NOW,
    LIMIT,
    NEVER,
    NO,
    POINTING,
    RULE,
    RULED,
    STOP,
)
from pipeline.compiler.knowledge.words import ANYTHING, BASE_FORMS, BOUND, NO_VERB, VAGUE
from pipeline.segments.masking import sentence as with_capital

_LONGEST: Final = 24
"""Words of an instruction."""
_NO_LONGEST: Final = 8
_NOT_RULED: Final = (ANYTHING | VAGUE | BOUND | {"i", "we"}) - {"all", "each", "our"}
_WORD: Final = re.compile(r"[a-z][a-z-]+", re.IGNORECASE)


class Policy(NamedTuple):
    action: str
    """With when it applies, where the sentence says that."""
    never: bool
    text: str


def policy(said: str) -> Policy | None:
    text, ended = without_trail(said), said.rstrip(" .!")
    for form in (ALWAYS, NEVER, FROM_NOW, EVERY_TIME):
        match = form.fullmatch(ended) or form.fullmatch(text)
        if match is not None:
            if form is FROM_NOW and (ruled := _rule(next(filter(None, (match["what"], match["before"]))))) is not None:
                return ruled
            return _instruction(match.groupdict(), never=form is NEVER)
    if RULE.fullmatch(ended) is not None:
        return _rule(ended)
    match = STOP.fullmatch(text) or LIMIT.fullmatch(ended)
    if match is not None and _general(match["what"]):
        return Policy(match["what"], True, with_capital(f"{'stop' if match.re is STOP else 'do not'} {match['what']}"))
    match = NO.fullmatch(text)
    if match is not None and EVER.search(said) and len(match["what"].split()) <= _NO_LONGEST:
        return Policy(match["what"], True, with_capital(f"no {match['what']}"))
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


def _rule(said: str) -> Policy | None:
    """What must be, of what it must be so."""
    match = RULED.fullmatch(said)
    words = match["subject"].lower().split() if match is not None else []
    if match is None or POINTING.search(said) or DAY.search(said) or {words[0], words[-1]} & _NOT_RULED:
        return None
    return Policy(said, bool(match["not"]), with_capital(said))


def _general(what: str) -> bool:
    """Is it no single case: some verb, and a bare noun?"""
    words = what.lower().split()
    return (
        1 < len(words) <= _LONGEST
        and BOUND.isdisjoint(words[:2])
        and words[0] not in NO_VERB
        and not POINTING.search(what)
    )


def _acts(what: str) -> bool:
    """Does it begin with a verb in its base form, and say what to act on?"""
    words = what.split()
    first = words[0].lower().strip(",")
    return (
        1 < len(words) <= _LONGEST
        and first not in NO_VERB
        and _WORD.fullmatch(first) is not None
        and (first in BASE_FORMS or not first.endswith(("ing", "ed", "ly")))
        and (not first.endswith("s") or first.endswith(("ss", "us", "is")))
    )
