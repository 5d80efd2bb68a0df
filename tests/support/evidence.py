"""Records of the evidence topic, written by hand or told by small sessions."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import orjson

from hmx_pipeline.compiler import failure_playbook, task_schema
from hmx_pipeline.compiler.extract import contributions
from hmx_pipeline.compiler.tasks import runs
from hmx_pipeline.contracts.evidence import (
    Archive,
    Contribution,
    EvidenceControl,
    Pattern,
    SegmentOutcome,
    evidence_key,
)
from hmx_pipeline.contracts.fingerprint import Import
from hmx_pipeline.contracts.headers import KIND
from hmx_pipeline.topology import EVIDENCE
from tests.support.inprocess import barrier_record, run, sessions_fold
from tests.support.records import START_MS, LogRecord, log
from tests.support.segments import Script
from tests.support.sessions import interleaved, session


def evidence() -> list[LogRecord]:
    """What 24 sessions contribute, all in one partition, without the barrier's own record."""
    records = log(list(enumerate(interleaved([session(n) for n in range(24)], 1))))
    outputs = run(sessions_fold, [*records, barrier_record(9_000, offset=len(records))]).on(EVIDENCE)
    return [LogRecord(0, n, START_MS, o.key, o.value, o.headers) for n, o in enumerate(outputs[:-1])]


@cache
def histories() -> list[list[LogRecord]]:
    """What each segment says of a pattern over time: some correct it, some withdraw it."""
    told = []
    for n, record in enumerate(evidence()):
        said = orjson.loads(record.value or b"")
        later = [{}, {"outcome": "failure"}, {"withdrawn": True}][n % 3]
        told.append([replace(record, value=orjson.dumps(value)) for value in (said, said | later)])
    return told


def control(kind: str, at: int, offset: int, partition: int = 0, partitions: int = 1) -> LogRecord:
    value = EvidenceControl(kind=kind, barrier_id="b", partition=partition, partitions=partitions).to_json()
    return LogRecord(0, offset, START_MS + at, kind.encode(), value, [(KIND, kind.encode())])


def archive_record(about: Contribution | str, at: int, offset: int, reason: str = "") -> LogRecord:
    """An operator's decision as the sessions stage passes it on: on a pattern, or on what a contribution is about."""
    pattern = about if isinstance(about, str) else made_by(about).text
    archived = Archive(tenant_id="acme", pattern=pattern, artifact_id="seen", reason=reason)
    value = EvidenceControl(kind="archive", archived=archived).to_json()
    return LogRecord(0, offset, START_MS + at, archived.key.encode(), value, [(KIND, b"archive")])


def gift_of(pattern: str, **said: Any) -> Import:
    """What an operator imports about a pattern."""
    fields = {
        "tenant_id": "acme", "agent_id": "", "fingerprint_hash": "0" * 64, "created_at": "2026-03-14T03:00:00.000Z",
        "pattern": pattern, "title": "Deploy, as others do", "summary": "They do it so.", "content": {"steps": []},
        "confidence": 0.8, "observed_count": 9, "tags": ["deploy"], "success_rate": 0.9,
    }  # fmt: skip
    return Import.model_validate(fields | said)


def import_record(imported: Import | dict[str, Any], at: int, offset: int) -> LogRecord:
    """As the sessions stage passes it on."""
    fields = imported if isinstance(imported, dict) else imported.model_dump(mode="json", exclude_none=True)
    value = EvidenceControl(kind="import", imported=fields).to_json()
    return LogRecord(0, offset, START_MS + at, b"key", value, [(KIND, b"import")])


def success(number: int, task: str = "deploy", tenant_id: str = "acme") -> Contribution:
    """Session `number` did what the task says, and it worked."""
    tools = [f"{task}_build", f"{task}_check", f"{task}_apply"]
    return Contribution(
        contribution_id=f"c-{task}-{number}",
        tenant_id=tenant_id,
        pattern_type=runs.NAME,
        pattern_key=runs.KEY,
        session_id=f"session-{number}",
        segment_id=f"{task}-{number}",
        agent_id="agent",
        outcome=SegmentOutcome.SUCCESS,
        first_at=START_MS + number,
        last_at=START_MS + number,
        source_events=[f"{number}-{n}" for n in range(3)],
        body={
            "goal": f"Please {task} the service", "asked": [f"Please {task} the service"],
            "said": [task, "service"], "done": tools, "acts": [["", tool, [], 1, "", []] for tool in tools],
            "told": [], "subject": "", "actions": 3, "states": [],
        },
    )  # fmt: skip


def recovered(number: int, pattern_key: str, tenant_id: str = "acme") -> Contribution:
    """In session `number` a step failed, and worked once something else was done."""
    made = Script(f"session-{number}", tenant=tenant_id)
    made.user("Deploy the service")
    made.tool("apply", ok=False, error="timed out", kind="Timeout")
    made.tool("restart")
    made.tool("apply")
    (one,) = (c for c in contributions(made.segment()) if c.pattern_type == failure_playbook.NAME)
    return one.model_copy(update={"pattern_key": pattern_key})


def made_by(told: Contribution) -> Pattern:
    """The pattern that something is published of: a contribution's own, of a run the task that begins with it."""
    return task_of(told) if told.pattern_type == runs.NAME else told.pattern


def task_of(first: Contribution) -> Pattern:
    """The task that is called after its first run."""
    return next(pattern for pattern in runs.group([first]) if pattern.type == task_schema.NAME)


def records(said: Iterable[Contribution], pace_ms: int = 0) -> list[LogRecord]:
    """One after the other, so many milliseconds apart."""
    return [
        LogRecord(0, n, START_MS + n * pace_ms, evidence_key(one).encode(), one.to_json(), [(KIND, b"contribution")])
        for n, one in enumerate(said)
    ]
