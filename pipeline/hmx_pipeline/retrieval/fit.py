"""How well a question and what a procedure has to be told fit each other. Pure; nothing fails.

Enters: a question as it is written, and a procedure's slots and goals. Leaves: which of the question's words stand for
which slots, and how far the slots are filled. A word fills a slot if it is one of its values or looks like its ids, if
it is a value of another procedure's slot that has some values in common with it, or if an earlier wish has it between
the same words as a goal has the slot.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from functools import cached_property
from typing import Any, Final, NamedTuple

from hmx_pipeline.contracts.artifact import STANDARD_TYPES, Artifact
from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.retrieval.terms import STOP_WORDS, masks, shapes

_WORDS: Final = 64
"""Most words of a question that are read."""
WISHES: Final = 64
_UNKNOWN: Final = 0.5
_WRITTEN: Final = re.compile(r"[^\W_](?:[\w./:@+-]*\w)?")
_PIECES: Final = re.compile(rf"<[^<>]*>|{_WRITTEN.pattern}")
_KIN: Final = 2
"""Two slots that have so many names in common take the same things."""
_ID: Final = re.compile(r"\d")
_ENDING: Final = re.compile("^([^\u2e80-\U0010ffff]+)[\u2e80-\U0010ffff]+$")
"""What some languages add to a word in Latin letters."""


class Bound(NamedTuple):
    sure: Mapping[str, str]
    """Slot → the word that is a known value, or an id of a known shape."""
    filled: float
    """Share of filled slots, 0 to 1; 1 if there are no slots."""

    def share(self, claimed: int) -> float:
        """Return how well the question fits. `claimed`: how many of its words the compared procedures claim
        together."""
        return self.filled * (len(self.sure) / claimed if claimed else 1.0)


UNBOUND: Final = Bound({}, 1.0)
Around = Mapping[str, frozenset[tuple[str, str]]]
"""Word → the pairs of words before and after it; "" at an end."""


class Question:
    """A question's words as they are written, between which words earlier wishes had them, and beside which other names
    procedures take them."""

    def __init__(self, text: str, wishes: Iterable[str] = (), procedures: Iterable[Mapping[str, Any]] = ()) -> None:
        self.written = _WRITTEN.findall(text)[:_WORDS]
        self.low = [word.casefold() for word in self.written]
        self.bare = [_ENDING.sub(r"\1", word) for word in self.written]
        self.looks = [{_looks(word), " ".join(masks(word))} - {""} for word in self.bare]
        self._wishes = wishes
        names = self._names = {
            word for word in self.low if len(word) > 1 and word not in STOP_WORDS and not _ID.search(word)
        }
        self.taken: dict[str, set[frozenset[str]]] = defaultdict(set)
        for _, like in (slot for content in procedures for slot in _wished(content.get("slots", {}))):
            for word in like.names.intersection(names):
                self.taken[word].add(like.names)

    @cached_property
    def heard(self) -> Mapping[str, Set[tuple[str, str]]]:
        """Word → the pairs of words beside it in the wishes."""
        found: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for wish in self._wishes:
            said = ["", *(word.casefold() for word in _WRITTEN.findall(wish)[:_WORDS]), ""]
            for i in range(1, len(said) - 1):
                if said[i] in self._names:
                    found[said[i]].add((said[i - 1], said[i + 1]))
        return found

    def beside(self, at: int) -> tuple[str, str]:
        return self.low[at - 1] if at else "", self.low[at + 1] if at + 1 < len(self.low) else ""


def bound(content: Mapping[str, Any], question: Question) -> Bound:
    slots = dict(_wished(content.get("slots", {})))
    if not slots:
        return UNBOUND
    around = _around(tuple(content.get("goals", ())))
    pairs = sorted(
        (-strength, at, place, name)
        for place, (name, like) in enumerate(slots.items())
        for at in range(len(question.written))
        if (strength := _strength(question, at, like, around.get(name, frozenset())))
    )
    sure: dict[str, str] = {}
    taken: set[int] = set()
    for _, at, _, name in pairs:
        if at not in taken and name not in sure:
            taken.add(at)
            named = question.low[at] in slots[name].names
            sure[name] = question.written[at] if named else question.bare[at]
    # an unknown name may still be there; an id of another shape is not
    filled = sum(1.0 if name in sure else (0.0 if like.looks else _UNKNOWN) for name, like in slots.items())
    return Bound(sure, filled / len(slots))


def _strength(question: Question, at: int, like: "_SlotValues", around: frozenset[tuple[str, str]]) -> int:
    """Return how surely the word fills the slot, 0 to 3; 0 means that nothing says so."""
    word = question.low[at]
    kin = any(len(like.names & others) >= _KIN for others in question.taken.get(word, ()))
    if kin or word in like.names or not like.looks.isdisjoint(question.looks[at]):
        before, after = question.beside(at)
        return 2 + any((before and before == b) or (after and after == a) for b, a in around)
    return int(bool(around) and not like.looks and not around.isdisjoint(question.heard.get(word, ())))


class _SlotValues(NamedTuple):
    names: frozenset[str]
    looks: frozenset[str]


def taken(artifact: Artifact, looks: Collection[str]) -> bool:
    """Return True if a slot that is filled from the goal takes ids of these shapes. Contents of custom types are not
    checked, so theirs are not read."""
    if not looks or artifact.artifact_type not in STANDARD_TYPES:
        return False
    return any(not like.looks.isdisjoint(looks) for _, like in _wished(artifact.content.get("slots", {})))


def _wished(slots: Mapping[str, Any]) -> Iterator[tuple[str, "_SlotValues"]]:
    """Yield the slots that are filled from the goal."""
    return ((name, _values(tuple(slot["like"]))) for name, slot in slots.items() if slot["source"] == "goal")


@remembered(MB)
def _values(like: tuple[str, ...]) -> _SlotValues:
    return _SlotValues(frozenset(map(str.casefold, like)), frozenset(looks for each in like if (looks := _looks(each))))


def _looks(word: str) -> str:
    """Return the shape of an id or number; empty for other words."""
    return "0" if word.isdecimal() else " ".join(shapes(word))


@remembered(MB)
def _around(goals: tuple[str, ...]) -> Around:
    """Return slot → the pairs of words before and after it in the goals."""
    found: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for goal in goals:
        pieces = ["", *(piece if piece[0] == "<" else piece.casefold() for piece in _PIECES.findall(goal)), ""]
        for before, piece, after in zip(pieces, pieces[1:], pieces[2:], strict=False):
            if piece[:1] == "<" and (before or after):
                found[piece[1:-1]].add((before, after))
    return {name: frozenset(own) for name, own in found.items()}
