"""What the reinforcement ledger says of the sources of a pack: which records to read, and what they add up to. Pure.

Input: a plan and its `MemorySnapshot`, then the ledger's records. Output: record id → id of the source that it is
about, then source id → `Reinforced`: a factor, and when it was reinforced last (ms).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from hmx_pipeline.compiler.knowledge.reinforcements import ledger_id
from hmx_pipeline.contracts.ledger import Reinforced, reinforced
from hmx_pipeline.contracts.options import HOLDS
from hmx_pipeline.retrieval.retrieval_plan import RetrievalPlan
from hmx_pipeline.retrieval.score import MemorySnapshot


def ledger_questions(plan: RetrievalPlan, fetched: MemorySnapshot) -> dict[str, str]:
    """Returns record id → id of the source that it is about: the tenant's record, and the reader's own."""
    ids = [found.source.event_id for found in fetched.episodes]
    ids += [found.source.artifact_id for found in fetched.artifacts]
    ids += [found.source.record_id for found in fetched.knowledge]
    ids += [policy.record_id for policy in fetched.policies]
    tenant = plan.request.tenant_id
    return {ledger_id(tenant, name, whose): name for name in ids for whose in ("", plan.subject)}


def ledger_of(asked: Iterable[str], records: Iterable[Mapping[str, Any] | None]) -> dict[str, Reinforced]:
    known: dict[str, Reinforced] = {}
    for name, fields in zip(asked, records, strict=True):
        if fields is not None and fields["status"] in HOLDS:
            before, more = known.get(name, Reinforced()), reinforced(fields)
            known[name] = Reinforced(before.factor * more.factor, max(before.at, more.at))
    return known
