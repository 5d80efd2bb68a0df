"""Conservation check of a whole pipeline, running or stopped, from its topics (`hmx verify`).

Enters: settings. Leaves: a `Report`. Raises KafkaUnreachableError, KafkaException, and TimeoutError if a topic cannot
be read to its end. Records that the stage has not read yet are `pending`. A large log is audited by one process per
core; only misrouted records are joined across partitions.
"""

import os
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from hmx_pipeline.audit.audited_log import AuditedLog, AuditedState, Progress, opened, silent
from hmx_pipeline.audit.event_explanation import Explanation, Witness
from hmx_pipeline.audit.event_explanation import explain as explained
from hmx_pipeline.audit.parallel_audit import audited
from hmx_pipeline.audit.partition_conservation import (
    VIOLATIONS_KEPT,
    PartitionReport,
    Place,
    Reroutes,
    Violation,
    ViolationKind,
    follow,
)
from hmx_pipeline.contracts.headers import KIND, ORIGIN_OFFSET, ORIGIN_PARTITION
from hmx_pipeline.kafka.topic_files import TopicsError
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS, EVIDENCE

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
    def rejections(self) -> Counter[str]:
        return sum((part.rejections for part in self.partitions), Counter())

    def as_json(self) -> dict[str, Any]:
        return {
            "conserved": self.conserved,
            "outcomes": _plain(self.outcomes),
            "rejections": _plain(self.rejections),
            "pending": sum(part.pending for part in self.partitions),
            "unverified": sum(part.unverified for part in self.partitions),
            "evidence": _plain(self.evidence),
            "faults": _plain(self.faults),
            "violations": [violation._asdict() for violation in self.violations],
            "partitions": [
                {
                    "partition": part.partition,
                    "low": part.low,
                    "position": part.position,
                    "outcomes": _plain(part.outcomes),
                    "pending": part.pending,
                    "unverified": part.unverified,
                }
                for part in self.partitions
            ],
        }


def _plain(counts: Counter[str]) -> dict[str, int]:
    return {str(name): count for name, count in counts.most_common()}


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
    sizes = [log.size(partition) for partition in range(len(stood))]
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
        reroutes = log.reroutes(on_progress) if witness.astray(log.partitions[EVENTS]) else log.unknown_reroutes()
        on_progress(f"{EVENTS} partition {partition}", 0, 1)
        report = log.conserved(partition, stood, offset, witness.see)
        follow(report, reroutes)
        for other in range(log.partitions[EVIDENCE]):
            on_progress(EVIDENCE, other, log.partitions[EVIDENCE])
            for _ in witness.see(EVIDENCE, log.rows(EVIDENCE, other, log.marks(EVIDENCE, other))):
                pass
        return explained(place, stood.standing, report, witness)


def _count_evidence(log: AuditedLog, partition: int, report: Report) -> None:
    """Counts evidence by kind. Contributions and barriers need an origin; ticks have none."""
    for row in log.rows(EVIDENCE, partition, log.marks(EVIDENCE, partition)):
        last = dict(row.headers)
        kind = (last.get(KIND) or b"unknown").decode(errors="replace")
        report.evidence[kind] += 1
        named = all(last.get(name) is not None for name in (ORIGIN_PARTITION, ORIGIN_OFFSET))
        if kind != "tick" and not named:
            report.nameless += 1
            detail = f"a {kind} without its origin"
            if report.nameless <= VIOLATIONS_KEPT:
                report.nameless_evidence.append(
                    Violation(ViolationKind.NAMELESS, EVIDENCE, partition, row.offset, detail)
                )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
