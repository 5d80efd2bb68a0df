"""What the verifier says: faults, each with its place, and how to find them between two lists."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

_SHOWN: Final = 300
"""Characters of a value."""


class Kind(StrEnum):
    LOST = "lost"
    """It must be there and is not."""
    DOUBLED = "doubled"
    """It is there more often than it must."""
    DIFFERING = "differing"
    """It is there and says something else."""
    DISORDERED = "disordered"
    """All of it is there, in another order."""
    UNFOUNDED = "unfounded"
    """It is there and nothing accounts for it."""
    BEHIND = "behind"
    """Not everything has been read, written or settled yet, or can be verified any more."""


class Fault(NamedTuple):
    kind: Kind
    where: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.kind} {self.where}: expected {self.expected}, found {self.found}"


@dataclass
class Report:
    faults: list[Fault] = field(default_factory=list)
    records: int = 0
    """Of the events topic."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """As the reference says; a rejection is `rejected.<reason>`."""
    compared: Counter[str] = field(default_factory=Counter)
    """How much of what has been looked at."""

    @property
    def clean(self) -> bool:
        return not self.faults

    @property
    def lost(self) -> int:
        return self._of(Kind.LOST)

    @property
    def doubled(self) -> int:
        return self._of(Kind.DOUBLED)

    @property
    def differing(self) -> int:
        """Everything else that is wrong."""
        return len(self.faults) - self.lost - self.doubled

    def add(self, kind: Kind, where: str, expected: Any, found: Any) -> None:
        self.faults.append(Fault(kind, where, shown(expected), shown(found)))

    def same(self, where: str, expected: Any, found: Any) -> None:
        """A fault unless both are equal; where one of them is None, it is missing."""
        if expected == found:
            return
        kind = Kind.LOST if found is None else Kind.UNFOUNDED if expected is None else Kind.DIFFERING
        self.add(kind, where, expected, found)

    def _of(self, kind: Kind) -> int:
        return sum(fault.kind is kind for fault in self.faults)


def shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bytes):
        value = value.decode(errors="backslashreplace")
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


def difference(expected: bytes, found: bytes) -> tuple[str, str]:
    """Both from a little before the first byte in which they differ."""
    at = next(
        (i for i, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b), min(len(expected), len(found))
    )
    start = max(0, at - 40)
    lead = "…" if start else ""
    return lead + shown(expected[start:]), lead + shown(found[start:])


class Item(NamedTuple):
    """One record of an output: what it is about, what it says, and how to call it."""

    about: Hashable
    """Where several are about the same, the first belongs to the first, and so on."""
    says: Any
    name: str


def align(
    report: Report,
    where: str,
    expected: Sequence[Item],
    found: Sequence[Item],
    differ: Callable[[Any, Any], tuple[str, str] | None],
) -> None:
    """What is missing, too many, otherwise or in another order. `differ` says how two differ; None: they don't."""
    there: dict[Hashable, list[tuple[int, Item]]] = defaultdict(list)
    for place, item in enumerate(found):
        there[item.about].append((place, item))
    known: set[Hashable] = set()
    places: list[int] = []
    for item in expected:
        known.add(item.about)
        candidates = there[item.about]
        if not candidates:
            report.add(Kind.LOST, f"{where} {item.name}", "one", "none")
            continue
        place, other = candidates.pop(0)
        places.append(place)
        if (both := differ(item.says, other.says)) is not None:
            report.add(Kind.DIFFERING, f"{where} {other.name}", *both)
    for about, left in there.items():
        for _, item in left:
            report.add(Kind.DOUBLED if about in known else Kind.UNFOUNDED, f"{where} {item.name}", "none", "one more")
    _order(report, where, places, found)


def _order(report: Report, where: str, places: list[int], found: Sequence[Item]) -> None:
    """One fault for each run of places that do not ascend."""
    right = sorted(places)
    wrong = [i for i, place in enumerate(places) if place != right[i]]
    for n, i in enumerate(wrong):
        if n == 0 or wrong[n - 1] != i - 1:
            report.add(Kind.DISORDERED, f"{where} {found[right[i]].name}", f"{found[places[i]].name} here", "this one")
