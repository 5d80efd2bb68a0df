"""Where in a JSON text the first number stands that fits neither in 64 bits nor in a double.

Enters: the text of a value that was refused for such a number. Leaves: its JSON path, the beginning of a long one.
Never raises: where the text can't be read to its end (something else is wrong with it too), the path is `$`. Two linear
passes, and only for what is refused.
"""

import json
from collections.abc import Iterator
from math import inf
from typing import Any, Final

from pipeline.contracts.limits import INTEGER_MAX, REDACTED_PATH
from pipeline.intake.paths import path_of

INTEGER_MIN: Final = -(2**63)
_DIGITS: Final = len(str(INTEGER_MAX))


def is_out_of_range(digits: str) -> bool:
    """`digits` of an integer; of very many digits Python makes none."""
    return len(digits) > _DIGITS or not INTEGER_MIN <= int(digits) <= INTEGER_MAX


def out_of_range_path(text: str | bytes) -> str:
    try:
        # Objects stay pairs: of a key that occurs twice both values are looked at.
        parsed = json.loads(text, object_pairs_hook=tuple, parse_int=_integer)
    except (ValueError, RecursionError):
        return "$"
    return path_of(_parts(parsed))[:REDACTED_PATH]


def _integer(digits: str) -> float:
    return inf if is_out_of_range(digits) else 0


def _parts(parsed: Any) -> list[str | int]:
    """The steps to the first number that became infinite, in the order of the text."""
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
