"""`POST /v1/fingerprints`: exports a fingerprint (HMX-F) in the clients' envelope."""

from typing import Annotated, Final

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field

from pipeline.contracts.event import Id
from pipeline.contracts.fingerprint import Tier
from pipeline.service.access import Reader
from pipeline.service.body import read_body
from pipeline.service.dialect.envelope import success
from pipeline.service.dialect.words import REQUEST_BYTES, Words, described, parsed, schema_of
from pipeline.service.fingerprint import FingerprintRequest, fingerprint_json

router: Final = APIRouter()


class Asked(Words):
    tier: Annotated[Tier, Field(strict=False)] = Tier.COMPACT
    agent_id: Id | None = None


@router.post("/fingerprints", openapi_extra=described(schema_of(Asked)))
async def export_fingerprint(request: Request, tenant: Reader) -> Response:
    """Exports what the tenant, or one of its agents, has learnt."""
    said = parsed(Asked, await read_body(request, REQUEST_BYTES))
    asked = FingerprintRequest(tier=said.tier, agent_id=said.agent_id)
    return success(request, orjson.Fragment(await fingerprint_json(request, tenant, asked)))
