"""`POST /v1/fingerprints`: exports a fingerprint (HMX-F) in the clients' envelope."""

from typing import Annotated, Final

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field

from hmx_pipeline.contracts.event import Id
from hmx_pipeline.contracts.fingerprint import Tier
from hmx_pipeline.service.access import WholeReader
from hmx_pipeline.service.body import described, read_body
from hmx_pipeline.service.fingerprint_routes import FingerprintRequest, fingerprint_json
from hmx_pipeline.service.hippocortex.answer_envelope import success
from hmx_pipeline.service.hippocortex.client_json import REQUEST_BYTES, ClientModel, parsed, schema_of

router: Final = APIRouter()


class FingerprintBody(ClientModel):
    tier: Annotated[Tier, Field(strict=False)] = Tier.COMPACT
    agent_id: Id | None = None


@router.post("/fingerprints", openapi_extra=described(schema_of(FingerprintBody)))
async def export_fingerprint(request: Request, tenant: WholeReader) -> Response:
    """Exports what the tenant, or one of its agents, has learnt."""
    said = parsed(FingerprintBody, await read_body(request, REQUEST_BYTES))
    asked = FingerprintRequest(tier=said.tier, agent_id=said.agent_id)
    return success(request, orjson.Fragment(await fingerprint_json(request, tenant, asked)))
