"""ASGI application: routes, shared state, middleware and error handlers.

Enters: settings. Leaves: a FastAPI application. It starts without Kafka and Redis and connects when they are up.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from pipeline.service import docs, events, fingerprint, frames, health, memory, overview, pack, page, problems, streams
from pipeline.service.access import Access
from pipeline.service.body import Bodies
from pipeline.service.completeness import REPORTED, Completing
from pipeline.service.dialect import capture, envelope, learn, reading, usage
from pipeline.service.dialect import fingerprint as export
from pipeline.service.doors import Doors, Names
from pipeline.service.following import Following
from pipeline.service.health import KEPT_S, MEMORY_KEPT_S, Check, MemoryCheck
from pipeline.service.kept import Kept
from pipeline.service.log import EventLog
from pipeline.service.negotiation import NEGOTIATED
from pipeline.service.problems import Kind, answer
from pipeline.service.pulse import Pulse
from pipeline.service.turns import Turns
from pipeline.service.watch import Watch
from pipeline.settings import Settings
from pipeline.store.blocks import EvictingError, StoreUnavailableError, TamperedError
from pipeline.store.fetch import Store
from pipeline.topology import EVENTS

READING, READING_EACH = 16, 8
"""Concurrent turns of routes that read Redis, in total and per tenant. Their sum stays below the number of threads, so
that health checks always get one."""
DESCRIPTION = (
    "Reads context packs and artifacts from memory, and appends events. Errors are problem details (RFC 9457)."
)


def create_app(settings: Settings) -> FastAPI:
    """Raises SettingsError if the address of Kafka or Redis is not set."""
    kafka, topic = settings.require_kafka(), settings.topic_prefix + EVENTS
    store = Store.open(settings)

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(pack.read_tables)
        log = EventLog(kafka, topic)
        app.state.log = log
        app.state.captures = capture.Captures(log, store, app.state.usage, app.state.parsing, app.state.reading)
        app.state.checks = {
            "kafka": Check("kafka", log.unreachable),
            "redis": Check("redis", lambda: _unreachable(store)),
        }
        memory = MemoryCheck(settings, store)
        app.state.memory = Check("memory", memory.why_not, MEMORY_KEPT_S)
        app.state.following = Following(settings)
        beating = asyncio.create_task(app.state.pulse.beat())
        yield
        beating.cancel()
        app.state.following.stop()
        await run_in_threadpool(app.state.following.close)
        await run_in_threadpool(log.close)
        await run_in_threadpool(memory.close)

    app = FastAPI(
        title="HMX",
        version="1.0",
        description=DESCRIPTION,
        lifespan=running,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=problems.DOCUMENTED,
    )
    app.state.settings = settings
    app.state.store = store
    app.state.completing = Completing(store)
    app.state.damaged = Kept(store.damaged, KEPT_S)
    app.state.overview = overview.Overview(settings)
    app.state.bodies = Bodies()
    app.state.parsing = Turns(events.AT_ONCE, events.AT_ONCE_EACH)
    app.state.reading = Turns(READING, READING_EACH)
    app.state.fingerprints = Turns(fingerprint.AT_ONCE, fingerprint.AT_ONCE_EACH)
    app.state.packs = Turns(pack.AT_ONCE, pack.AT_ONCE_EACH)
    state = app.state
    app.state.pulse = Pulse((state.parsing, state.reading, state.fingerprints, state.packs))
    app.state.access = Access(settings.api_keys, settings.rate_limit)
    app.state.usage = usage.Usage()
    app.state.learner = learn.Learner(settings, store, app.state.reading)
    problems.install(app)
    app.add_exception_handler(StoreUnavailableError, _away)
    app.add_exception_handler(TamperedError, _tampered)
    app.add_middleware(Doors, names=Names(settings) if app.state.access.open else None)
    app.add_middleware(Watch)
    for module in (events, frames, streams):
        app.include_router(module.router, dependencies=[NEGOTIATED])
    for module in (memory, fingerprint, overview):
        app.include_router(module.router, dependencies=[NEGOTIATED, REPORTED])
    for module in (health, page, docs):
        app.include_router(module.router)
    for module in (capture, learn, reading, export, usage):
        reads = [REPORTED] if module in (learn, reading, export) else []
        app.include_router(
            module.router, prefix="/v1", tags=["Hippocortex"], dependencies=reads, responses=envelope.DOCUMENTED
        )
    return app


def _unreachable(store: Store) -> str | None:
    try:
        store.ping()
        store.refuse_eviction()
    except (StoreUnavailableError, EvictingError) as error:
        return str(error)
    return None


async def _away(request: Request, error: Exception) -> Response:
    detail = f"{error}. Try again; /readyz shows when it is back"
    return answer(request.scope, Kind.REDIS_UNAVAILABLE, detail, problems.RETRY)


async def _tampered(request: Request, error: Exception) -> Response:
    assert isinstance(error, TamperedError)
    detail = (
        f"{error.kind} {error.name} in Redis is damaged, so it is not served; the materialiser restores it from its "
        "topic. Try again"
    )
    return answer(request.scope, Kind.PROVENANCE_FAILED, detail, problems.RETRY)
