"""`POST /v1/learn`: waits until earlier captures are compiled and in memory, and reports what changed.

Compilation is continuous, so a call only appends a barrier for the tenant's sessions and waits for it. Leaves:
`completed`, or `partial` if it takes longer than clients wait. Changes are counted since the tenant's last call to this
process, or since this call.
"""

import asyncio
import logging
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from confluent_kafka import KafkaException
from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from hmx_pipeline.contracts.artifact import owner_of
from hmx_pipeline.contracts.base import Items
from hmx_pipeline.contracts.bounded_cache import nbytes
from hmx_pipeline.contracts.episode import is_visible
from hmx_pipeline.contracts.event import Unit
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.kafka.topic_files import KafkaUnreachableError, UnfitTopicError
from hmx_pipeline.runtime.barriers import LackingError, wait_for_tenant
from hmx_pipeline.service.access import Writer, bound_to
from hmx_pipeline.service.body import described, read_body
from hmx_pipeline.service.fair_turns import FairTurns
from hmx_pipeline.service.hippocortex.answer_envelope import success
from hmx_pipeline.service.hippocortex.client_json import REQUEST_BYTES, ClientModel, parsed, schema_of
from hmx_pipeline.service.hippocortex.usage import Usage
from hmx_pipeline.service.problems import ProblemKind, unavailable
from hmx_pipeline.settings import Settings, SettingsError
from hmx_pipeline.store.fetch import Store
from hmx_pipeline.store.tenant_index import Recent

LOG: Final = logging.getLogger("hmx.service")
ANSWER_S: Final = 8.0
"""The client adapters time out after 10 s."""
AT_ONCE: Final = 4
"""Tenants whose barriers run at the same time."""
TOLD_BYTES: Final = 64 * MB
"""Memory for what tenants were last told; a tenant beyond it is compared with current memory."""
_NO_BARRIER: Final = (KafkaException, KafkaUnreachableError, UnfitTopicError, SettingsError)

router: Final = APIRouter()


class LearnOptions(ClientModel):
    min_pattern_strength: Unit = 0.0
    artifact_types: Items[str] | None = None


class LearnBody(ClientModel):
    """Request body. Compilation always uses all evidence, whatever the scope."""

    scope: Literal["full", "incremental"] = "incremental"
    options: LearnOptions = LearnOptions()


class Active(NamedTuple):
    """The facts of an active artifact that a run reports."""

    artifact_id: str
    artifact_type: str
    confidence: float
    memories: frozenset[str]
    owner: str = ""
    """The subject to whom it is private."""


Known = Mapping[str, Active]
"""Pattern and chain → active artifact; both outlive a version."""


class Learner:
    """Waits for barriers, and remembers what each tenant was last told, and which episodes it had asked for.

    One barrier of a tenant runs at a time; its calls that arrive meanwhile share the next one.
    """

    def __init__(self, settings: Settings, store: Store, turns: FairTurns) -> None:
        self._settings = settings
        self._store = store
        self._turns = turns
        self._barriers = FairTurns(AT_ONCE, 1)
        self._next: dict[str, asyncio.Task[None]] = {}
        self._told: Recent[Known] = Recent(TOLD_BYTES)
        self._asked: Recent[Mapping[int, int]] = Recent(TOLD_BYTES)

    async def run(self, tenant: str) -> tuple[Known, Known, bool]:
        """Returns artifacts before, artifacts now, and whether all captures are compiled. Raises ProblemError."""
        (before,) = self._told.known([tenant])
        if before is None:
            before = await self._turns.run(tenant, known, self._store, tenant)
        whole = await self._compiled(tenant)
        now = await self._turns.run(tenant, known, self._store, tenant)
        self._told.put(tenant, now, nbytes((tenant, now)))
        return before, now, whole

    async def _compiled(self, tenant: str) -> bool:
        """Returns whether a barrier appended after the call has passed in time."""
        barrier = self._next.get(tenant)
        if barrier is None:
            barrier = self._next[tenant] = asyncio.create_task(self._barrier(tenant))
            barrier.add_done_callback(_heard)
        done, _ = await asyncio.wait({barrier}, timeout=ANSWER_S)
        error = barrier.exception() if done else None
        if error is None or isinstance(error, LackingError):
            return bool(done) and error is None
        if not isinstance(error, _NO_BARRIER):
            raise error
        LOG.warning("learn: %s", error)
        raise unavailable(ProblemKind.KAFKA_UNAVAILABLE, "no barrier could be appended: see the service's log")

    async def _barrier(self, tenant: str) -> None:
        try:
            async with self._barriers.of(tenant):
                del self._next[tenant]
                await run_in_threadpool(self._wait, tenant)
        finally:
            if self._next.get(tenant) is asyncio.current_task():
                del self._next[tenant]

    def _wait(self, tenant: str) -> None:
        """Asks the partitions in which there are episodes that no barrier has asked for yet."""
        asked = self._asked.known([tenant])[0] or {}
        now: Mapping[int, int] = asked

        def sources() -> list[int]:
            nonlocal now
            now = self._store.newest_episodes(tenant)
            return [partition for partition, offset in now.items() if asked.get(partition) != offset]

        wait_for_tenant(self._settings, tenant, sources, self._store.positions, ANSWER_S)
        self._asked.put(tenant, now, nbytes((tenant, now)))


