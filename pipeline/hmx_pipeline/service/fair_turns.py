"""Fair turns: limits concurrent work in total and per tenant, and serves waiting tenants round robin.

Enters: work and its tenant. Leaves: its result, computed in a thread. A tenant waits at most for running work and one
turn of each other tenant. Raises ProblemError after WAIT_S.
"""

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial, wraps
from typing import Any, Final, ParamSpec, TypeVar

from fastapi.concurrency import run_in_threadpool

from hmx_pipeline.service.problems import RETRY, ProblemError, ProblemKind

WAIT_S: Final = 10.0
"""Longest wait for a turn; without it, requests would pile up while Redis hangs."""
P = ParamSpec("P")
T = TypeVar("T")


class FairTurns:
    """Turns of one event loop."""

    def __init__(self, places: int, each: int) -> None:
        """`places` is the total limit, `each` that per tenant."""
        self._free = places
        self._each = each
        self._held: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._since: dict[object, float] = {}

    @asynccontextmanager
    async def of(self, tenant: str) -> AsyncIterator[None]:
        """Takes a turn. Raises ProblemError after WAIT_S."""
        if self._free and self._held[tenant] < self._each and tenant not in self._waiting:
            self._take(tenant)
        else:
            await self._wait(tenant)
        turn = object()
        self._since[turn] = time.monotonic()
        try:
            yield
        finally:
            del self._since[turn]
            self._give_back(tenant)

    async def run(self, tenant: str, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        async with self.of(tenant):
            return await run_in_threadpool(work, *args, **named)

    def longest_s(self) -> float:
        """Returns how long the oldest turn has been running."""
        return time.monotonic() - min(self._since.values(), default=time.monotonic())

    async def _wait(self, tenant: str) -> None:
        mine = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(mine)
        try:
            async with asyncio.timeout(WAIT_S):
                await mine
        except BaseException as error:
            if mine.done() and not mine.cancelled():
                self._give_back(tenant)
            else:
                self._forget(tenant, mine)
            if isinstance(error, TimeoutError):
                raise ProblemError(
                    ProblemKind.BUSY, f"no turn within {WAIT_S:g} s: send fewer requests at a time", RETRY
                ) from None
            raise

    def _take(self, tenant: str) -> None:
        self._free -= 1
        self._held[tenant] += 1

    def _give_back(self, tenant: str) -> None:
        self._free += 1
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]
        while self._free and (following := self._following()) is not None:
            mine = self._waiting[following].popleft()
            self._waiting.move_to_end(following)
            self._clear(following)
            if not mine.done():  # the waiting request has gone
                self._take(following)
                mine.set_result(None)

    def _following(self) -> str | None:
        """Returns the waiting tenant below its limit that was served longest ago."""
        return next((tenant for tenant in self._waiting if self._held[tenant] < self._each), None)

    def _forget(self, tenant: str, mine: asyncio.Future[None]) -> None:
        if mine in self._waiting.get(tenant, ()):
            self._waiting[tenant].remove(mine)
            self._clear(tenant)

    def _clear(self, tenant: str) -> None:
        if not self._waiting[tenant]:
            del self._waiting[tenant]


def in_turn(route: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """Decorates a blocking route with a parameter `tenant`: it runs in a thread, in the tenant's turn."""

    @wraps(route)
    async def run(*args: P.args, **named: P.kwargs) -> T:
        request: Any = named["request"]
        turns: FairTurns = request.app.state.reading
        return await turns.run(str(named["tenant"]), partial(route, *args, **named))

    return run
