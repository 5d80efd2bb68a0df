"""An event before its door adds ids, time and place in the session; and texts cut to a size that memory can use."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

TEXT: Final = 16_384
"""Characters of a text. Of a longer one the beginning and the end stay: an error stands in one of them."""
ITEMS: Final = 256
"""Members of an object, and items of a list."""
DEPTH: Final = 12
"""Objects and lists in each other; what lies deeper becomes text."""
VALUES: Final = 4_096
"""Texts and other values of one call's arguments."""


class DraftEvent(NamedTuple):
    event_type: str
    content: dict[str, Any]
    key: str
    """Makes what happened once one event of its session; empty if nothing tells it from a repetition."""
    metadata: Mapping[str, Any] = MappingProxyType({})


def cut(text: str, characters: int = TEXT) -> str:
    """Return the text; the middle of a long one is left out and said to be."""
    if len(text) <= characters:
        return text
    half = characters // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters left out …]\n{text[-half:]}"


def bounded(value: Any) -> Any:
    """Return a JSON value with long texts cut, and without what exceeds a bound."""
    left = VALUES

    def kept(value: Any, depth: int) -> Any:
        nonlocal left
        left -= 1
        if isinstance(value, dict | list) and (depth >= DEPTH or left <= 0):
            return cut(str(value), 256)
        if isinstance(value, dict):
            return {cut(str(name), 256): kept(item, depth + 1) for name, item in list(value.items())[:ITEMS]}
        if isinstance(value, list):
            return [kept(item, depth + 1) for item in value[:ITEMS]]
        return cut(value, TEXT if left > VALUES - 16 else 256) if isinstance(value, str) else value

    return kept(value, 0)
