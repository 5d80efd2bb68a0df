"""A function's answers, remembered up to so many bytes: what `functools.lru_cache` is, for arguments without a bound.

Enters: hashable arguments, by position. Leaves: what the function answers. Fails as the function does; nothing is
remembered then. Threads may share one: at worst an answer is worked out twice.
"""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")
ENTRY: Final = 200
"""About what an answer costs beside itself and its arguments."""
_MISSING: Final = object()


def remembered(most: int, weigh: Callable[[Any], int] | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Answers of at most so many bytes, those asked for lately. One that takes more than half of that by itself is
    worked out every time. `weigh` says what an argument or an answer takes that is not made of texts and numbers.

    There are two halves. What is found in the older one goes over to the newer one; once that is full, the older one
    goes. So a hit costs one look, and nothing is moved for it.
    """
    measure = weigh or nbytes

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        answer = cast("Callable[..., Any]", function)
        newer: dict[Any, Any] = {}
        older: dict[Any, Any] = {}
        left = most // 2

        @wraps(answer)
        def asked(*args: Any) -> Any:
            nonlocal newer, older, left
            known = newer.get(args, _MISSING)
            if known is not _MISSING:
                return known
            known = older.get(args, _MISSING)
            if known is _MISSING:
                known = answer(*args)
            size = ENTRY + sum(map(measure, args)) + measure(known)
            if size > left:
                if size > most // 2:
                    return known
                newer, older, left = {}, newer, most // 2
            left -= size
            newer[args] = known
            return known

        return cast("Callable[P, R]", asked)

    return decorated


def nbytes(value: Any) -> int:
    """Of texts, numbers and collections of them; what is shared counts each time."""
    kind = type(value)
    if kind is str or kind is bytes:
        return sys.getsizeof(value)
    if isinstance(value, dict):
        return sys.getsizeof(value) + sum(map(nbytes, value)) + sum(map(nbytes, value.values()))
    if isinstance(value, tuple | list | set | frozenset):
        return sys.getsizeof(value) + sum(map(nbytes, value))
    return sys.getsizeof(value)
