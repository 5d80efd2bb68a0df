"""What the pipeline made of the records of one partition, read from its outputs and state, in the reference's words."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from pipeline.contracts import headers as names
from pipeline.contracts.headers import Headers, header
from tests.support.reference import CONTROL, DUPLICATE, LATE, RELEASED, REROUTED, WAITING, Entry, Prediction, Release


@dataclass
class Observed:
    releases: list[Release] = field(default_factory=list)
    log_times: dict[int, int] = field(default_factory=dict)
    outcomes: dict[int, list[str]] = field(default_factory=dict)
    """By offset; more than one would be a fault, and is kept as one."""

    def note(self, offset: int, outcome: str) -> None:
        self.outcomes.setdefault(offset, []).append(outcome)

    def episode(self, value: bytes | None) -> None:
        trace: dict[str, Any] = orjson.loads(value or b"")
        own = trace["metadata"]["hmx"]
        release, offset = own["release"], own["origin"]["offset"]
        self.releases.append(Release(own["tenant_id"], trace["sessionId"], trace["id"], offset, **release))
        self.log_times[offset] = own["origin"]["log_time"]
        self.note(offset, LATE if release["late"] else RELEASED)

    def dead_letter(self, headers: Headers) -> None:
        reason = (header(headers, names.REASON) or b"").decode()
        self.note(int(header(headers, names.ORIGIN_OFFSET) or b"-1"), f"rejected.{reason}")

    def settle(self, entries: Iterable[Entry], waiting: Iterable[int], rerouted: Iterable[int]) -> None:
        """What has left nothing on a topic: it waits, or is a copy's original, or ours, or else it is a duplicate."""
        for offset in waiting:
            self.note(offset, WAITING)
        for offset in set(rerouted):  # after a crash there may be two copies
            self.note(offset, REROUTED)
        for entry in entries:
            if entry.offset not in self.outcomes:
                self.note(entry.offset, CONTROL if entry.control else DUPLICATE)


def differences(predicted: Prediction, observed: Observed, entries: Iterable[Entry]) -> list[str]:
    """Readable, the first first; empty where both agree."""
    found = []
    for entry in entries:
        expected, actual = predicted.outcomes[entry.offset], observed.outcomes.get(entry.offset)
        if actual != [expected]:
            found.append(f"offset {entry.offset}: {expected} by the specification, {actual} by the pipeline")
        if observed.log_times.get(entry.offset, entry.at) != entry.at:
            found.append(f"offset {entry.offset}: another append time")
    known = {entry.offset for entry in entries}
    found += [f"offset {offset} does not exist" for offset in observed.outcomes if offset not in known]
    for place, (expected_release, actual_release) in enumerate(
        zip(predicted.releases, observed.releases, strict=False)
    ):
        if expected_release != actual_release:
            found.append(f"release {place}: {expected_release} by the specification, {actual_release} by the pipeline")
            break
    if len(predicted.releases) != len(observed.releases):
        found.append(
            f"{len(predicted.releases)} releases by the specification, {len(observed.releases)} by the pipeline"
        )
    return found


def totals(outcomes: Iterable[str]) -> Counter[str]:
    """As the stage counts: a rejection also under its reason."""
    counted: Counter[str] = Counter()
    for outcome in outcomes:
        counted[outcome] += 1
        if outcome.startswith("rejected."):
            counted["rejected"] += 1
    del counted[WAITING]
    return counted
