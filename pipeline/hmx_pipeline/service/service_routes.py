"""Service routes without a tenant: health checks, metrics, versions, schemas.

Enters: the checks of `service/app`, cached for some seconds; no key is needed. Leaves: 200, or 503 with the check that
failed and why; metrics as text; schemas as JSON.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import orjson
from confluent_kafka import KafkaException
from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from hmx_pipeline.contracts import limits
from hmx_pipeline.contracts.schemas import documents, text
from hmx_pipeline.contracts.versions import HMX_VERSION, SUPPORTED
from hmx_pipeline.kafka.acl_rights import check_rights
from hmx_pipeline.kafka.consumer_lag import ConsumerLag
from hmx_pipeline.kafka.topic_files import TopicsError
from hmx_pipeline.observe.freshness import verdict
from hmx_pipeline.retrieval.memory_completeness import Completeness
from hmx_pipeline.service.events import BODY_BYTES, REQUEST_EVENTS
from hmx_pipeline.service.liveness import Liveness
from hmx_pipeline.service.negotiation import SUBPROTOCOL
from hmx_pipeline.service.problems import ProblemError, ProblemKind
from hmx_pipeline.service.ttl_cache import TtlCache
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.atomic_blocks import StoreUnavailableError, TornStateError
from hmx_pipeline.store.fetch import Store
from hmx_pipeline.store.memory_server import MemoryServer
from hmx_pipeline.topology import MATERIALISED

LOG: Final = logging.getLogger("hmx.service")
KEPT_S: Final = 1.0
MEMORY_KEPT_S: Final = 5.0
MEMORY_ANSWER_S: Final = 2.0
SCHEMAS: Final = "/schemas/hmx-1.0/"
_SCHEMAS: Final = {name: text(document).encode() for name, document in documents().items()}
_ABOUT: Final[dict[str, Any]] = {
    "hmx_version": HMX_VERSION,
    "supported_versions": [SUPPORTED],
    "websocket_subprotocol": SUBPROTOCOL,
    "schemas": {name.removesuffix(".json"): SCHEMAS + name for name in sorted(_SCHEMAS)},
    "limits": {
        "request_bytes": BODY_BYTES,
        "request_events": REQUEST_EVENTS,
        "event_bytes": limits.EVENT_BYTES,
        "content_bytes": limits.CONTENT_BYTES,
        "metadata_bytes": limits.METADATA_BYTES,
        "event_tags": limits.EVENT_TAGS,
        "embedding_dimensions": limits.EMBEDDING_DIMENSIONS,
        "pack_bytes": limits.PACK_BYTES,
        "pack_entries": limits.PACK_ENTRIES,
    },
}

router: Final = APIRouter()


class Check(TtlCache[str | None]):
    """TTL cache of a health check: None if healthy, else the reason. Changes are logged."""

    def __init__(self, name: str, ask: Callable[[], str | None], kept_s: float = KEPT_S) -> None:
        super().__init__(self._look, kept_s)
        self._name = name
        self._find_out = ask
        self._before: str | None = None

    def _look(self) -> str | None:
        answer = self._find_out()
        if (answer is None) != (self._before is None):
            LOG.warning("%s: %s", self._name, answer or "healthy again")
        self._before = answer
        return answer


class MemoryCheck:
    """Checks whether Redis is fresh enough."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self._unread: ConsumerLag | None = None

    def why_not(self) -> str | None:
        """Returns why memory is stale, or None. Blocks for a few seconds at most."""
        settings = self._settings
        try:
            if self._unread is None:
                check_rights(settings.require_kafka(), "service", settings.topic_prefix)
                self._unread = ConsumerLag(settings.require_kafka(), settings.topic_prefix, MEMORY_ANSWER_S)
            why = [self._stale(server, self._unread) for server in self._store.servers]
        except KafkaException as error:
            self.close()  # after a broker's restart a client asks with the old leader's epoch, for minutes
            return f"unknown: {error}"
        except TopicsError as error:
            return str(error)
        return None if None in why else why[0]  # one server of several is enough for the tenants that it holds

    def _stale(self, server: MemoryServer, unread: ConsumerLag) -> str | None:
        try:
            at = server.positions()
        except TornStateError as error:
            return str(error)
        except StoreUnavailableError as error:
            return f"unknown: {error}"
        positions = {place: at.get("{}/{}".format(*place), 0) for place in unread.places(MATERIALISED)}
        fresh, why = verdict(list(unread.behind(positions).values()), self._settings.ready_lag_s)
        return None if fresh else why

    def close(self) -> None:
        unread, self._unread = self._unread, None
        if unread is not None:
            unread.close()


@router.get("/livez", tags=["health"], response_class=PlainTextResponse)
async def livez(request: Request) -> Response:
    """Liveness: requests are answered in time; 503 names what is stuck."""
    pulse: Liveness = request.app.state.pulse
    why_not = pulse.why_not()
    return Response(f"{why_not or 'alive'}\n", 503 if why_not else 200, media_type="text/plain")


@router.get("/startupz", tags=["health"])
async def startupz(request: Request) -> Response:
    """Startup: Redis has answered once, which packs need; 503 says why it does not."""
    state = request.app.state
    answers = {} if state.started else {"redis": await state.checks["redis"].get()}
    state.started = not any(answers.values())
    return _said(answers, {})


@router.get("/readyz", tags=["health"])
async def readyz(request: Request) -> Response:
    """Readiness: Kafka and Redis answer and memory is fresh; 503 names the failed check and the lag."""
    answers = await asked(request.app.state.checks)
    if not any(answers.values()):
        memory: Check = request.app.state.memory
        answers["memory"] = await memory.get()
    whole: Completeness | None = await request.app.state.completing.get()
    told: dict[str, Any] = {} if whole is None else {"memory_complete": whole.complete, "memory_filled": str(whole)}
    damaged: TtlCache[list[str]] = request.app.state.damaged
    with suppress(StoreUnavailableError):  # already reported above
        told["provenance_failed"] = await damaged.get()
    return _said(answers, told)


async def asked(checks: dict[str, Check]) -> dict[str, str | None]:
    """Returns check → reason of failure, or None."""
    return dict(zip(checks, await asyncio.gather(*(check.get() for check in checks.values())), strict=True))


def _said(answers: dict[str, str | None], told: dict[str, Any]) -> Response:
    ready = not any(answers.values())
    well = {"memory": "fresh"}
    body = {"ready": ready, **{name: why_not or well.get(name, "answers") for name, why_not in answers.items()}, **told}
    return Response(orjson.dumps(body), 200 if ready else 503, media_type="application/json")


@router.get("/metrics", tags=["health"], response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Metrics in Prometheus format."""
    await request.app.state.checks["kafka"].get()
    return Response(generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})


@router.get("/v1/hmx", tags=["protocol"])
async def about() -> Response:
    """Returns supported versions, schema addresses and limits."""
    return Response(orjson.dumps(_ABOUT), media_type="application/json")


@router.get(SCHEMAS + "{name}", tags=["protocol"])
async def schema(name: str) -> Response:
    """Returns a JSON Schema, such as event.json."""
    if name not in _SCHEMAS:
        raise ProblemError(ProblemKind.NOT_FOUND, f"no such schema; use one of {', '.join(sorted(_SCHEMAS))}")
    return Response(_SCHEMAS[name], media_type="application/schema+json")
