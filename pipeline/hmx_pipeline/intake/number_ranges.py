"""The JSON path of the first number that is out of range: an integer beyond 64 bits, or another number beyond a double.

Input: a JSON text, as characters or bytes. Output: a path of at most 256 characters. The path is `$` if the text cannot
be parsed to its end, because it has another error too. Takes two linear passes, for rejected values only.
"""

import json
from collections.abc import Iterator
from math import inf
from typing import Any, Final

from hmx_pipeline.contracts.limits import INTEGER_MAX, REDACTED_PATH
from hmx_pipeline.intake.json_paths import path_of

INTEGER_MIN: Final = -(2**63)
_DIGITS: Final = len(str(INTEGER_MAX))


def is_out_of_range(digits: str) -> bool:
    """Return True if the integer does not fit; Python refuses to parse very many digits."""
    return len(digits) > _DIGITS or not INTEGER_MIN <= int(digits) <= INTEGER_MAX


def out_of_range_path(text: str | bytes) -> str:
    try:
        # objects stay pairs, so that both values of a repeated key are checked
        parsed = json.loads(text, object_pairs_hook=tuple, parse_int=_integer)
    except (ValueError, RecursionError):
        return "$"
    return path_of(_parts(parsed))[:REDACTED_PATH]


def _integer(digits: str) -> float:
    return inf if is_out_of_range(digits) else 0


def _parts(parsed: Any) -> list[str | int]:
    """Return the path parts of the first number that became infinite, in text order."""
    parts: list[str | int] = []
    inside = [_members(parsed)]
    while inside:
        for part, item in inside[-1]:
            kind = type(item)
            if kind is float and abs(item) == inf:
                return [*parts, part]
            if kind is list or kind is tuple:
                parts.append(part)
                inside.append(_members(item))
                break
        else:
            inside.pop()
            del parts[-1:]
    return []


def _members(value: Any) -> Iterator[tuple[str | int, Any]]:
    if type(value) is tuple:
        return iter(value)
    return enumerate(value) if type(value) is list else iter(())
