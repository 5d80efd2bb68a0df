"""Change point detection in yes/no sequences: since when things differ, and the share since then.

Input: True or False in time order. Output: the index since which things differ, 0 if they always were alike (`turned`);
or the share of True since then (`share_now`). A change point is accepted if two shares explain the sequence clearly
better than one (log-likelihood ratio). Among many sequences and times some look changed by luck, so the threshold grows
with their number.
"""

from collections.abc import Collection, Sequence
from math import log
from typing import Final

_CLEARLY: Final = 2.8  # threshold of the log-likelihood ratio, in nats
_APART: Final = 0.5
_SINCE: Final = 2
_SINCE_AMONG_MANY: Final = 3  # two in a row occur by luck among many sequences


def share_now(seen: Sequence[bool], among: int = 1, known: Collection[int] = ()) -> float:
    """Return the share since the last change point, in time order. `among`: number of sequences examined; `known`:
    times at which a change is known from elsewhere."""
    turn = turned(seen, among, known)
    lately = seen[turn:]
    return sum(lately) / len(lately) if lately else 0.0


def turned(seen: Sequence[bool], among: int = 1, known: Collection[int] = ()) -> int:
    """Return the best change point; 0 if there is none."""
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
    """Return the log-likelihood at the observed share."""
    return sum(k * log(k / times) for k in (held, times - held) if k)
