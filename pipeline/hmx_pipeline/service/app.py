"""ASGI application: routes, shared state, middleware and error handlers.

Enters: settings. Leaves: a FastAPI application. It starts without Kafka and Redis and connects when they are up.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from hmx_pipeline.kafka.erasure_marks import erasure_marks
from hmx_pipeline.queries import context_pack, rejected_records
from hmx_pipeline.service import (
    dead_letter_routes,
    docs,
    documentation,
    erasure_routes,
    events,
    fingerprint_routes,
    hook_routes,
    knowledge_routes,
    mcp_route,
    memory,
    otel_routes,
    overview,
    page,
    problems,
    service_routes,
    session_routes,
    streams,
    websocket,
)
from hmx_pipeline.service.access import Access
from hmx_pipeline.service.allowed_hosts import AllowedHosts, AllowedNames
from hmx_pipeline.service.api_description import HIPPOCORTEX, DescribedApp, operation_id
from hmx_pipeline.service.body import Bodies
from hmx_pipeline.service.completeness_header import REPORTED, CompletenessCache
from hmx_pipeline.service.event_log import EventLog
from hmx_pipeline.service.fair_turns import FairTurns
from hmx_pipeline.service.hippocortex import answer_envelope, capture, learn, synthesize, usage
from hmx_pipeline.service.hippocortex import fingerprints as export
from hmx_pipeline.service.liveness import Liveness
from hmx_pipeline.service.negotiation import NEGOTIATED
from hmx_pipeline.service.problems import ProblemKind, answer
from hmx_pipeline.service.request_metrics import RequestMetrics
from hmx_pipeline.service.service_routes import KEPT_S, MEMORY_KEPT_S, Check, MemoryCheck
from hmx_pipeline.service.subscriptions import Subscriptions
from hmx_pipeline.service.ttl_cache import TtlCache
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.atomic_blocks import EvictingError, StoreUnavailableError, TamperedError
from hmx_pipeline.store.erased_memory import Erasures
from hmx_pipeline.store.fetch import Store
from hmx_pipeline.store.layouts import ReplacedError
from hmx_pipeline.store.memory_server import MemoryServer
from hmx_pipeline.topology import EVENTS

READING, READING_EACH = 16, 8
"""Concurrent turns of routes that read Redis, in total and per tenant. Their sum stays below the number of threads, so
that health checks always get one."""
DESCRIPTION = (
    "Reads context packs and artifacts from memory, and appends events. Errors are problem details (RFC 9457)."
)


def create_app(settings: Settings) -> FastAPI:
    """Raises SettingsError if the address of Kafka or Redis is not set, or a file of keys can't be used."""
    kafka, topic = settings.require_kafka(), settings.topic_prefix + EVENTS
    store = Store.open(settings)

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(context_pack.read_tables)
        log = EventLog(kafka, topic)
        app.state.log = log
        app.state.captures = capture.Captures(log, store, app.state.usage, app.state.parsing, app.state.reading)
        app.state.checks = {
            "kafka": Check("kafka", log.answers.why_not),
            "redis": Check("redis", lambda: _unreachable(store)),
        }
        app.state.started = False
        memory = MemoryCheck(settings, store)
        app.state.memory = Check("memory", memory.why_not, MEMORY_KEPT_S)
        app.state.following = Subscriptions(settings)
        beating = asyncio.create_task(app.state.pulse.beat())
        yield
        beating.cancel()
        app.state.following.stop()
        await run_in_threadpool(app.state.following.close)
        if settings.openai_upstream:
            await app.state.upstream.close()
        await run_in_threadpool(log.close)
        await run_in_threadpool(memory.close)

    app = DescribedApp(
        title="HMX",
        generate_unique_id_function=operation_id,
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
    app.state.completing = CompletenessCache(store)
    app.state.erased = TtlCache(lambda: Erasures(erasure_marks(kafka, settings.topic_prefix)), KEPT_S)
    app.state.damaged = TtlCache(store.damaged, KEPT_S)
    app.state.letters = TtlCache(
        lambda: rejected_records.newest(settings), dead_letter_routes.KEPT_S, dead_letter_routes.KEPT_TIMES
    )
    app.state.overview = overview.Overview(settings)
    app.state.bodies = Bodies()
    app.state.parsing = FairTurns(events.AT_ONCE, events.AT_ONCE_EACH)
    app.state.reading = FairTurns(READING, READING_EACH)
    app.state.searching = FairTurns(session_routes.AT_ONCE, session_routes.AT_ONCE_EACH)
    app.state.session_places = session_routes.SessionPlaces()
    app.state.fingerprints = FairTurns(fingerprint_routes.AT_ONCE, fingerprint_routes.AT_ONCE_EACH)
    app.state.packs = FairTurns(context_pack.AT_ONCE, context_pack.AT_ONCE_EACH)
    app.state.mcp = FairTurns(mcp_route.AT_ONCE, mcp_route.AT_ONCE_EACH)
    app.state.mcp_limiter = anyio.CapacityLimiter(mcp_route.AT_ONCE)
    state = app.state
    app.state.pulse = Liveness((state.parsing, state.reading, state.fingerprints, state.packs))
    tokens = None
    if settings.jwt_issuer:
        from hmx_pipeline.service.bearer_tokens import BearerTokens

        tokens = BearerTokens(settings)
    app.state.access = Access(settings.api_keys, settings.rate_limit, tokens=tokens)
    app.state.usage = usage.Usage()
    app.state.learner = learn.Learner(settings, store, app.state.reading)
    problems.install(app)
    app.add_exception_handler(StoreUnavailableError, _away)
    app.add_exception_handler(TamperedError, _tampered)
    app.add_middleware(AllowedHosts, names=AllowedNames(settings) if app.state.access.open else None)
    app.add_middleware(RequestMetrics)
    for module in (events, websocket, streams, dead_letter_routes):
        app.include_router(module.router, dependencies=[NEGOTIATED])
    for module in (knowledge_routes, erasure_routes, memory, fingerprint_routes, session_routes, overview):
        app.include_router(module.router, dependencies=[NEGOTIATED, REPORTED])
    for module in (service_routes, page, docs, documentation):
        app.include_router(module.router)
    for module in (capture, learn, synthesize, export, usage):
        reads = [REPORTED] if module in (learn, synthesize, export) else []
        app.include_router(
            module.router, prefix="/v1", tags=[HIPPOCORTEX], dependencies=reads, responses=answer_envelope.DOCUMENTED
        )
    app.include_router(mcp_route.router, tags=["MCP"])
    app.include_router(hook_routes.router, tags=["Hooks"], responses=answer_envelope.DOCUMENTED)
    if settings.mem0:
        from hmx_pipeline.service import mem0_routes

        app.include_router(mem0_routes.router, tags=["mem0"], dependencies=[REPORTED])
    if settings.openai_upstream:
        from hmx_pipeline.service import openai_routes

        app.state.upstream = openai_routes.Upstream(settings)
        app.include_router(openai_routes.router, tags=["OpenAI"], responses=answer_envelope.FAILED)
    app.include_router(otel_routes.router, tags=["OpenTelemetry"], responses=answer_envelope.FAILED)
    return app


def _unreachable(store: Store) -> str | None:
    """One server of several is enough, since its tenants must not suffer for the others'."""
    why = [_unfit(server) for server in store.servers]
    return None if None in why else why[0]


def _unfit(server: MemoryServer) -> str | None:
    try:
        server.ping()
        if server.layouts.replaces() and not (whole := server.completeness()).complete:
            return f"{whole}; until then the version before this one serves from its own layout"
    except (StoreUnavailableError, EvictingError) as error:
        return str(error)
    return None


async def _away(request: Request, error: Exception) -> Response:
    detail = f"{error}. Try again; /readyz shows when it is back"
    filling = isinstance(error, ReplacedError)
    kind = ProblemKind.MEMORY_INCOMPLETE if filling else ProblemKind.REDIS_UNAVAILABLE
    return answer(request.scope, kind, detail, problems.RETRY)


async def _tampered(request: Request, error: Exception) -> Response:
    assert isinstance(error, TamperedError)
    detail = (
        f"{error.kind} {error.name} in Redis is damaged, so it is not served; the materialiser restores it from its "
        "topic. Try again"
    )
    return answer(request.scope, ProblemKind.PROVENANCE_FAILED, detail, problems.RETRY)
