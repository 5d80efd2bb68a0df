"""Bounded caches: of recent results (`remembered`), of the last one (`once`), of short texts (`ShortTextCache`).

Input: a function, and for `remembered` a number of bytes. Output: the same function, which remembers what it returned.
Arguments must be positional, and for `remembered` hashable. Exceptions are passed on and not cached. Threads may share
a cache: at worst a result is computed twice.
"""

import sys
from collections.abc import Callable
from functools import wraps
from operator import is_
from typing import Any, Final, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")
ENTRY: Final = 200
"""Estimated overhead of an entry in bytes."""
SHORT_TEXT: Final = 64
"""Most characters of a text that `ShortTextCache` keeps."""
_MISSING: Final = object()
_PLAIN: Final = (str, bytes, int, type(None))
_SEVERAL: Final = (tuple, list, set, frozenset)  # to join them with | takes longer than to ask


def remembered(most: int, weigh: Callable[[Any], int] | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Cache recent results up to `most` bytes. A result larger than half of that is never cached. `weigh` estimates the
    bytes of arguments or results that are not made of texts and numbers.

    The cache has two halves. A hit in the older half is copied to the newer one. When that is full, the older one is
    dropped. So a hit costs one lookup, and nothing is reordered.
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


class ShortTextCache(dict[str, R]):
    """What is made of short texts that come again all the time. A hit costs a dict's lookup, a fraction of a call. Long
    texts are not kept; when `most` are, all are forgotten."""

    def __init__(self, make: Callable[[str], R], most: int) -> None:
        self._make, self._most = make, most

    def __missing__(self, text: str) -> R:
        found = self._make(text)
        if len(text) <= SHORT_TEXT:
            if len(self) >= self._most:
                self.clear()
            self[text] = found
        return found


def once(function: Callable[P, R]) -> Callable[P, R]:
    """Remember the last result, for who asks again with the very same objects. They must not change in between."""
    answer = cast("Callable[..., Any]", function)
    last: tuple[tuple[Any, ...], Any] = ((), None)

    @wraps(answer)
    def asked(*args: Any) -> Any:
        nonlocal last
        known, result = last
        if len(known) != len(args) or not all(map(is_, known, args)):
            result = answer(*args)
            last = args, result
        return result

    return cast("Callable[P, R]", asked)


def nbytes(value: Any) -> int:
    """Estimate the bytes of texts, numbers, what tells its own `nbytes`, and collections of them; shared values count
    each time."""
    if isinstance(value, _PLAIN):
        return sys.getsizeof(value)
    if isinstance(value, dict):
        return sys.getsizeof(value) + sum(map(nbytes, value)) + sum(map(nbytes, value.values()))
    if isinstance(value, _SEVERAL):
        return sys.getsizeof(value) + sum(map(nbytes, value))
    own = getattr(value, "nbytes", None)
    return own if isinstance(own, int) else sys.getsizeof(value)
