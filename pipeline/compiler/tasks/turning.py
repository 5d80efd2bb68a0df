"""Whether things are otherwise since some time. In: how it was, time after time. Out: since when, and how it is by now.

By counting alone: it has turned where two shares, before and after, tell what was seen clearly better than one. Of many
things that are looked at, over many times, some look turned by luck; so each has to tell the more, the more there are.
"""

from collections.abc import Collection, Sequence
from math import log
from typing import Final

_CLEARLY: Final = 2.8  # by so much, in nats, two shares must tell more than one
_APART: Final = 0.5
_SINCE: Final = 2
_SINCE_AMONG_MANY: Final = 3  # twice in a row some of many things are seen by luck


def share_now(seen: Sequence[bool], among: int = 1, known: Collection[int] = ()) -> float:
    """How often it holds by now, of times in order: since it turned, where it clearly turned. `among`: so many things
    are looked at; `known`: from these times on something is otherwise, as is known from elsewhere."""
    turn = turned(seen, among, known)
    lately = seen[turn:]
    return sum(lately) / len(lately) if lately else 0.0


def turned(seen: Sequence[bool], among: int = 1, known: Collection[int] = ()) -> int:
    """Since when it is otherwise than before, by what two shares tell better than one; 0 where it has not turned."""
    n, total, ahead, found = len(seen), sum(seen), 0, (0.0, 0)
    since = _SINCE if among == 1 else _SINCE_AMONG_MANY
    for at in range(1, n):
        ahead += seen[at - 1]
        least = _CLEARLY if at in known or among == 1 else _CLEARLY + log(among * n)
        if n - at >= (_SINCE if at in known else since) and abs(ahead / at - (total - ahead) / (n - at)) >= _APART:
            told = _told(ahead, at) + _told(total - ahead, n - at) - _told(total, n)
            if told >= least:
                found = max(found, (round(told, 6), at))
    return found[1]


def _told(held: int, times: int) -> float:
    """The logarithm of how likely so many are, if that is how often it holds."""
    return sum(k * log(k / times) for k in (held, times - held) if k)
