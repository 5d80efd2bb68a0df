"""Work in turns: the next key of work that is too large for one transaction; the caller's state keeps the keys.

Enters: the keys of the work that is left. Leaves: the first of them in sorted order, also after a restart.
"""

from collections.abc import Iterable


class WorkTurns:
    """Yields keys in order, one per turn. Nothing else happens between turns, so the set of keys only shrinks. After a
    restore the remaining keys are sorted again, which gives the same order."""

    def __init__(self) -> None:
        self._rest: list[str] = []

    def next_of(self, left: Iterable[str]) -> str:
        """Return the first of the remaining keys, which must not be empty; the caller removes it."""
        if not self._rest:
            self._rest = sorted(left, reverse=True)
        return self._rest.pop()
