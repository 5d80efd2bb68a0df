"""Blocks ahead: a thread writes blocks one after the other, while the caller makes the next ones.

Enters: tasks. Leaves: their errors, raised to whoever waits. No task is begun after one that failed, until `drop`.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Final

AHEAD: Final = 2
"""Blocks that are written or wait for it while another is made: blocks differ in size, so one alone often ends before
the next is there."""


class BlocksAhead:
    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "blocks")
        self._left: deque[Future[None]] = deque()

    def add(self, task: Callable[[], None]) -> None:
        self.wait(AHEAD - 1)
        before = self._left[-1] if self._left else None
        self._left.append(self._thread.submit(_after, before, task))

    def wait(self, most: int = 0) -> None:
        """Waits until no more than so many tasks are left. Raises the first error."""
        while len(self._left) > most:
            self._left.popleft().result()

    def drop(self) -> None:
        """Waits for what runs, and forgets its errors and what came after them."""
        with suppress(Exception):
            self.wait()
        self._left.clear()

    def close(self) -> None:
        self._thread.shutdown()


def _after(before: Future[None] | None, task: Callable[[], None]) -> None:
    if before is not None:
        before.result()  # raises its error
    task()
