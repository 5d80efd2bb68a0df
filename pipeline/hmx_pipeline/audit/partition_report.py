"""Report of one events partition: outcomes, violations, and what is still open about misrouted records.

Enters: outcomes and violations, from `audit/partition_conservation`. Leaves: counts and the first 1,000 violations, for
the reports on top of it.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.topology import EVENTS

VIOLATIONS_KEPT: Final = 1_000


class ViolationKind(StrEnum):
    MISSING = "missing"
    """A record without an outcome: no output, not waiting, no earlier copy."""
    DOUBLED = "doubled"
    """A record with two outcomes."""
    MISPLACED = "misplaced"
    """An output in another partition than its origin's, or a copy in another partition than its session's."""
    UNFOUNDED = "unfounded"
    """An output, copy or waiting event whose origin does not exist or did not call for it."""
    NAMELESS = "nameless"
    """An output without origin headers."""
    ALTERED = "altered"
    """An output whose content is not what its origin produces."""
    WRONG_OUTCOME = "wrong_outcome"
    """An episode of an invalid or misrouted record, or a valid event rejected for a reason that does not apply."""


Place = tuple[int, int]
"""Partition and offset."""


class Violation(NamedTuple):
    fault: ViolationKind
    topic: str
    """The topic of `partition` and `offset`."""
    partition: int
    offset: int
    detail: str


class ReroutedCopy(NamedTuple):
    """The copy of a rerouted record, in the partition of its session."""

    place: Place
    digest: bytes


class MisroutedCopy(NamedTuple):
    """A valid event in a partition that is not its session's."""

    belongs: int
    """The partition of its session."""
    digest: bytes
    """Digest of the expected copy."""


class Reroutes(NamedTuple):
    """All rerouted copies in the events topic."""

    copies: Mapping[Place, ReroutedCopy] = {}
    """Original place → its first copy."""
    trimmed: frozenset[int] = frozenset()
    """Partitions whose first records retention deleted."""


class FoundOutcome(NamedTuple):
    """An outcome of the record to be explained."""

    outcome: Outcome
    by: Place | None = None
    """The proof: the output, the original of a duplicate, or the copy of a rerouted record."""


@dataclass
class PartitionReport:
    partition: int
    low: int
    position: int
    outcomes: Counter[str] = field(default_factory=Counter)
    rejections: Counter[str] = field(default_factory=Counter)
    pending: int = 0
    """Number of records that the stage has not read yet."""
    unverified: int = 0
    """Number of records whose output or original retention may have deleted."""
    violations: list[Violation] = field(default_factory=list)
    """The first `VIOLATIONS_KEPT` violations."""
    faults: Counter[str] = field(default_factory=Counter)
    erased: int = 0
    """Number of released records whose episodes are erased: no answer is made from them any more."""
    asked: int | None = None
    """Offset of the record to be explained."""
    found: list[FoundOutcome] = field(default_factory=list)
    """Outcomes of the record to be explained."""
    horizon: int = 0
    """Retention may have deleted the outputs of records below this offset."""
    astray: dict[int, MisroutedCopy] = field(default_factory=dict)
    """Offset → misrouted event whose outcome is still open."""
    copies: dict[Place, ReroutedCopy] = field(default_factory=dict)
    """Original place → its first copy in this partition."""

    def as_json(self) -> dict[str, Any]:
        told = {
            name: getattr(self, name) for name in ("partition", "low", "position", "pending", "unverified", "erased")
        }
        return {**told, "outcomes": plain(self.outcomes)}

    def settle(self, outcome: Outcome, offset: int, by: Place | None = None) -> None:
        self.outcomes[outcome] += 1
        if offset == self.asked:
            self.found.append(FoundOutcome(outcome, by))

    def violate(self, fault: ViolationKind, topic: str, record: Place, detail: str) -> None:
        self.faults[fault] += 1
        if len(self.violations) < VIOLATIONS_KEPT or (topic == EVENTS and record == (self.partition, self.asked)):
            self.violations.append(Violation(fault, topic, *record, detail))

    def without(self, offset: int, horizon: int, detail: str) -> None:
        if offset < horizon:
            self.unverified += 1
        else:
            self.violate(ViolationKind.MISSING, EVENTS, (self.partition, offset), detail)


def plain(counts: Counter[str]) -> dict[str, int]:
    """For JSON, the most frequent first."""
    return {str(name): count for name, count in counts.most_common()}
