"""TTL cache of one expensive value: concurrent callers share a single computation.

Enters: a function that may block. Leaves: its value, computed in a thread, for all that wait. The value lives for
`kept_s` seconds, or `times` its computation time if that is longer. Exceptions reach all waiting callers and are not
cached.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class TtlCache(Generic[T]):
    def __init__(self, ask: Callable[[], T], kept_s: float, times: float = 0.0) -> None:
        self._ask = ask
        self._kept_s = kept_s
        self._times = times
        self._answer: tuple[T, float] | None = None
        self._asking: asyncio.Task[T] | None = None

    def forget(self) -> None:
        """Computes the value anew next time."""
        self._answer = self._asking = None

    async def get(self) -> T:
        if self._answer is not None and time.monotonic() < self._answer[1]:
            return self._answer[0]
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._compute())
            self._asking.add_done_callback(_seen)
        return await asyncio.shield(self._asking)  # a caller that gives up takes it from no other

    async def _compute(self) -> T:
        began = time.monotonic()
        answer = await asyncio.to_thread(self._ask)
        if self._asking is asyncio.current_task():
            now = time.monotonic()
            self._answer = answer, now + max(self._kept_s, self._times * (now - began))
        return answer


def _seen(asking: asyncio.Task[T]) -> None:
    """Its callers may all have given up: then nobody else looks at what it failed with."""
    if not asking.cancelled():
        asking.exception()
