"""`POST /v1/hmx/fingerprints` and `/import`: exports and imports what a tenant or agent has learnt (HMX-F).

Enters: for an export a tier and an agent, for an import a fingerprint. Leaves: the fingerprint of current memory, or
the imported patterns, whose events are then in the log.
"""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import Field, ValidationError

from hmx_pipeline.contracts.base import Model
from hmx_pipeline.contracts.event import Id, Link
from hmx_pipeline.contracts.fingerprint import Fingerprint, Tier
from hmx_pipeline.contracts.limits import KB, MB
from hmx_pipeline.fingerprints.import_plan import UnreadableError, imports
from hmx_pipeline.kafka.control_producer import append_imports
from hmx_pipeline.queries.fingerprint_query import make_fingerprint
from hmx_pipeline.service.access import Operator, WholeReader
from hmx_pipeline.service.body import JSON, described, media_type, read_body, read_model
from hmx_pipeline.service.decisions import deciding
from hmx_pipeline.service.fair_turns import FairTurns
from hmx_pipeline.service.problems import ProblemError, ProblemKind, invalid
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.fetch import Store

REQUEST_BYTES: Final = 64 * KB
DOCUMENT_BYTES: Final = 16 * MB
AT_ONCE, AT_ONCE_EACH = 2, 1
"""Fingerprints made or imported at the same time, in total and per tenant; each reads all of the tenant's memory."""

router: Final = APIRouter(prefix="/v1/hmx")


class FingerprintRequest(Model):
    tier: Annotated[Tier, Field(strict=False)] = Tier.COMPACT
    agent_id: Id | None = None
    """Only what rests on this agent's sessions; default: the whole tenant."""


class ImportAnswer(Model):
    fingerprint_hash: str
    agent_id: str | None = None
    """The receiving agent; absent for all agents."""
    imported: list[str]
    """Imported patterns. They are in the log, and soon in memory."""


async def fingerprint_json(request: Request, tenant: str, asked: FingerprintRequest) -> bytes:
    """Returns the published bytes. Raises StoreUnavailableError."""
    turns: FairTurns = request.app.state.fingerprints
    store: Store = request.app.state.store
    return await turns.run(tenant, lambda: make_fingerprint(store, tenant, asked.tier, asked.agent_id).to_json())


def _asked() -> dict[str, Any]:
    schema = FingerprintRequest.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs")
    return described(schema)


@router.post("/fingerprints", responses={200: {"model": Fingerprint}}, openapi_extra=_asked())
async def post_fingerprint(request: Request, tenant: WholeReader) -> Response:
    """Exports what the tenant has learnt; the same memory gives the same bytes."""
    asked = await read_model(request, FingerprintRequest, REQUEST_BYTES)
    return Response(await fingerprint_json(request, tenant, asked), media_type=JSON)


_DOCUMENT: Final = described({"$ref": "#/components/schemas/Fingerprint"})


@router.post("/fingerprints/import", status_code=202, responses={202: {"model": ImportAnswer}}, openapi_extra=_DOCUMENT)
async def import_fingerprint(
    request: Request,
    tenant: Operator,
    agent: Annotated[Link, Query(description="Only for this agent of the tenant; default: all agents")] = "",
) -> Response:
    """Imports what another tenant has learnt: active artifacts and priors, each as an event in the log."""
    media_type(request, (JSON,))
    body = await read_body(request, DOCUMENT_BYTES)
    turns: FairTurns = request.app.state.fingerprints
    answer = await turns.run(tenant, _imported, request.app.state.settings, body, tenant, agent)
    return Response(answer.to_json(), 202, media_type=JSON)


def _imported(settings: Settings, body: bytes, tenant: str, agent: str) -> ImportAnswer:
    """Raises ProblemError."""
    try:
        made = Fingerprint.model_validate_json(body)
        given = imports(made, tenant, agent)
    except ValidationError as error:
        raise invalid(error) from None
    except UnreadableError as error:
        raise ProblemError(ProblemKind.INVALID_REQUEST, str(error), path="$") from None
    with deciding():
        append_imports(settings, given)
    return ImportAnswer(
        fingerprint_hash=made.fingerprint_hash, agent_id=agent or None, imported=[one.pattern for one in given]
    )
