"""Layouts beside each other: a new one is filled while the old one serves, and goes once nobody uses it.

Processes note when they use their layout. Enters: one Redis. Leaves: keys of layouts that nobody has used for UNUSED_S
are deleted, in pages; positions first, so that readers learn at once that memory is gone. Raises StoreUnavailableError.
"""

import time
from typing import Final

from hmx_pipeline.store.atomic_blocks import Client, StoreUnavailableError, reachable
from hmx_pipeline.store.redis_keys import Keys

UNUSED_S: Final = 15 * 60
USED_S: Final = 30.0
"""How often a process notes its use."""
ROUND_S: Final = 60.0
STEP_S: Final = 0.03
PAGE: Final = 1_000
FIRST: Final = ("positions", "goals", "topics")


class ReplacedError(StoreUnavailableError):
    """This layout is being filled, and another one is there, whose processes serve."""


class Layouts:
    """Thread-safe but for `clear`."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._own = keys.root.encode()
        self._used = -USED_S
        self._cursor = 0
        self._due = 0.0
        self._searched = False
        """Whether a round has looked for layouts of versions that noted no use."""
        self._old = set[bytes]()
        """Layouts that the round deletes."""

    def use(self) -> None:
        """Notes that this process uses its layout."""
        if time.monotonic() - self._used >= USED_S:
            with reachable():
                self._client.hset(self._keys.layouts, self._own, self._client.time()[0])
            self._used = time.monotonic()

    def replaces(self) -> bool:
        """Returns whether another layout is there, whose processes may still serve."""
        with reachable():
            return any(name != self._own for name in self._client.hkeys(self._keys.layouts))

    def clear(self) -> None:
        """Looks at some keys, for whoever has filled this layout; deletes those of layouts out of use."""
        until = time.monotonic() + STEP_S
        if not self._cursor and self._searched and self._due <= time.monotonic() and not self.replaces():
            self._due = time.monotonic() + ROUND_S
        while self._due <= time.monotonic() < until:
            with reachable():
                if not self._cursor:
                    self._begin()
                self._page()
                if not self._cursor:
                    self._end()

    def _unused(self) -> set[bytes]:
        (now, _), noted = self._client.time(), self._client.hgetall(self._keys.layouts)
        return {name for name, at in noted.items() if name != self._own and now - int(at) > UNUSED_S}

    def _begin(self) -> None:
        self._old = self._unused()
        for name in self._old:
            self._client.unlink(*(b"%b:%b" % (name, kind.encode()) for kind in FIRST))

    def _page(self) -> None:
        self._old &= self._unused()  # a process of the version before may have come back, and fills it anew
        start = self._keys.layouts.rpartition(b":")[0] + b":"
        self._cursor, page = self._client.scan(self._cursor, match=start + b"*", count=PAGE)
        roots = {key: start + key[len(start) :].partition(b":")[0] for key in page if key != self._keys.layouts}
        if gone := [key for key, root in roots.items() if root in self._old]:
            self._client.unlink(*gone)
        for root in {*roots.values()} - self._old - {self._own}:  # of a version that noted no use
            self._client.hsetnx(self._keys.layouts, root, self._client.time()[0])

    def _end(self) -> None:
        if self._old:
            self._client.hdel(self._keys.layouts, *self._old)
        self._due, self._searched = time.monotonic() + ROUND_S, True
