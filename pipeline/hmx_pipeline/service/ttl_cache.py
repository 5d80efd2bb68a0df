"""TTL cache of one expensive value: concurrent callers share a single computation.

The value lives for `kept_s` seconds, or `times` its computation time if that is longer. Exceptions reach all waiting
callers and are not cached.
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
        self._lock = asyncio.Lock()
        self._answer: tuple[T, float] | None = None

    async def forget(self) -> None:
        """Computes the value anew next time."""
        async with self._lock:
            self._answer = None

    async def get(self) -> T:
        async with self._lock:
            if self._answer is None or time.monotonic() >= self._answer[1]:
                began = time.monotonic()
                answer = await asyncio.to_thread(self._ask)
                now = time.monotonic()
                self._answer = answer, now + max(self._kept_s, self._times * (now - began))
            return self._answer[0]
