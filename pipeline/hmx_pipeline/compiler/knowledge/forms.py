"""English sentence patterns: regular expressions over clauses without contractions.

`[forms]` of `languages/en.toml` has them. `compiler.knowledge.english` and `compiler.knowledge.rules` interpret them.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hmx_pipeline.intake.scan import Prefiltered
from hmx_pipeline.languages import LANGUAGES, expression
from hmx_pipeline.segments.lexicon import word_set

_FORMS: Final[Mapping[str, Any]] = LANGUAGES["en"]["forms"]
_SHORT: Final = {
    "WORDS": _FORMS["adverb_words"],
    "BE": "(?:am|is|are)",
    "NOT": "(?:(?P<not>not|never|no longer) )?",
    "ADVERB": f"(?:(?:{_FORMS['adverb_words']}) )*",
}
"""What stands for `{WORDS}` and so on in a form."""


def clause_form(name: str) -> re.Pattern[str]:
    return _compiled(_FORMS[name])


def _compiled(text: str) -> re.Pattern[str]:
    for name, meant in _SHORT.items():
        text = text.replace(f"{{{name}}}", meant)
    return expression(text)


class Verb(NamedTuple):
    predicate: str
    """The predicate as shown."""
    said: str
    plural: bool = False
    """True if several values may hold at once."""
    human: bool = False
    """True if only people can be the subject."""


VERBS: Final = tuple(Verb(**row) for row in _FORMS["verbs"])
RELATING: Final = word_set(_FORMS["relating"])
RELATED: Final = Prefiltered(
    _compiled(" (?:" + "|".join(f"(?P<v{i}>{verb.said})" for i, verb in enumerate(VERBS)) + r") (?=\S)")
)
"""The verb alone. The parts around it are matched separately, because one pattern would be slow on long clauses."""
FOR_WE: Final = clause_form("for_we")
RELATES: Final = clause_form("relates")
ADVERBS: Final = clause_form("adverbs")
_BE_NOT: Final = clause_form("be_not")
POSSESSION: Final = clause_form("possession")
LACKS: Final = clause_form("lacks")
KIND: Final = clause_form("kind")
COPULA: Final = clause_form("copula")
OURS: Final = clause_form("ours")
MOVED: Final = clause_form("moved")
NEITHER: Final = clause_form("neither")
PLACED: Final = clause_form("placed")
INSTEAD: Final = clause_form("instead")
REPLACED: Final = clause_form("replaced")
SETTING: Final = re.compile(r"\s*([A-Za-z][\w.-]*)\s*(=|:)\s*([^\s=:,;?!\"'`]+)\s*$")
PREFERENCE: Final = clause_form("preference")
LIKING: Final = clause_form("liking")
FAVOURITE: Final = clause_form("favourite")
AIM: Final = clause_form("aim")
DAY: Final = clause_form("day")
LASTING: Final = clause_form("lasting")
TRADE: Final = clause_form("trade")
IDENTIFIER: Final = re.compile(r"\S*(?:[\w)][./_:(]\w|[a-z][A-Z]|\d)")
"""Text whose letter case must not change."""
NAMED: Final = re.compile(r"(?:an? |the |our |my )?(?:[A-Z][\w+#./-]*|[\w./:@+-]*[\d_/.@:+#-][\w./:@+-]*)", re.ASCII)
"""A name, a number or an identifier."""
NARROWED: Final = clause_form("narrowed")
PERSON: Final = re.compile(r"[A-Z][a-z]+(?: [A-Z][a-z]+)?")
LASTS: Final = clause_form("lasts")
DETERMINER: Final = clause_form("determiner")
OBJECT_END: Final = clause_form("object_end")
ALWAYS: Final = clause_form("always")
NEVER: Final = clause_form("never")
FROM_NOW: Final = Prefiltered(clause_form("from_now"))
EVERY_TIME: Final = clause_form("every_time")
POINTING: Final = clause_form("pointing")
BESIDE: Final = clause_form("beside")
"""What is beside something that was named before."""


def negation_first(clause: str) -> str:
    """Move the negation to the front, as in other verbs: `is not written in` → `not is written in`."""
    return _BE_NOT.sub(r"\2 \1 ", clause)
