"""`POST /v1/hmx/erasures` erases a subject, a session or the whole tenant, and `GET` with its id gives the receipt.
`GET /v1/hmx/retention` shows what a tenant's policies would take by now.

Enters: what to erase, or what was. Leaves: a signed receipt once memory is without it, or 202 if memory has not
followed in time; the erasure is in the log then, and its receipt can be asked for by its id. While memory is
behind the stages, nothing is erased: it may not know all of it.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import Field, ValidationError, model_validator

from hmx_pipeline.contracts.base import Model
from hmx_pipeline.contracts.erasure import ErasedScope
from hmx_pipeline.contracts.event import Id, Link
from hmx_pipeline.contracts.limits import KB
from hmx_pipeline.contracts.receipt import Receipt
from hmx_pipeline.contracts.retention import Retention
from hmx_pipeline.queries.erasure_query import NotFollowedError, NothingToEraseError, erase, receipt_of
from hmx_pipeline.queries.retention_query import RetentionPlan, plan
from hmx_pipeline.runtime.barriers import LackingError, wait_for_all
from hmx_pipeline.service import path_ids  # noqa: F401  routes below say `:id`
from hmx_pipeline.service.access import WholeReader, Writer, let_decide
from hmx_pipeline.service.body import JSON, described, read_model
from hmx_pipeline.service.decisions import deciding
from hmx_pipeline.service.fair_turns import FairTurns
from hmx_pipeline.service.memory import store_of
from hmx_pipeline.service.problems import ProblemError, ProblemKind, invalid, unavailable
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.fetch import Store

REQUEST_BYTES: Final = 4 * KB
WAIT_S: Final = 20.0
"""Longest wait for memory after an erasure; clients' own timeouts are often 30 s."""

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


_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {200: {"model": Receipt}, 202: {"model": ErasureAccepted}}


@router.post("/erasures", responses=_ANSWERS, openapi_extra=described(ErasureRequest.model_json_schema()))
async def post_erasure(request: Request, tenant: Writer) -> Response:
    """Erases a subject, a session or the whole tenant up to now, and answers with a signed receipt."""
    return await receipt(request, tenant, await read_model(request, ErasureRequest, REQUEST_BYTES), erase)


@router.get("/erasures/{erasure_id:id}", responses=_ANSWERS)
async def get_erasure(
    request: Request,
    tenant: Writer,
    erasure_id: Id,
    subject: Id | None = None,
    session: Id | None = None,
    everything: Annotated[bool, Query(alias="all")] = False,
) -> Response:
    """Returns the receipt of an earlier erasure of this, for a week."""
    try:
        asked = ErasureRequest(subject=subject, session=session, all=everything)
    except ValidationError as error:
        raise invalid(error) from None

    def again(settings: Settings, store: Store, *rest: Any) -> Receipt:
        return receipt_of(settings, store, rest[0], erasure_id, *rest[1:])

    return await receipt(request, tenant, asked, again)


@router.get("/retention", responses={200: {"model": RetentionPlan}})
async def get_retention(request: Request, tenant: WholeReader, policy: str | None = None) -> Response:
    """Counts what would leave memory by now, by policy and kind: by `policy`, or by what is set for the tenant."""
    try:
        asked = Retention.told(tenant, policy) if policy is not None else None
    except ValueError:
        detail = "no such policy: say CLASS:DAYSd,…,sessions:COUNT"
        raise ProblemError(ProblemKind.INVALID_REQUEST, detail) from None
    settings: Settings = request.app.state.settings
    turns: FairTurns = request.app.state.fingerprints
    store = store_of(request)

    def planned() -> RetentionPlan:
        with deciding():
            try:
                return plan(settings, store, tenant, asked)
            except LookupError as error:
                raise ProblemError(ProblemKind.NOT_FOUND, str(error)) from None

    return Response((await turns.run(tenant, planned)).to_json(), media_type=JSON)


async def receipt(request: Request, tenant: str, asked: ErasureRequest, make: Callable[..., Receipt]) -> Response:
    let_decide(request, asked.subject)
    turns: FairTurns = request.app.state.fingerprints  # it reads all of the tenant's memory, as a fingerprint does
    answer = await turns.run(tenant, _made, request, tenant, asked, make)
    request.app.state.erased.forget()  # what this process streams and exports is without it from now on
    return Response(answer.to_json(), 200 if isinstance(answer, Receipt) else 202, media_type=JSON)


def _made(
    request: Request, tenant: str, asked: ErasureRequest, make: Callable[..., Receipt]
) -> Receipt | ErasureAccepted:
    """Raises ProblemError."""
    settings: Settings = request.app.state.settings
    store = store_of(request)
    with deciding():
        try:
            return make(
                settings, store, tenant, asked.scope, asked.subject or asked.session or "",
                lambda: wait_for_all(settings, store.positions, WAIT_S),
            )  # fmt: skip
        except NothingToEraseError as error:
            raise ProblemError(ProblemKind.NOT_FOUND, str(error)) from None
        except LackingError as error:
            detail = f"nothing is erased yet, since memory may not know all of it: {error}"
            raise unavailable(ProblemKind.MEMORY_INCOMPLETE, detail) from None
        except NotFollowedError as error:
            detail = f"the erasure is in the log, but memory has not followed yet: {error}"
            return ErasureAccepted(erasure_id=error.erasure_id, detail=detail)
