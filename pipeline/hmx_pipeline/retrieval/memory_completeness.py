"""Memory completeness: whether memory was filled up to the ends that its topics had when the fill began.

Input: of each partition the position and the range that the fill reads (`store/fill_progress` builds it), and the kinds
of damaged keys. Output: a `Completeness`: complete or not, percent, what retention had deleted, and a pack's metadata.
What comes after those ends is lag. `WHOLE` is the default where nothing is known to be missing.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple


class Progress(NamedTuple):
    """Offsets of one partition: memory holds everything below `position`, and is filled from `start` to `end`."""

    position: int
    start: int
    end: int

    @property
    def done(self) -> bool:
        return self.position >= self.end


@dataclass(frozen=True, slots=True)
class Completeness:
    begun: bool = True
    """False if no materialiser has begun to fill this memory, or its record of that is lost."""
    partitions: Mapping[str, Progress] = field(default_factory=dict)
    """topic/partition → progress."""
    damaged: tuple[str, ...] = ()
    """Kinds of keys whose values are damaged."""

    @property
    def complete(self) -> bool:
        return self.begun and not self.damaged and all(each.done for each in self.partitions.values())

    @property
    def percent(self) -> float:
        """Percentage of the offsets that have been read; below 100 until all have been."""
        if self.complete:
            return 100.0
        whole = sum(each.end - each.start for each in self.partitions.values())
        read = sum(min(max(each.position, each.start), each.end) - each.start for each in self.partitions.values())
        return min(99.9, read * 1000 // whole / 10) if self.begun and whole else 0.0

    @property
    def cut(self) -> dict[str, int]:
        """Topic → records that its retention had deleted when this memory was filled. Nothing brings them back."""
        found: Counter[str] = Counter()
        for name, each in self.partitions.items():
            found[name.rpartition("/")[0]] += each.start
        return {topic: count for topic, count in sorted(found.items()) if count}

    def __str__(self) -> str:
        if self.complete:
            lost = ", ".join(
                f"{count:,} record{'s' if count != 1 else ''} of {topic}" for topic, count in self.cut.items()
            )
            left = f", but for {lost} that retention had deleted before memory was filled" if lost else ""
            return f"memory is complete{left}"
        if self.damaged:
            return f"memory is not complete: keys of kind {', '.join(self.damaged)} are damaged and will be rebuilt"
        if not self.begun:
            return "memory is not complete: no materialiser has begun to fill it"
        behind = sum(not each.done for each in self.partitions.values())
        return f"memory is not complete: it is being filled, {self.percent:g} % done, {behind} partitions to go"

    def metadata(self) -> dict[str, Any]:
        """Return the pack's metadata on completeness."""
        cut = {"memory_cut": self.cut} if self.cut else {}
        if self.complete:
            return {"memory_complete": True, **cut}
        rows = {name: {"position": at.position, "end": at.end} for name, at in sorted(self.partitions.items())}
        filling: dict[str, Any] = {"percent": self.percent, "partitions": rows}
        if self.damaged:
            filling["damaged"] = list(self.damaged)
        return {"memory_complete": False, "memory_filling": filling, **cut}


WHOLE: Final = Completeness()
