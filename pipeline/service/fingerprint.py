"""`POST /v1/hmx/fingerprints`: what a tenant or one of its agents has learnt, to be carried elsewhere (HMX-F).

Enters: a tier, and perhaps an agent. Leaves: the fingerprint of memory as it stands. Nothing is written.
"""

import asyncio
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response
from pydantic import Field, ValidationError

from pipeline.contracts.event import Name
from pipeline.contracts.fingerprint import Fingerprint, Tier
from pipeline.contracts.limits import KB
from pipeline.contracts.model import Model
from pipeline.fingerprints.make import fingerprint
from pipeline.intake.paths import path_of
from pipeline.service.access import Reader
from pipeline.service.body import media_type, read_body
from pipeline.service.problems import Kind, ProblemError
from pipeline.store.fetch import Store

REQUEST_BYTES: Final = 64 * KB
AT_ONCE: Final = 2
"""Made at once by a process, whoever asks: all that a tenant has learnt is read for each."""
JSON: Final = "application/json"

router: Final = APIRouter(prefix="/v1/hmx")


class FingerprintRequest(Model):
    tier: Annotated[Tier, Field(strict=False)] = Tier.COMPACT
    agent_id: Name | None = None
    """Only what this agent has taken part in learning; the whole tenant where it is left out."""


def make_fingerprint(store: Store, tenant: str, asked: FingerprintRequest) -> Fingerprint:
    """The one way to make one. Raises StoreUnavailableError."""
    return fingerprint(store.learnt(tenant, asked.agent_id), asked.tier)


async def fingerprint_json(request: Request, tenant: str, asked: FingerprintRequest) -> bytes:
    """Its published bytes, once it is its turn. Raises StoreUnavailableError."""
    turns: asyncio.Semaphore = request.app.state.fingerprints
    async with turns:
        return await run_in_threadpool(lambda: make_fingerprint(request.app.state.store, tenant, asked).to_json())


def _asked() -> dict[str, Any]:
    schema = FingerprintRequest.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs")
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema}}}}


@router.post("/fingerprints", responses={200: {"model": Fingerprint}}, openapi_extra=_asked())
async def post_fingerprint(request: Request, tenant: Reader) -> Response:
    """What the tenant has learnt so far: the same memory gives the same bytes."""
    media_type(request, (JSON,))
    body = await read_body(request, REQUEST_BYTES)
    try:
        asked = FingerprintRequest.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise ProblemError(Kind.INVALID_REQUEST, first["msg"], path=path_of(first["loc"])) from None
    return Response(await fingerprint_json(request, tenant, asked), media_type=JSON)