def _heard(barrier: asyncio.Task[None]) -> None:
    """Consumes the error of a barrier whose callers have already been answered."""
    if not barrier.cancelled():
        barrier.exception()


def known(store: Store, tenant: str) -> Known:
    return {
        f"{one['metadata'].get('pattern')}/{one['metadata'].get('chain')}": Active(
            one["artifact_id"],
            one["artifact_type"],
            one["confidence"],
            frozenset(one["source_memory_ids"]),
            owner_of(one),
        )
        for one in store.all_artifacts(tenant)
    }


def seen(artifacts: Known, subject: str | None) -> Known:
    """Returns those that a subject sees; all for None."""
    return {name: one for name, one in artifacts.items() if subject is None or is_visible(one.owner, subject)}


def compared(before: Known, now: Known, options: LearnOptions) -> dict[str, Any]:
    """Counts changes. A new chain is created; a chain with another version, or gone, is updated."""
    told = {name: one for name, one in now.items() if _asked_for(one, options)}
    created = sum(name not in before for name in told)
    unchanged = sum(before.get(name) == one for name, one in told.items())
    gone = sum(name not in now and _asked_for(one, options) for name, one in before.items())
    return {
        "created": created,
        "updated": len(told) - created - unchanged + gone,
        "unchanged": unchanged,
        "byType": dict(sorted(Counter(one.artifact_type for one in told.values()).items())),
    }


def _asked_for(one: Active, options: LearnOptions) -> bool:
    types = options.artifact_types
    return one.confidence >= options.min_pattern_strength and (types is None or one.artifact_type in types)


@router.post("/learn", openapi_extra=described(schema_of(LearnBody)))
async def learn(request: Request, tenant: Writer) -> Response:
    """Waits until everything captured before is compiled and searchable."""
    asked = parsed(LearnBody, await read_body(request, REQUEST_BYTES))
    started = time.monotonic()
    learner: Learner = request.app.state.learner
    before, now, whole = await learner.run(tenant)
    usage: Usage = request.app.state.usage
    usage.count(tenant, "compilations")
    for name in ("created", "updated"):
        usage.count(tenant, name, compared(before, now, asked.options)[name])
    before, now = (seen(each, bound_to(request)) for each in (before, now))
    artifacts = compared(before, now, asked.options)
    said = {
        "runId": str(uuid.uuid4()),
        "status": "completed" if whole else "partial",
        "artifacts": artifacts,
        "stats": {
            "memoriesProcessed": len(frozenset().union(*(one.memories for one in now.values()))),
            "patternsFound": len(now),
            "compilationMs": round((time.monotonic() - started) * 1000),
        },
    }
    return success(request, said)
