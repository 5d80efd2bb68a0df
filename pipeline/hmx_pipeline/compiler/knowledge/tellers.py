"""Shares of tellers in a segment: whoever says most takes no place from another.

Input: what was said, in order, and who said it. Output: the same within its bounds, still in order.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, TypeVar

import orjson

from hmx_pipeline.contracts.limits import KB, SEGMENT_STATEMENTS

Item = TypeVar("Item")
Teller = Callable[[Item], Hashable]
_EACH: Final = 8
_BYTES: Final = 32 * KB
"""Of what several tellers say about one thing, as JSON: with ids and names it stays below CONTRIBUTION_BYTES."""


def last_of_each(said: Sequence[Item], teller: Teller[Item]) -> list[Item]:
    """Return the last that each teller says about one thing. Where several say too much, they keep equally many, and
    the shortest of those."""
    heard = Counter[Hashable]()
    ranked: list[tuple[int, int, int]] = []
    for place in reversed(range(len(said))):
        who = teller(said[place])
        if heard[who] < _EACH:
            ranked.append((heard[who], place, _size(said[place])))
        heard[who] += 1
    if len(heard) > 1:
        room = _BYTES
        by_share = sorted(ranked, key=lambda one: (one[0], one[2], -one[1]))
        ranked = [one for one in by_share if (room := room - one[2]) >= 0]
    return [said[place] for place in sorted(place for _, place, _ in ranked)]


def _size(one: Any) -> int:
    return len(orjson.dumps(one, default=tuple))


def first_of_each(said: Mapping[str, Sequence[Item]], teller: Teller[Item]) -> list[str]:
    """Return the first SEGMENT_STATEMENTS things that are spoken of: each teller's first, then each one's second."""
    if len(said) <= SEGMENT_STATEMENTS:
        return list(said)
    spoke, rank = Counter[Hashable](), dict[str, int]()
    for key, told in said.items():
        tellers = {teller(one) for one in told}
        rank[key] = min(spoke[who] for who in tellers)
        spoke.update(tellers)
    kept = set(sorted(said, key=rank.__getitem__)[:SEGMENT_STATEMENTS])
    return [key for key in said if key in kept]
