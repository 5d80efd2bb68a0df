"""`POST /v1/hmx/erasures`: erases a subject, a session or the whole tenant.

Enters: what to erase. Leaves: a signed receipt once memory is without it, or 202 if memory has not followed in time;
the erasure is in the log then.
"""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field, ValidationError, model_validator

from hmx_pipeline.contracts.base import Model
from hmx_pipeline.contracts.erasure import ErasedScope
from hmx_pipeline.contracts.event import Link
from hmx_pipeline.contracts.limits import KB
from hmx_pipeline.contracts.receipt import Receipt
from hmx_pipeline.kafka.control_producer import append_erasure
from hmx_pipeline.queries.erasure_query import NothingToEraseError, make_receipt, plan_erasure
from hmx_pipeline.runtime.barriers import LackingError, wait_for_all
from hmx_pipeline.service.access import Writer, let_decide
from hmx_pipeline.service.body import media_type, read_body
from hmx_pipeline.service.decisions import deciding
from hmx_pipeline.service.fair_turns import FairTurns
from hmx_pipeline.service.memory import JSON, store_of
from hmx_pipeline.service.problems import ProblemError, ProblemKind, invalid
from hmx_pipeline.settings import Settings

REQUEST_BYTES: Final = 4 * KB
WAIT_S: Final = 20.0
"""Longest wait for memory; clients' own timeouts are often 30 s."""

router: Final = APIRouter(prefix="/v1/hmx")


class ErasureRequest(Model):
    """Exactly one of the three."""

    subject: Annotated[Link, Field(min_length=1)] | None = None
    session: Annotated[Link, Field(min_length=1)] | None = None
    all: bool = False

    @model_validator(mode="after")
    def _says_one_thing(self) -> "ErasureRequest":
        if (self.subject is not None) + (self.session is not None) + self.all != 1:
            raise ValueError("name exactly one of subject, session and all")
        return self

    @property
    def scope(self) -> ErasedScope:
        if self.all:
            return ErasedScope.TENANT
        return ErasedScope.SESSION if self.session is not None else ErasedScope.SUBJECT


class ErasureAccepted(Model):
    erasure_id: str
    detail: str


def _asked() -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {JSON: {"schema": ErasureRequest.model_json_schema()}}}}


@router.post("/erasures", responses={200: {"model": Receipt}, 202: {"model": ErasureAccepted}}, openapi_extra=_asked())
async def post_erasure(request: Request, tenant: Writer) -> Response:
    """Erases a subject, a session or the whole tenant up to now, and answers with a signed receipt."""
    media_type(request, (JSON,))
    body = await read_body(request, REQUEST_BYTES)
    try:
        asked = ErasureRequest.model_validate_json(body)
    except ValidationError as error:
        raise invalid(error) from None
    let_decide(request, asked.subject)
    turns: FairTurns = request.app.state.fingerprints  # it reads all of the tenant's memory, as a fingerprint does
    answer = await turns.run(tenant, _erased, request, tenant, asked)
    return Response(answer.to_json(), 200 if isinstance(answer, Receipt) else 202, media_type=JSON)


def _erased(request: Request, tenant: str, asked: ErasureRequest) -> Receipt | ErasureAccepted:
    """Raises ProblemError."""
    settings: Settings = request.app.state.settings
    store = store_of(request)
    with deciding():
        settings.require_control_key()
        try:
            erasure, held = plan_erasure(store, tenant, asked.scope, asked.subject or asked.session or "")
        except NothingToEraseError as error:
            raise ProblemError(ProblemKind.NOT_FOUND, str(error)) from None
        append_erasure(settings, erasure)
    try:
        wait_for_all(settings, store.positions, WAIT_S)
    except LackingError as error:
        return ErasureAccepted(
            erasure_id=erasure.erasure_id, detail=f"the erasure is in the log, but memory has not followed yet: {error}"
        )
    return make_receipt(settings, store, erasure, held)
