"""Liveness for `/livez`: how late event loop and thread pool are, and how long the oldest request has been running.

Enters: the process's `FairTurns`. Leaves: why it is stuck, or None, and the metric `hmx_http_thread_wait_seconds`.
Every second a task runs a no-op in a thread; its delay is what each request waits. Now and then the thread returns free
memory to the system: glibc kept 111 MB for 46 MB in use, and growing.
"""

import asyncio
import itertools
import time
from collections.abc import Sequence
from typing import Final

from fastapi.concurrency import run_in_threadpool

from hmx_pipeline.observe.allocator import give_back
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.service.fair_turns import FairTurns

EVERY_S: Final = 1.0
GIVE_BACK: Final = 20
"""Beats between returning memory, which takes some milliseconds."""
LATE_S: Final = 5.0
"""Thread delay above which the service counts as stuck."""
STUCK_S: Final = 60.0
"""Longest plausible work; bounds and timeouts end all work sooner."""


class Liveness:
    def __init__(self, turns: Sequence[FairTurns]) -> None:
        self._turns = turns
        self._due = time.monotonic()
        self._late = 0.0

    async def beat(self) -> None:
        """Runs until cancelled."""
        for beat in itertools.count(1):
            self._due = time.monotonic() + EVERY_S
            await asyncio.sleep(EVERY_S)
            await run_in_threadpool(time.monotonic)
            self._late = time.monotonic() - self._due
            METRICS.thread_wait.set(self._late)
            if beat % GIVE_BACK == 0:
                await run_in_threadpool(give_back)

    def why_not(self) -> str | None:
        """Returns why the process is stuck, or None."""
        late = max(self._late, time.monotonic() - self._due)
        if late > LATE_S:
            return f"requests wait {late:.0f} s for a thread"
        longest = max(turns.longest_s() for turns in self._turns)
        return f"a request has been running for {longest:.0f} s" if longest > STUCK_S else None
