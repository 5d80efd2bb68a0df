"""Sessions in which something is said, and what both stages then publish as knowledge."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import orjson

from hmx_pipeline.contracts.knowledge import HOLDS
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


def knowledge_of(events: Iterable[dict[str, Any]], partitions: int = 1) -> list[dict[str, Any]]:
    """What is known, by id, once a barrier has passed."""
    return list(known(evidence_logs(events_log(events, partitions).values(), partitions)).values())


def holding(records: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [record for record in records if record["status"] in HOLDS]
