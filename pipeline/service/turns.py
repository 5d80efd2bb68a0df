"""Turns at what only a few may do at the same time: tenants get them one after the other, and each holds a few at most.

Enters: work, and whose it is. Leaves: what it gives, done in a thread. Nobody's work waits for more than what is under
way and one turn of each other tenant, however much another tenant has asked for. Fails: ProblemError for whoever has
waited too long.
"""

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial, wraps
from typing import Any, Final, ParamSpec, TypeVar

from fastapi.concurrency import run_in_threadpool

from pipeline.service.problems import RETRY, Kind, ProblemError

WAIT_S: Final = 10.0
"""As long as the work of one tenant waits for its turn. Without it, whoever asks while Redis hangs would wait for all
who have asked before."""
P = ParamSpec("P")
T = TypeVar("T")


class Turns:
    """Belongs to one event loop."""

    def __init__(self, places: int, each: int) -> None:
        """`each` is what one tenant may hold of all `places`."""
        self._free = places
        self._each = each
        self._held: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._since: dict[object, float] = {}

    @asynccontextmanager
    async def of(self, tenant: str) -> AsyncIterator[None]:
        """Raises ProblemError where there is no turn in time."""
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
        """How long the oldest turn has been under way."""
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
                raise ProblemError(Kind.BUSY, f"there was no turn within {WAIT_S:g} s", RETRY) from None
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
            if not mine.done():  # else whoever waited has gone
                self._take(following)
                mine.set_result(None)

    def _following(self) -> str | None:
        """Of those that wait and hold less than they may, the one whose turn is longest ago."""
        return next((tenant for tenant in self._waiting if self._held[tenant] < self._each), None)

    def _forget(self, tenant: str, mine: asyncio.Future[None]) -> None:
        if mine in self._waiting.get(tenant, ()):
            self._waiting[tenant].remove(mine)
            self._clear(tenant)

    def _clear(self, tenant: str) -> None:
        if not self._waiting[tenant]:
            del self._waiting[tenant]


def in_turn(route: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """A route that blocks, for `tenant`: done in a thread, once it is the tenant's turn at reading."""

    @wraps(route)
    async def run(*args: P.args, **named: P.kwargs) -> T:
        request: Any = named["request"]
        turns: Turns = request.app.state.reading
        return await turns.run(str(named["tenant"]), partial(route, *args, **named))

    return run
