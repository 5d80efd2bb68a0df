"""Texts that a regular expression matches, by seed: how the corpus makes secrets from other tools' patterns.

Enters: a pattern and a random.Random. Leaves: a text that the pattern matches, and what its group `value` holds, or
None where none came in some tries (lookarounds aren't followed, only checked).
"""

import random
import re
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

_PRINTABLE = [chr(code) for code in range(33, 127) if chr(code) not in "\"'`\\<>"]
_CLASSES = {
    "CATEGORY_DIGIT": "0123456789",
    "CATEGORY_WORD": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_",
    "CATEGORY_SPACE": " ",
}
_MORE = 12
"""An open end goes so far beyond its least."""
_LONGEST = 400


def generated(pattern: str, rng: random.Random, tries: int = 40) -> tuple[str, str] | None:
    parsed = _parser.parse(pattern)
    compiled = re.compile(pattern)
    for _ in range(tries):
        text = _sequence(parsed, rng, {})
        match = compiled.search(text)
        if match is not None and match[0].strip():
            value = match.groupdict().get("value")
            return text, value or match[0]
    return None


def _sequence(items: Any, rng: random.Random, groups: dict[int, str]) -> str:
    return "".join(_item(what, how, rng, groups) for what, how in items)


def _item(what: Any, how: Any, rng: random.Random, groups: dict[int, str]) -> str:
    if what is op.LITERAL:
        return chr(how)
    if what is op.NOT_LITERAL:
        return rng.choice([c for c in _PRINTABLE if ord(c) != how])
    if what is op.ANY:
        return rng.choice(_PRINTABLE)
    if what is op.IN:
        return rng.choice(_members(how))
    if what in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        least, most, inner = how
        count = rng.randint(least, max(least, min(most, least + _MORE, _LONGEST)))
        return "".join(_sequence(inner, rng, groups) for _ in range(min(count, _LONGEST)))
    if what is op.SUBPATTERN:
        group, _, _, inner = how
        text = _sequence(inner, rng, groups)
        if group is not None:
            groups[group] = text
        return text
    if what is op.BRANCH:
        return _sequence(rng.choice(how[1]), rng, groups)
    if what is op.GROUPREF:
        return groups.get(how, "")
    if what is op.GROUPREF_EXISTS:
        group, there, absent = how
        chosen = there if group in groups else absent
        return _sequence(chosen, rng, groups) if chosen else ""
    if what is op.ATOMIC_GROUP:
        return _sequence(how, rng, groups)
    return ""  # lookarounds and anchors say nothing that could be written


def _members(items: Any) -> list[str]:
    if items and items[0][0] is op.NEGATE:
        out = set(_members(items[1:]))
        return [c for c in _PRINTABLE if c not in out]
    found: list[str] = []
    for what, how in items:
        if what is op.LITERAL:
            found.append(chr(how))
        elif what is op.RANGE:
            found += [chr(code) for code in range(how[0], min(how[1], 126) + 1)]
        elif what is op.CATEGORY:
            found += _CLASSES.get(str(how), _PRINTABLE)
    return found or ["x"]
