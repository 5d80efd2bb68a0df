"""Minting of event ids, times and session sequences for captures (Y07, Y25).

Enters: a tenant and its sessions, while captures are appended to them. Leaves: rising sequences with their times (ms),
and UUIDv7 ids. Raises ProblemError if a session can't be held within 10 s. A sequence is a hybrid logical clock:
milliseconds since 2020 and a 12-bit counter, below 2^53 until 2089 so that doubles hold it. It only orders events by
arrival, so no window waits for its gaps. A process holds a session while it appends: so sequences rise strictly in the
log across processes, even if Redis is emptied. While Redis does not answer, captures to sessions that this process does
not hold wait, and are then refused.
"""

import asyncio
import secrets
import time
import uuid
import weakref
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Final, NamedTuple

from hmx_pipeline.service.fair_turns import FairTurns
from hmx_pipeline.service.problems import RETRY, ProblemError, ProblemKind, unavailable
from hmx_pipeline.store.atomic_blocks import StoreUnavailableError
from hmx_pipeline.store.capture_coordination import CaptureCoordination

EPOCH_MS: Final = 1_577_836_800_000
"""2020-01-01T00:00:00Z"""
COUNTER_BITS: Final = 12
HOLD_S: Final = 0.05
"""A process that held a session this long lets another one have it."""
RENEW_S: Final = 1.0
"""A hold older than this may expire before the append ends, so it is renewed first."""
WAIT_S: Final = 10.0
LOOK_S: Final = (0.002, 0.02)
AWAY_S: Final = 0.5
"""Pause between attempts at a Redis that does not answer."""


class Minted(NamedTuple):
    sequence: int
    ms: int
    """Its time (ms since 1970); never goes back with the machine's clock."""


LONGEST: Final = Minted(2**53 - 1, EPOCH_MS)
"""The longest values, used to check sizes before minting."""


class Hold:
    """A session held by this process; `token` identifies the hold to other processes."""

    def __init__(self, first: int, token: str) -> None:
        self.token = token
        self.last = first - 1
        self.users = 0
        self.left = asyncio.Event()
        self._since = time.monotonic()

    @property
    def open(self) -> bool:
        """Whether more captures may join."""
        return time.monotonic() < self._since + HOLD_S

    @property
    def old(self) -> bool:
        return time.monotonic() > self._since + RENEW_S

    def renew(self, first: int) -> None:
        self.last = max(self.last, first - 1)
        self._since = time.monotonic()

    def next(self) -> Minted:
        """Mints the next sequence of the session."""
        self.last += 1
        return Minted(self.last, (self.last >> COUNTER_BITS) + EPOCH_MS)


class Holds:
    """Sessions held by this process, for one event loop."""

    def __init__(self, capturing: CaptureCoordination, turns: FairTurns) -> None:
        self._capturing = capturing
        self._turns = turns
        self._held: dict[tuple[str, str], Hold] = {}
        self._gates: weakref.WeakValueDictionary[tuple[str, str], asyncio.Lock] = weakref.WeakValueDictionary()

    @asynccontextmanager
    async def of(self, tenant: str, sessions: Collection[str]) -> AsyncIterator[Mapping[str, Hold]]:
        """Holds sessions. Raises ProblemError if another process holds one too long, or Redis does not answer."""
        holds: dict[str, Hold] = {}
        async with AsyncExitStack() as gates:
            for session in sorted(sessions):
                gate = self._gates.setdefault((tenant, session), asyncio.Lock())
                await gates.enter_async_context(gate)
            held = [self._held.get((tenant, session)) for session in sessions]
            if not all(hold is not None and hold.open for hold in held):
                for hold in held:  # hold none while waiting, or two processes could deadlock
                    if hold is not None:
                        await hold.left.wait()
                token = secrets.token_hex(8)
                for session, first in (await self._enter(tenant, token, sorted(sessions))).items():
                    self._held[tenant, session] = Hold(first, token)
            for session in sessions:
                holds[session] = self._held[tenant, session]
                holds[session].users += 1
        try:
            yield holds
        finally:
            await asyncio.shield(self._leave(tenant, holds))

    async def renew(self, tenant: str, holds: Mapping[str, Hold]) -> None:
        """Renews expiring holds before minting. Raises as `of`."""
        while old := {session: hold for session, hold in holds.items() if hold.old}:
            token = next(iter(old.values())).token
            same = sorted(session for session, hold in old.items() if hold.token == token)
            for session, first in (await self._enter(tenant, token, same)).items():
                holds[session].renew(first)

    async def _enter(self, tenant: str, token: str, sessions: list[str]) -> dict[str, int]:
        deadline, pause = time.monotonic() + WAIT_S, LOOK_S[0]
        while True:
            why_not = ProblemError(
                ProblemKind.BUSY, "another process is appending to the session: send it again", RETRY
            )
            try:
                first = await self._turns.run(tenant, self._capturing.enter, tenant, token, sessions)
            except StoreUnavailableError as error:
                detail = f"{error}: the session could not be locked, so nothing was taken. Send it again"
                first, why_not, pause = {}, unavailable(ProblemKind.REDIS_UNAVAILABLE, detail), AWAY_S
            if first:
                return first
            if time.monotonic() + pause > deadline:
                raise why_not
            await asyncio.sleep(pause)
            pause = min(2 * pause, LOOK_S[1])

    async def _leave(self, tenant: str, holds: Mapping[str, Hold]) -> None:
        done: dict[str, dict[str, int]] = {}
        for session, hold in holds.items():
            hold.users -= 1
            if not hold.users:
                done.setdefault(hold.token, {})[session] = hold.last
        for token, last in done.items():
            for session in last:
                del self._held[tenant, session]
            try:
                with suppress(StoreUnavailableError, ProblemError):  # the hold then expires by itself
                    await self._turns.run(tenant, self._capturing.leave, tenant, token, last)
            finally:
                for session in last:
                    holds[session].left.set()


def random_id(ms: int) -> str:
    """Returns a UUIDv7."""
    value = (ms & 0xFFFFFFFFFFFF) << 80 | 7 << 76 | secrets.randbits(12) << 64 | 0b10 << 62 | secrets.randbits(62)
    return str(uuid.UUID(int=value))
