"""Patterns of each language: how it states facts and changes (`[statements]`, `[updates]`).

Input: the language files, at import. Output: `TONGUES`: language code → `Language`, with its forms and, by name, its
expressions. An expression is compiled when a text first needs it, because most processes read one language or none.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hmx_pipeline.intake.scan import Prefiltered
from hmx_pipeline.languages import LANGUAGES
from hmx_pipeline.languages.form import Form, forms

VALUE: Final = "value"
PLACE: Final = "place"
NAME: Final = "name"
VERSION: Final = "version"
DEED: Final = "deed"
LEAVE: Final = "leave"
"""The update that allows what was banned."""
_KINDS: Final = (VALUE, PLACE, NAME, VERSION, DEED, LEAVE)
_STATED: Final = (
    "silent", "subject", "no_subject", "denies", "drops", "untrue", "bare", "generic", "labelled",
    "slots", "since", "until", "path", "setting", "set", "label", "subordinate", "lasting", "our", "my",
    "first_we", "first_i", "plural", "copula", "places", "names", "instead", "here", "tail", "polite",
)  # fmt: skip
_CHANGED: Final = (
    "fillers",
    "ends",
    "articles",
    "leads",
    "markers",
    "turns",
    "leaves",
    "once",
    "beside",
    "unreal",
    "corrects",
)
_NOTHING: Final = Prefiltered(re.compile(r"(?!)"))


class _Expressions(dict[str, Prefiltered]):
    """Name in the file → expression; a missing one matches nothing."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        super().__init__()
        self.texts = texts

    def __missing__(self, name: str) -> Prefiltered:
        text = self.texts[name]
        self[name] = compiled = Prefiltered(re.compile(text, re.IGNORECASE)) if text else _NOTHING
        return compiled


class Language(NamedTuple):
    code: str
    updates: tuple[tuple[str, Form], ...]
    """Pairs of kind and form."""
    ours: frozenset[str]
    """Words for the speaker's group."""
    mine: frozenset[str]
    says: _Expressions
    inverts: bool
    """True if the verb precedes the subject after an opening such as `from today on`."""

    def led(self, text: str) -> str:
        """Remove the opening, and put the speaker first."""
        plain = self.says["leads"].sub("", text, count=1).strip()
        first, second, *rest = [*plain.split(" "), ""]
        if self.inverts and plain != text and {second.lower()} & (self.ours | self.mine):
            return " ".join((second, first, *rest)).strip()
        return plain

    def without(self, name: str, text: str) -> str:
        return self.says[name].sub("", text)


def _tongue(code: str, stated: Mapping[str, Any], changed: Mapping[str, Any]) -> Language:
    named, rest = changed.get("named", {}), ".*" if changed.get("open") else ""
    given = {**{name: stated.get(name, "") for name in _STATED}, **{name: changed.get(name, "") for name in _CHANGED}}
    return Language(
        code,
        tuple(
            (kind, one) for kind in _KINDS for one in forms((f"{text}{rest}" for text in changed.get(kind, ())), named)
        ),
        frozenset((*stated.get("ours", ()), *changed.get("ours", ()))),
        frozenset((*stated.get("mine", ()), *changed.get("mine", ()))),
        _Expressions(given),
        bool(stated.get("inverts")),
    )


TONGUES: Final = {
    code: _tongue(code, table.get("statements", {}), table.get("updates", {})) for code, table in LANGUAGES.items()
}
