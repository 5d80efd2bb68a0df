"""Turns at what only a few may do at the same time.

Enters: their places. Fails: ProblemError for whoever has waited too long for one.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from pipeline.service.problems import RETRY, Kind, ProblemError

WAIT_S: Final = 10.0
"""As long as packs of one tenant wait for each other. Without it, whoever asks while Redis hangs would wait for all who
have asked before."""


@asynccontextmanager
async def turn(places: asyncio.Semaphore) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(WAIT_S):
            await places.acquire()
    except TimeoutError:
        raise ProblemError(Kind.BUSY, f"there was no turn within {WAIT_S:g} s", RETRY) from None
    try:
        yield
    finally:
        places.release()
