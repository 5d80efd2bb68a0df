"""English sentence patterns: regular expressions over clauses without contractions.

`[forms]` of `languages/en.toml` has them. `compiler.knowledge.english` and `compiler.knowledge.rules` interpret them.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hmx_pipeline.languages import LANGUAGES
from hmx_pipeline.segments.lexicon import word_set

_FORMS: Final[Mapping[str, Any]] = LANGUAGES["en"]["forms"]
_SHORT: Final = {
    "WORDS": _FORMS["adverb_words"],
    "BE": "(?:am|is|are)",
    "NOT": "(?:(?P<not>not|never|no longer) )?",
    "ADVERB": f"(?:(?:{_FORMS['adverb_words']}) )*",
}
"""What stands for `{WORDS}` and so on in a form."""


def _form(name: str) -> re.Pattern[str]:
    return _compiled(_FORMS[name])


def _compiled(text: str) -> re.Pattern[str]:
    for name, meant in _SHORT.items():
        text = text.replace(f"{{{name}}}", meant)
    return re.compile(re.sub(r"\n *", "", text), re.IGNORECASE)


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
RELATED: Final = _compiled(" (?:" + "|".join(f"(?P<v{i}>{verb.said})" for i, verb in enumerate(VERBS)) + r") (?=\S)")
"""The verb alone. The parts around it are matched separately, because one pattern would be slow on long clauses."""
FOR_WE: Final = _form("for_we")
RELATES: Final = _form("relates")
ADVERBS: Final = _form("adverbs")
_BE_NOT: Final = _form("be_not")
POSSESSION: Final = _form("possession")
LACKS: Final = _form("lacks")
KIND: Final = _form("kind")
COPULA: Final = _form("copula")
OURS: Final = _form("ours")
MOVED: Final = _form("moved")
NEITHER: Final = _form("neither")
PLACED: Final = _form("placed")
INSTEAD: Final = _form("instead")
REPLACED: Final = _form("replaced")
SETTING: Final = re.compile(r"\s*([A-Za-z][\w.-]*)\s*(=|:)\s*([^\s=:,;?!\"'`]+)\s*$")
PREFERENCE: Final = _form("preference")
LIKING: Final = _form("liking")
FAVOURITE: Final = _form("favourite")
AIM: Final = _form("aim")
DAY: Final = _form("day")
LASTING: Final = _form("lasting")
TRADE: Final = _form("trade")
IDENTIFIER: Final = re.compile(r"\S*(?:[\w)][./_:(]\w|[a-z][A-Z]|\d)")
"""Text whose letter case must not change."""
NAMED: Final = re.compile(r"(?:an? |the |our |my )?(?:[A-Z][\w+#./-]*|[\w./:@+-]*[\d_/.@:+#-][\w./:@+-]*)", re.ASCII)
"""A name, a number or an identifier."""
NARROWED: Final = _form("narrowed")
PERSON: Final = re.compile(r"[A-Z][a-z]+(?: [A-Z][a-z]+)?")
LASTS: Final = _form("lasts")
DETERMINER: Final = _form("determiner")
OBJECT_END: Final = _form("object_end")
ALWAYS: Final = _form("always")
NEVER: Final = _form("never")
FROM_NOW: Final = _form("from_now")
EVERY_TIME: Final = _form("every_time")
POINTING: Final = _form("pointing")


def negation_first(clause: str) -> str:
    """Move the negation to the front, as in other verbs: `is not written in` → `not is written in`."""
    return _BE_NOT.sub(r"\2 \1 ", clause)
