"""Multi-pattern search with pydantic-core's regex engine, and rules that replace matches.

The engine is the Rust crate regex, with linear time on any input and a tenth of the time of Python's `re`.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from pydantic_core import SchemaValidator, core_schema

REDACTED: Final = "[REDACTED]"
NEW: Final = r"(?!\[REDACTED\])"


def finder(*patterns: str, strict: bool = False) -> Callable[[bytes | str], bool]:
    """Return a function that says whether a text, or its UTF-8 bytes, matches any of the patterns. `strict` accepts
    texts only, and halves the time of a call."""
    schema = core_schema.str_schema(pattern="|".join(patterns), regex_engine="rust-regex", strict=strict)
    return SchemaValidator(schema).isinstance_python


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
