"""Statement parser for all languages, by the forms in their `[statements]`: subject, predicate and value.

Input: a plain sentence and its language. Output: a `Stated`; None if it fits no form, or its subject could be anything.
English has a richer grammar besides (`forms`).
"""

import re
from typing import Final, NamedTuple

from hmx_pipeline.compiler.knowledge.claim_names import REDACTED, TEAM, USER
from hmx_pipeline.compiler.knowledge.language import Language
from hmx_pipeline.compiler.knowledge.word_lists import ANYTHING, VAGUE
from hmx_pipeline.segments.lexicon import word_set

_SUBJECT_WORDS: Final = 7
_SUBJECT: Final = 60
_CLEAR: Final = 3
"""A subject with at least so many words is clear, whatever its last word is."""
_VALUE: Final = 160
_LABELLED: Final = "is for"
_ASSIGNING: Final = ("slots", "path", "setting", "set")
"""Forms of a thing with exactly one value."""
_STATES: Final = "states"
_EDGES: Final = " \t`'\"«»„“”「」『』,;:。、()"
_NO_NAME: Final = re.compile(r"[=:;(\"—]| [-–](?: |$)")
_HANGING: Final = word_set("to and or of for with in on that which not never the a an do does basically")
_EACH: Final = word_set("all each both most")
_IS: Final = re.compile(r" (?:is|are) ")
"""Of what is known to state a fact that says enough in English too."""
_BLANKS: Final = re.compile(r"\s+")


class Stated(NamedTuple):
    subject: str
    predicate: str
    value: str
    denies: bool
    text: str
    assigns: bool = False
    """True if it is a setting or similar, whatever its value."""


def statement_of(said: str, tongue: Language, *, changed: bool = False) -> Stated | None:
    """Parse a plain statement; None if it fits no form. `changed`: the sentence says that this was different, so what
    it names after "instead of" has ended."""
    text = _BLANKS.sub(" ", said).strip(" .。")
    untrue = tongue.says["untrue"].match(text)
    plain = text[untrue.end() :] if untrue is not None else text
    plain = tongue.says["here"].sub("the ", plain)
    if changed:
        plain = tongue.led(plain)
        cut = tongue.says["instead"].search(plain)
        plain = text = plain[: cut.start()] if cut is not None else plain
    for name in _ASSIGNING:
        assigned = tongue.says[name].match(plain)
        if assigned is not None:
            setting = _of(assigned["s"], "is", assigned["v"].removeprefix("set to "), text, denies=False)
            return setting and setting._replace(assigns=True)
    labelled = tongue.says["labelled"].match(plain)
    if labelled is not None:
        named = _of(labelled["s"], _LABELLED, labelled["v"], text, denies=False)
        return named and named._replace(assigns=True)
    plain = tongue.says["label"].sub("", plain)
    if tongue.says["silent"].search(_main(plain, tongue)) or tongue.says["no_subject"].match(plain):
        return None
    denies = tongue.says["denies"].search(plain) is not None
    plain = _BLANKS.sub(" ", tongue.without("drops", tongue.without("denies", plain))).strip()
    found = tongue.says["generic"].search(plain)
    if found is None:
        return whole(text, tongue) if tongue.says["bare"].match(plain) else None
    subject, predicate = _subject(tongue, plain[: found.start()], found[0].strip()), found[0].strip(" '")
    value = plain[found.end() :].strip(_EDGES)
    tail = tongue.says["tail"].search(value)
    if tail is not None and tail.start():  # the verb comes last
        value, predicate = value[: tail.start()], f"{predicate} {tongue.says['polite'].sub('', tail[0], count=1)}"
    return _of(subject, predicate, value, text, denies=denies != (untrue is not None))


def _main(plain: str, tongue: Language) -> str:
    """Return the main clause."""
    verb = tongue.says["generic"].search(plain)
    cut = tongue.says["subordinate"].search(plain, verb.end()) if verb is not None else None
    return plain[: cut.start()] if cut is not None else plain


def whole(said: str, tongue: Language) -> Stated | None:
    """Parse a sentence that the classifier took for a fact, whatever its form. Without a subject it is
    about the team."""
    text = _BLANKS.sub(" ", said).strip(" .。")
    found = tongue.says["generic"].search(text) or _IS.search(text)
    subject = _subject(tongue, text[: found.start()], found[0].strip()) if found is not None else ""
    if found is not None and subject:
        return _of(subject, found[0].strip(), text[found.end() :], text, denies=False)
    return _of(TEAM, _STATES, text, text, denies=False)


def _of(subject: str, predicate: str, value: str, text: str, *, denies: bool) -> Stated | None:
    value = value.strip(_EDGES)[:_VALUE]
    if not subject or len(subject) > _SUBJECT or not value or REDACTED in text:
        return None
    return Stated(subject.strip(_EDGES), predicate.lower(), value, denies, text)


def _subject(tongue: Language, said: str, verb: str) -> str:
    """Return the subject as shown; empty if it could be anything."""
    if _NO_NAME.search(said) or ("," in said and " and " not in said):
        return ""
    said = said.strip(_EDGES)
    words = said.lower().split()
    if not said:
        if tongue.says["first_i"].match(verb):
            return USER
        return TEAM if tongue.says["first_we"].match(verb) else ""
    if words[-1] in tongue.ours or words[-1] in tongue.mine:
        return TEAM if words[-1] in tongue.ours else USER
    if len(words) > _SUBJECT_WORDS or (
        tongue.says["subject"].pattern != "(?!)" and not tongue.says["subject"].match(said)
    ):
        return ""
    if tongue.says["our"].match(said):
        return f"{TEAM}'s {tongue.without('our', said)}"
    if tongue.says["my"].match(said):
        return f"{USER}'s {tongue.without('my', said)}"
    bare = tongue.says["articles"].sub("", said, count=1)
    if words[-1] in _HANGING or words[0] in ANYTHING - _EACH:
        return ""
    vague = ANYTHING if said.split()[-1][0].isupper() and len(words) > 1 else ANYTHING | VAGUE
    return "" if len(words) < _CLEAR and {words[0], words[-1]} & vague - _EACH else bare
