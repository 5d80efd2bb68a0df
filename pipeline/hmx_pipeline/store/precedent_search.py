"""Similar sessions of a search: what to ask Redis for them, and those that the index ranks best.

Enters: a plan, the tenant's index of them. Leaves: read commands; hits. Pure.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from hmx_pipeline.advice.similar_sessions import PRECEDENTS, sought
from hmx_pipeline.contracts.evidence import Step
from hmx_pipeline.retrieval.memory_index import Hit, Ranked
from hmx_pipeline.retrieval.retrieval_plan import RetrievalPlan
from hmx_pipeline.store.changes import Command
from hmx_pipeline.store.redis_keys import TenantKeys
from hmx_pipeline.store.tenant_index import CatalogueCache


def precedent_questions(plan: RetrievalPlan, tenant: TenantKeys) -> Iterator[Command]:
    """Yields reads of the requesting session's last messages, and of the highest rank kept per pattern."""
    yield (b"ZRANGE", tenant.spoken(plan.request.session_id or ""), b"0", b"-1")
    for pattern in PRECEDENTS:
        yield (b"ZRANGE", tenant.sample(pattern.text), b"-1", b"-1", b"WITHSCORES")


def found_precedents(
    plan: RetrievalPlan, shelf: CatalogueCache, borders: list[Any], session: Sequence[Step]
) -> list[Hit]:
    """Returns similar sessions, best match first, per kind."""
    if plan.precedents is None:
        return []
    _keep_within(shelf, borders)
    return [
        hit
        for terms, limit in zip(sought(plan.request.query, session), plan.precedents, strict=True)
        for hit in shelf.catalogue.best(terms, limit, plan.labels, plan.as_of, plan.subject)
    ]


def _keep_within(shelf: CatalogueCache, borders: list[Any]) -> None:
    """Drops entries above the highest rank kept on the server."""
    if borders == shelf.borders:
        return
    shelf.borders = borders
    none = (-1, "")
    highest = {
        pattern.type: (int(border[1]), border[0].decode()) if border else none
        for pattern, border in zip(PRECEDENTS, borders, strict=True)
    }
    shelf.catalogue.drop(lambda name, card: isinstance(card, Ranked) and (card.rank, name) > highest[card.kind])
