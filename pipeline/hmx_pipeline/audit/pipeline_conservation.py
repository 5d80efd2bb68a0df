"""Conservation check of a whole pipeline, running or stopped, from its topics (`hmx verify`).

Enters: settings. Leaves: a `Report`. Raises KafkaUnreachableError, KafkaException, and TimeoutError if a topic cannot
be read to its end. Records that the stage has not read yet are `pending`. A large log is audited by one process per
core; only misrouted records are joined across partitions.
"""

import os
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from hmx_pipeline.audit.audited_log import LOOK_AT, AuditedLog, AuditedState, Progress, opened, silent
from hmx_pipeline.audit.parallel_audit import audited
from hmx_pipeline.audit.partition_conservation import follow
from hmx_pipeline.audit.partition_report import (
    VIOLATIONS_KEPT,
    PartitionReport,
    Place,
    Reroutes,
    Violation,
    ViolationKind,
    plain,
)
from hmx_pipeline.audit.record_explanation import Explanation, Witness
from hmx_pipeline.audit.record_explanation import explain as explained
from hmx_pipeline.contracts.headers import KIND, header, origin_of
from hmx_pipeline.kafka.clients import Watermarks
from hmx_pipeline.kafka.topic_files import TopicsError
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EPISODES, EVENTS, EVENTS_DLQ, EVIDENCE

SEVERAL_FROM: Final = 50_000
"""Number of events from which several processes pay off."""


@dataclass
class Report:
    partitions: list[PartitionReport]
    evidence: Counter[str] = field(default_factory=Counter)
    """Records of the evidence topic by kind."""
    nameless: int = 0
    """Number of evidence records without an origin."""
    nameless_evidence: list[Violation] = field(default_factory=list)
    """The first of them."""

    @property
    def conserved(self) -> bool:
        return not self.faults

    @property
    def faults(self) -> Counter[str]:
        found: Counter[str] = sum((part.faults for part in self.partitions), Counter())
        if self.nameless:
            found[ViolationKind.NAMELESS] += self.nameless
        return found

    @property
    def violations(self) -> list[Violation]:
        """The first violations of each partition."""
        return [*(v for part in self.partitions for v in part.violations), *self.nameless_evidence]

    @property
    def outcomes(self) -> Counter[str]:
        return sum((part.outcomes for part in self.partitions), Counter())

    @property
    def erased(self) -> int:
        """Number of events whose episodes operators erased, in the topics until their retention ends."""
        return sum(part.erased for part in self.partitions)

    @property
    def rejections(self) -> Counter[str]:
        return sum((part.rejections for part in self.partitions), Counter())

    def as_json(self) -> dict[str, Any]:
        return {
            "conserved": self.conserved,
            "outcomes": plain(self.outcomes),
            "rejections": plain(self.rejections),
            "erased": self.erased,
            "pending": sum(part.pending for part in self.partitions),
            "unverified": sum(part.unverified for part in self.partitions),
            "evidence": plain(self.evidence),
            "faults": plain(self.faults),
            "violations": [violation._asdict() for violation in self.violations],
            "partitions": [part.as_json() for part in self.partitions],
        }


def verify(settings: Settings, on_progress: Progress = silent) -> Report:
    with opened(settings) as log:
        stood = [log.standing(partition, on_progress) for partition in range(log.partitions[EVENTS])]
        report = Report(_audited(settings, log, stood, on_progress))
        reroutes = Reroutes(
            {first: copy for part in report.partitions for first, copy in part.copies.items()},
            frozenset(part.partition for part in report.partitions if part.low > 0),
        )
        for part in report.partitions:
            follow(part, reroutes)
        for partition in range(log.partitions[EVIDENCE]):
            on_progress(EVIDENCE, partition, log.partitions[EVIDENCE])
            _count_evidence(log, partition, report)
        return report


def _audited(
    settings: Settings, log: AuditedLog, stood: list[AuditedState], on_progress: Progress
) -> list[PartitionReport]:
    sizes = [high - low for low, high in (log.marks(EVENTS, partition) for partition in range(len(stood)))]
    total, processes = sum(sizes), min(_cores(), len(stood))
    if processes > 1 and total >= SEVERAL_FROM:
        return audited(settings, stood, sizes, processes, lambda done: on_progress(EVENTS, done, total))

    def report(partition: int) -> PartitionReport:
        before = sum(sizes[:partition])
        return log.conserved(
            partition, stood[partition], on_done=lambda done: on_progress(EVENTS, before + done, total)
        )

    return [report(partition) for partition in range(len(stood))]


def explain(settings: Settings, place: Place, on_progress: Progress = silent) -> Explanation:
    """Explains one events record. Raises TopicsError if the partition does not exist."""
    partition, offset = place
    with opened(settings) as log:
        if partition >= log.partitions[EVENTS]:
            raise TopicsError(f"{EVENTS} has partitions 0 to {log.partitions[EVENTS] - 1}, not {partition}")
        stood = log.standing(partition, on_progress)
        witness = Witness(place, log.event(place, stood))
        astray, unknown = (
            witness.astray(log.partitions[EVENTS]),
            Reroutes(trimmed=frozenset(range(log.partitions[EVENTS]))),
        )
        reroutes = log.reroutes(on_progress) if astray else unknown
        on_progress(f"{EVENTS} partition {partition}", 0, 1)
        report = log.conserved(partition, stood, offset)
        follow(report, reroutes)
        outputs = [(EPISODES, partition), (EVENTS_DLQ, partition)]
        outputs += [(EVIDENCE, other) for other in range(log.partitions[EVIDENCE])]
        for done, output in enumerate(outputs):
            on_progress("outputs", done, len(outputs))
            witness.see(output[0], log.rows(*output))
        return explained(place, stood.standing, report, witness)


def places_of(settings: Settings, event_id: str, on_progress: Progress = silent) -> list[Place]:
    """Returns where the log holds events of this id, in every partition: copies, and what other tenants call so."""
    # What JSON may write in several ways is not looked for in the bytes.
    written = event_id.encode() if re.fullmatch(r"[\w.:-]+", event_id, re.ASCII) else b""
    found = list[Place]()
    with opened(settings) as log:
        marks = [log.marks(EVENTS, partition) for partition in range(log.partitions[EVENTS])]
        total, before = sum(high - low for low, high in marks), 0
        for partition, (low, high) in enumerate(marks):
            for row in log.events(partition, Watermarks(low, high), low):
                if row.offset % LOOK_AT == 0:
                    on_progress(EVENTS, before + row.offset - low, total)
                if written in (row.value or b"") and _id_in(row.value) == event_id:
                    found.append((partition, row.offset))
            before += high - low
    return found


def _id_in(value: bytes | None) -> Any:
    """The id that a record names, whether or not it is a valid event."""
    with suppress(orjson.JSONDecodeError):
        read = orjson.loads(value or b"")
        return read.get("event_id") if isinstance(read, dict) else None
    return None


def _count_evidence(log: AuditedLog, partition: int, report: Report) -> None:
    """Counts evidence by kind. Contributions and barriers need an origin; ticks have none."""
    for row in log.rows(EVIDENCE, partition):
        kind = (header(row.headers, KIND) or b"unknown").decode(errors="replace")
        report.evidence[kind] += 1
        if kind != "tick" and origin_of(row.headers) is None:
            report.nameless += 1
            if report.nameless <= VIOLATIONS_KEPT:
                violation = (ViolationKind.NAMELESS, EVIDENCE, partition, row.offset, f"a {kind} without its origin")
                report.nameless_evidence.append(Violation(*violation))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
