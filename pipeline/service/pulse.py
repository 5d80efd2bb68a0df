"""Whether the process still does what it is asked: `/livez` asks.

Each second a task has a thread do nothing. Its delay is what every request waits for the event loop and for a thread.
Now and then the thread gives free memory back to the system: glibc keeps what lies between pieces that stay, and a
service that holds 46 MB in such pieces took 111 MB, and more every minute.
"""

import asyncio
import itertools
import time
from collections.abc import Sequence
from typing import Final

from fastapi.concurrency import run_in_threadpool

from pipeline.observe.allocator import give_back
from pipeline.observe.metrics import METRICS
from pipeline.service.turns import Turns

EVERY_S: Final = 1.0
GIVE_BACK: Final = 20
"""Once in so many beats; it takes some milliseconds."""
LATE_S: Final = 5.0
"""Requests that wait so long for a thread are as good as not answered."""
STUCK_S: Final = 60.0
"""No work takes so long: what is bounded ends sooner, what waits for Redis or Kafka gives up sooner."""


class Pulse:
    def __init__(self, turns: Sequence[Turns]) -> None:
        self._turns = turns
        self._due = time.monotonic()
        self._late = 0.0

    async def beat(self) -> None:
        """Until it is cancelled."""
        for beat in itertools.count(1):
            self._due = time.monotonic() + EVERY_S
            await asyncio.sleep(EVERY_S)
            await run_in_threadpool(time.monotonic)
            self._late = time.monotonic() - self._due
            METRICS.thread_wait.set(self._late)
            if beat % GIVE_BACK == 0:
                await run_in_threadpool(give_back)

    def why_not(self) -> str | None:
        """None where the process is well."""
        late = max(self._late, time.monotonic() - self._due)
        if late > LATE_S:
            return f"requests wait {late:.0f} s for a thread"
        longest = max(turns.longest_s() for turns in self._turns)
        return f"work has been under way for {longest:.0f} s and does not end" if longest > STUCK_S else None
