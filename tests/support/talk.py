"""Sessions in which something is said, and what both stages then publish as knowledge."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import orjson

from hmx_pipeline.contracts.evidence import EvidenceControl, TenantSettings
from hmx_pipeline.contracts.headers import KIND
from hmx_pipeline.contracts.options import HOLDS
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.topology import KNOWLEDGE
from tests.support.inprocess import events_log, evidence_logs, run
from tests.support.records import START_MS, LogRecord, event

_BEGINNING = START_MS - 86_400_000

Turn = str | tuple[str, str]
"""What a user says, or (role, text)."""


def said(session: str, *turns: Turn, at: int = 0, **fields: Any) -> list[dict[str, Any]]:
    """A session's messages, a second apart, from `at` minutes after a day before the log's start on."""
    return [
        event(
            session,
            n,
            at=_BEGINNING + 60_000 * at + 1_000 * n,
            event_type="message",
            content={"role": "user", "text": turn} if isinstance(turn, str) else {"role": turn[0], "text": turn[1]},
            **fields,
        )
        for n, turn in enumerate(turns)
    ]


def known(evidence: Mapping[int, Sequence[LogRecord]]) -> dict[str, dict[str, Any]]:
    """The last record of each id, as a reader of the compacted topic finds it."""
    outputs = chain.from_iterable(run(PatternsFold, log).on(KNOWLEDGE) for _, log in sorted(evidence.items()))
    last = {output.key: output.value for output in outputs}
    return {record["record_id"]: record for record in (orjson.loads(value) for value in last.values() if value)}


def knowledge_of(events: Iterable[dict[str, Any]], partitions: int = 1, sharing: str = "") -> list[dict[str, Any]]:
    """What is known, by id, once a barrier has passed."""
    evidence = evidence_logs(events_log(events, partitions).values(), partitions)
    return list(known(with_setting(evidence, sharing) if sharing else evidence).values())


def with_setting(
    evidence: Mapping[int, Sequence[LogRecord]], sharing: Any, at: int = 0
) -> dict[int, Sequence[LogRecord]]:
    """The same logs, each with a tenant's setting before the record at this place."""
    control = EvidenceControl(kind="tenant", settings=TenantSettings(tenant_id="acme", sharing=sharing))
    mixed: dict[int, Sequence[LogRecord]] = {}
    for partition, log in evidence.items():
        own = LogRecord(partition, 0, START_MS, b"set", control.to_json(), [(KIND, b"tenant")])
        mixed[partition] = [
            LogRecord(partition, n, r.timestamp, r.key, r.value, r.headers)
            for n, r in enumerate([*log[:at], own, *log[at:]])
        ]
    return mixed


def holding(records: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [record for record in records if record["status"] in HOLDS]
