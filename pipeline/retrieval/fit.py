"""How well a question and what a procedure has to be told fit each other. Pure; nothing fails.

Enters: a question's words and the shapes of its ids, and a procedure's slots. Leaves: which share of the values that
come from the wish the question seems to hold, times which share of its ids the procedure takes; 0 to 1.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from pipeline.contracts.limits import MB
from pipeline.contracts.remembered import remembered
from pipeline.retrieval.terms import shapes

_UNKNOWN: Final = 0.5


def fit(slots: Mapping[str, Any], words: Collection[str], looks: Collection[str]) -> float:
    """`words` in lower case, `looks` as `retrieval.terms.shapes` has them."""
    needed = [slot["like"] for slot in slots.values() if slot["source"] == "goal"]
    held = sum(_held(like, words, looks) for like in needed) / len(needed) if needed else 1.0
    taken = {look for like in needed for value in like for look in _looks(value)}
    return held * (sum(look in taken for look in looks) / len(looks) if looks else 1.0)


def takes(slots: Mapping[str, Any], looks: Collection[str]) -> bool:
    """Whether a value that comes from the wish looks like an id of the question."""
    return bool(looks) and any(
        not _looks(value).isdisjoint(looks)
        for slot in slots.values()
        if slot["source"] == "goal"
        for value in slot["like"]
    )


def _held(like: Collection[str], words: Collection[str], looks: Collection[str]) -> float:
    """A name that is in no list may be one all the same; an id that looks otherwise is none."""
    if any(value.casefold() in words or not _looks(value).isdisjoint(looks) for value in like):
        return 1.0
    return 0.0 if any(map(_looks, like)) else _UNKNOWN


@remembered(MB)
def _looks(value: str) -> frozenset[str]:
    return frozenset(shapes(value))
