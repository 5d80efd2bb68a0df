"""What both stages learn of events, in process, as a fingerprint is made of it."""

import random
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec
import orjson

from hmx_pipeline.compiler import usage_counts
from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.options import HOLDS, Kind
from hmx_pipeline.fingerprints.contents import FingerprintContents, UsageCounts
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.topology import ARTIFACTS, KNOWLEDGE
from tests.support.inprocess import events_log, evidence_logs, run
from tests.support.records import START_MS, event
from tests.support.sessions import interleaved, session

_conduct = msgspec.json.Decoder(UsageCounts).decode


def decided(number: int) -> list[dict[str, Any]]:
    """A session that decides something twice, the first time as most do."""
    second = ("canary", "blue-green")[number % 2]
    said = [("rolling", "How shall we roll it out?"), (second, "And how shall we test it?")]
    return [
        event(
            f"decided-{number}", n, at=START_MS - 3_600_000 + n, agent_id=f"agent-{number % 2}",
            event_type="decision", content={"question": question, "chosen_option": option, "alternatives": []},
        )
        for n, (option, question) in enumerate(said)
    ]  # fmt: skip


def history() -> list[dict[str, Any]]:
    return interleaved([*(session(n) for n in range(40)), *(decided(n) for n in range(9))], 1)


def learnt_of(
    events: Iterable[dict[str, Any]], tenant_id: str = "acme", dice: random.Random | None = None
) -> tuple[FingerprintContents, dict[str, str]]:
    """With the agent of every contribution. `dice` mix what the partitions of the log contribute."""
    evidence = evidence_logs(events_log(events).values(), dice=dice)
    outputs = [output for _, log in sorted(evidence.items()) for output in run(PatternsFold, log).outputs]
    said = [orjson.loads(r.value or b"") for log in evidence.values() for r in log]
    contributions = [Contribution.model_validate(fields) for fields in said if "contribution_id" in fields]
    own = {c.contribution_id: c for c in contributions if c.tenant_id == tenant_id}
    artifacts = {o.key: Artifact.model_validate_json(o.value or b"") for o in outputs if o.topic == ARTIFACTS}
    known = {o.key: KnowledgeRecord.model_validate_json(o.value or b"") for o in outputs if o.topic == KNOWLEDGE}
    holds = [r for r in known.values() if r.tenant_id == tenant_id and r.status in HOLDS]
    learnt = FingerprintContents(
        tenant_id=tenant_id,
        newest=START_MS,
        artifacts=[a for a in artifacts.values() if a.tenant_id == tenant_id and a.status in ("draft", "active")],
        conduct=[_conduct(c.to_json()) for c in own.values() if c.pattern_type == usage_counts.NAME],
        entities=[record for record in holds if record.kind is Kind.ENTITY],
        relations=[record for record in holds if record.kind is Kind.RELATION],
    )
    return learnt, {name: c.agent_id for name, c in own.items()}


@cache
def learnt_of_history() -> FingerprintContents:
    return learnt_of(history())[0]
