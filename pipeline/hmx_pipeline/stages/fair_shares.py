"""Fair shares of a bounded resource: who has the most, and so must give way first.

Enters: changes of an amount by name, such as a tenant's bytes. Leaves: the total, a name's amount, and the name that
has most. The result depends on the amounts only, not on how they came about; among equals the first name counts.
"""

from heapq import heapify, heappop, heappush
from typing import Final

_STALE: Final = 1_024


class FairShares:
    def __init__(self) -> None:
        self.total = 0
        self._amounts: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []
        """Negated amounts, with stale entries."""

    def of(self, name: str) -> int:
        return self._amounts.get(name, 0)

    def add(self, name: str, by: int) -> None:
        self.total += by
        amount = self._amounts.get(name, 0) + by
        if amount:
            self._amounts[name] = amount
            heappush(self._heap, (-amount, name))
        else:
            self._amounts.pop(name, None)
        if len(self._heap) > 2 * len(self._amounts) + _STALE:
            self._heap = [(-amount, name) for name, amount in self._amounts.items()]
            heapify(self._heap)

    def most(self) -> str:
        """Return the name with the highest amount; at least one must have something."""
        while -self._heap[0][0] != self._amounts.get(self._heap[0][1]):
            heappop(self._heap)
        return self._heap[0][1]
