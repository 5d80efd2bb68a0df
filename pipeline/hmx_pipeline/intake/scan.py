"""Multi-pattern search with pydantic-core's regex engine, and rules that replace matches.

Input: regular expressions. Output: a function that says whether a text matches any (`finder`); a Python expression that
runs only where the engine cannot rule a match out (`Prefiltered`); or a `Rule`. The engine is the Rust crate regex,
with linear time on any input and a tenth of the time of Python's `re`.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from pydantic_core import SchemaValidator, core_schema

REDACTED: Final = "[REDACTED]"
NEW: Final = r"(?!\[REDACTED\])"


def finder(*patterns: str, strict: bool = False) -> Callable[[bytes | str], bool]:
    """Return a function that says whether a text, or its UTF-8 bytes, matches any of the patterns. `strict` accepts
    texts only, and halves the time of a call."""
    schema = core_schema.str_schema(pattern="|".join(patterns), regex_engine="rust-regex", strict=strict)
    return SchemaValidator(schema).isinstance_python


_PIECES: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?<?[=!]|[+*?}]\+|.", re.DOTALL)
_IN_CLASS: Final = re.compile(r"\\.|\[")
_MEANT: Final = {r"\w": "0-9A-Za-z_", r"\d": "0-9", r"\s": r"\t-\r\x1c-\x20"}
"""What Python means in a plain text. All letters there are would make an automaton that fills slowly."""
_OTHERS: Final = {name.upper(): f"[^{meant}]" for name, meant in _MEANT.items()}
_WITHIN: Final = {**_MEANT, **_OTHERS, "[": r"\["}
"""Within `[]`."""
_APART: Final = {
    **{name: f"[{meant}]" for name, meant in _MEANT.items()},
    **_OTHERS,
    r"\b": r"(?-u:\b)",
    "$": r"\n?$",  # Python's holds before a last line feed too
}
"""Outside of it."""
_ONLY_PYTHON: Final = re.compile("[\u0130\u0131]")
"""Letters that Python alone takes for an i where case does not count."""


def shape(pattern: str) -> str:
    """Return a pattern for `finder` that every plain text matches in which Python finds `pattern`: what looks ahead or
    behind is left out."""
    kept, aside = [], 0
    for piece in _PIECES.findall(pattern):
        if aside or piece in ("(?=", "(?!", "(?<=", "(?<!"):
            aside += piece.startswith("(") - (piece == ")")
        elif piece.startswith("["):
            kept.append("[" + _IN_CLASS.sub(lambda found: _WITHIN.get(found[0], found[0]), piece[1:]))
        else:
            kept.append(_APART.get(piece, piece[0] if piece[1:] == "+" else piece))
    return "".join(kept)


_is_plain: Final = finder(r"^[\x00-\x7f‘’“”–—…•→]*$", strict=True)


class Prefiltered:
    """A Python expression that is only asked where the other engine, in a tenth of the time, can't rule a plain text
    out: of other letters the two engines may think differently. Raises ValueError for what they read differently."""

    __slots__ = ("_expression", "_may", "pattern")

    def __init__(self, expression: re.Pattern[str]) -> None:
        self._expression = expression
        self.pattern = expression.pattern
        if expression.flags & ~(re.IGNORECASE | re.UNICODE) or _ONLY_PYTHON.search(self.pattern):
            raise ValueError(f"no flag but IGNORECASE, and no Turkish i: {self.pattern}")
        self._may = finder(f"(?{'i' if expression.flags & re.IGNORECASE else ''}:{shape(self.pattern)})", strict=True)

    def _rules_out(self, text: str) -> bool:
        return (text.isascii() or _is_plain(text)) and not self._may(text)

    def search(self, text: str, start: int = 0) -> re.Match[str] | None:
        return None if self._rules_out(text) else self._expression.search(text, start)

    def match(self, text: str) -> re.Match[str] | None:
        return None if self._rules_out(text) else self._expression.match(text)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return None if self._rules_out(text) else self._expression.fullmatch(text)

    def split(self, text: str) -> list[str]:
        return [text] if self._rules_out(text) else self._expression.split(text)

    def finditer(self, text: str) -> Iterable[re.Match[str]]:
        return () if self._rules_out(text) else self._expression.finditer(text)

    def sub(self, put: str | Callable[[re.Match[str]], str], text: str, count: int = 0) -> str:
        return text if self._rules_out(text) else self._expression.sub(put, text, count)


def literal(word: str) -> str:
    return "".join(f"\\{c}" if c in r"\.+*?()|[]{}^$" else c for c in word)


def any_case(word: str) -> str:
    """Return a pattern for `word` in any case. Its first letter is a set, so that the regex engine can skip to it."""
    return f"[{word[0].lower()}{word[0].upper()}](?i:{word[1:]})" if word[0].isalpha() else f"(?i:{word})"


Work = Callable[[str], None]
"""Called with a text before a rule searches it, to count the work."""


def free(_text: str) -> None:
    """Count nothing, for short texts."""


class Rule(NamedTuple):
    shape: str
    """An approximation that every match contains, for `finder`, which decides in a tenth of the time."""
    holds: Callable[[str], bool]
    pattern: re.Pattern[str]
    replacement: Callable[[re.Match[str]], str]

    def applied(self, text: str, work: Work) -> str:
        if not self.holds(text):
            return text
        work(text)
        return self.pattern.sub(self.replacement, text)


def _value(match: re.Match[str]) -> str:
    return match["before"] + REDACTED


def value_if(secret: Callable[[re.Match[str]], bool]) -> Callable[[re.Match[str]], str]:
    return lambda match: _value(match) if secret(match) else match[0]


def rule(shape: str, pattern: str | re.Pattern[str], secret: Callable[[re.Match[str]], bool] | None = None) -> Rule:
    compiled = re.compile(pattern, re.ASCII) if isinstance(pattern, str) else pattern
    return Rule(shape, finder(shape, strict=True), compiled, value_if(secret) if secret else _value)
