"""What the audits read, made in process: the records of a partition and what the sessions stage makes of them."""

from dataclasses import dataclass, replace

from hmx_pipeline.audit.partition_conservation import OutputPartition, PartitionState, conserve, follow
from hmx_pipeline.audit.partition_report import PartitionReport, Reroutes
from hmx_pipeline.contracts.keys import CONTROL_TENANT
from hmx_pipeline.intake.control_records import barrier
from hmx_pipeline.stages.fold import Output as Emitted
from hmx_pipeline.stages.session_state import BufferedEvent
from hmx_pipeline.topology import EPISODES, EVENTS_DLQ
from tests.support.inprocess import KEY, barrier_record, run, sessions_fold, tick_record
from tests.support.records import START_MS, LogRecord, event, log

NO_REROUTES = Reroutes()
SECRET = "AKIAIOSFODNN7EXAMPLE"


@dataclass(frozen=True)
class Topics:
    """What `conserve` reads, each list in the order of its offsets."""

    events: list[LogRecord]
    episodes: list[LogRecord]
    letters: list[LogRecord]
    standing: PartitionState
    low: int = 0
    trimmed: bool = False
    still: bool = True
    partitions: int = 1
    reroutes: Reroutes = NO_REROUTES

    def verify(self) -> PartitionReport:
        outputs = [
            OutputPartition(EPISODES, self.episodes, self.trimmed),
            OutputPartition(EVENTS_DLQ, self.letters, self.trimmed),
        ]
        report = conserve(
            0, self.low, self.standing, lambda: self.events, outputs, self.partitions, KEY, lambda: self.still
        )
        follow(report, self.reroutes)
        return report


def written(outputs: list[Emitted]) -> list[LogRecord]:
    return [LogRecord(o.partition, n, START_MS, o.key, o.value, o.headers) for n, o in enumerate(outputs)]


def staged(records: list[LogRecord]) -> Topics:
    """What the stage makes of these records."""
    ran = run(sessions_fold, records)
    waiting = {held.offset: held.deadline for held in ran.state.values() if isinstance(held, BufferedEvent)}
    standing = PartitionState(records[-1].offset + 1 if records else 0, waiting)
    return Topics(records, written(ran.on(EPISODES)), written(ran.on(EVENTS_DLQ)), standing)


def everything() -> Topics:
    """Every outcome but the loss to retention."""
    records = log(
        [
            (0, event(sequence=0)),  # 0 released
            (1, event(sequence=0)),  # 1 duplicate
            (2, b"no JSON"),  # 2 rejected
            (3, event(sequence=3)),  # 3 released when its window ends
            (4, event(sequence=0, content={"other": 1.0})),  # 4 rejected: the id is taken
            (5, event("t", 0, metadata={"hmx": 1, "token": SECRET})),  # 5 released, redacted
            (6, None),  # 6 rejected
            (7, event("u", tenant_id=CONTROL_TENANT)),  # 7 rejected: not ours
            (5_100, event(sequence=1)),  # 8 late
            (5_101, event("w", 9)),  # 9 waits
            (5_102, event("w", 9)),  # 10 duplicate of what waits
        ]
    )
    records[7] = replace(records[7], value=barrier("b", 0, START_MS), headers=[("mine", b"1")])
    return staged([*records, tick_record(5_103, offset=11), barrier_record(5_104, offset=12)])
