"""`GET /v1/hmx/knowledge`, `POST /v1/hmx/knowledge/{id}/confirm`, `correct` and `retract`, and
`POST /v1/hmx/artifacts/{id}/archive`.

Enters: filters; or an id and what is decided on it. Leaves: a page of records; or the decision as an event in the log,
which is in memory soon after the answer.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

import orjson
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import ValidationError

from hmx_pipeline.contracts.base import Model
from hmx_pipeline.contracts.event import Id, Timestamp
from hmx_pipeline.contracts.evidence import Archive
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.limits import KB
from hmx_pipeline.contracts.options import HOLDS, Kind, Standing, Status
from hmx_pipeline.contracts.ruling import RulingVerb
from hmx_pipeline.contracts.timestamps import format_ms, milliseconds
from hmx_pipeline.kafka.control_producer import append_archive
from hmx_pipeline.queries.knowledge_query import (
    KnowledgeFilter,
    OutrankedError,
    RulingError,
    RulingRequest,
    UnknownSourcesError,
    earlier,
    list_knowledge,
    rule,
)
from hmx_pipeline.service import path_ids  # noqa: F401  routes below say `:id`
from hmx_pipeline.service.access import Reader, Writer, bound_to, let_decide, subject_for
from hmx_pipeline.service.body import JSON, media_type, read_body
from hmx_pipeline.service.decisions import deciding
from hmx_pipeline.service.fair_turns import FairTurns, in_turn
from hmx_pipeline.service.memory import PAGE, missing, store_of, view_of
from hmx_pipeline.service.problems import ProblemError, ProblemKind, invalid, unavailable
from hmx_pipeline.settings import Settings

REQUEST_BYTES: Final = 16 * KB

Route = TypeVar("Route", bound=Callable[..., Any])
_HOLDS: Final = list(HOLDS)

router: Final = APIRouter(prefix="/v1/hmx")


class KnowledgeList(Model):
    records: list[KnowledgeRecord]
    cursor: str | None = None
    """Cursor of the next page; absent on the last page. A page may be short and still have a next one."""


class RulingAnswer(Model):
    record_id: str
    verb: RulingVerb
    at: str
    stated: str | None = None
    """Of a correction: the id of the record that holds instead."""
    replaces: str | None = None
    """The earlier ruling on this record, if there is one: of two rulings, the one later in the log holds."""


@router.get("/knowledge", responses={200: {"model": KnowledgeList}})
@in_turn
def list_known(
    request: Request,
    tenant: Reader,
    kind: Kind | None = None,
    status: Annotated[list[Standing], Query(description="Repeatable; by default what holds")] = _HOLDS,
    subject: Id | None = None,
    session: Id | None = None,
    agent: Id | None = None,
    text: Annotated[str, Query(max_length=500, description="Words that all stand in the text")] = "",
    since: Timestamp | None = None,
    until: Timestamp | None = None,
    limit: Annotated[int, Query(ge=1, le=PAGE)] = 20,
    cursor: str | None = None,
) -> Response:
    """Lists memories, policies, entities, relations and conflicts, in pages."""
    subject_for(bound_to(request), subject)  # refuses another subject than the key's own
    wanted = KnowledgeFilter(
        kind=kind,
        statuses=status,
        subject=subject,
        session=session,
        agent=agent,
        text=text,
        since=None if since is None else milliseconds(since),
        until=None if until is None else milliseconds(until),
        sees=bound_to(request),
    )
    page = list_knowledge(store_of(request), tenant, wanted, limit, cursor)
    answer: dict[str, Any] = {"records": view_of(request, tenant).told(page.records)}
    return Response(orjson.dumps(answer if page.cursor is None else answer | {"cursor": page.cursor}), media_type=JSON)


_ASKED: Final = {"requestBody": {"content": {JSON: {"schema": RulingRequest.model_json_schema()}}}}


@router.post("/artifacts/{artifact_id:id}/archive", status_code=202, openapi_extra=_ASKED)
async def archive_artifact(request: Request, tenant: Writer, artifact_id: Id) -> Response:
    """Retires an active artifact for good: packs stop showing it, and its pattern produces no new one."""
    said = await _said(request)
    turns: FairTurns = request.app.state.reading
    await turns.run(tenant, archived, request, tenant, artifact_id, said.reason)
    return Response(orjson.dumps({"artifact_id": artifact_id, "status": "accepted"}), 202, media_type=JSON)


def archived(request: Request, tenant: str, artifact_id: str, reason: str) -> None:
    """Raises ProblemError."""
    found = view_of(request, tenant).artifact(artifact_id)
    if found is None:
        raise missing(request, tenant, "artifact")
    let_decide(request, None)
    pattern = found["metadata"].get("pattern")
    if found["status"] != Status.ACTIVE or pattern is None:
        detail = f"it is {found['status']}: only an active one that was compiled here can be archived"
        raise ProblemError(ProblemKind.INVALID_REQUEST, detail)
    with deciding():
        append_archive(
            request.app.state.settings,
            Archive(tenant_id=tenant, pattern=pattern, artifact_id=artifact_id, reason=reason),
        )


def _ruling(verb: RulingVerb) -> Callable[[Route], Route]:
    """Makes a function the route of a verb."""
    answers: dict[int | str, dict[str, Any]] = {202: {"model": RulingAnswer}}
    path = f"/knowledge/{{record_id:id}}/{verb}"
    return router.post(path, status_code=202, responses=answers, openapi_extra=_ASKED)


@_ruling(RulingVerb.CONFIRM)
async def confirm(request: Request, tenant: Writer, record_id: Id) -> Response:
    """Confirms a record: it holds with full confidence, whatever others say."""
    return await _decide(request, tenant, record_id, RulingVerb.CONFIRM)


@_ruling(RulingVerb.CORRECT)
async def correct(request: Request, tenant: Writer, record_id: Id) -> Response:
    """Corrects a record: what the body states holds instead of it, and of all others about the same."""
    return await _decide(request, tenant, record_id, RulingVerb.CORRECT)


@_ruling(RulingVerb.RETRACT)
async def retract(request: Request, tenant: Writer, record_id: Id) -> Response:
    """Retracts a record: it stays out, whatever evidence comes, until it is confirmed."""
    return await _decide(request, tenant, record_id, RulingVerb.RETRACT)


async def _said(request: Request) -> RulingRequest:
    """Raises ProblemError."""
    body = await read_body(request, REQUEST_BYTES)
    if body:
        media_type(request, (JSON,))
    try:
        return RulingRequest.model_validate_json(body or b"{}")
    except ValidationError as error:
        raise invalid(error) from None


async def _decide(request: Request, tenant: str, record_id: str, verb: RulingVerb) -> Response:
    said = await _said(request)
    turns: FairTurns = request.app.state.reading
    answer = await turns.run(tenant, ruled, request, tenant, record_id, verb, said)
    return Response(answer.to_json(), 202, media_type=JSON)


def ruled(request: Request, tenant: str, record_id: str, verb: RulingVerb, said: RulingRequest) -> RulingAnswer:
    """Raises ProblemError."""
    settings: Settings = request.app.state.settings
    view = view_of(request, tenant)
    record = view.knowledge(record_id)
    if record is None:
        raise missing(request, tenant, "knowledge record")
    let_decide(request, record.get("subject_id"))
    with deciding():
        try:
            ruling = rule(settings, store_of(request), record, verb, said, bound_to(request) or "", view.knowledge)
        except OutrankedError as error:
            raise ProblemError(ProblemKind.OUTRANKED, str(error)) from None
        except UnknownSourcesError as error:
            raise unavailable(ProblemKind.MEMORY_INCOMPLETE, str(error)) from None
        except RulingError as error:
            raise ProblemError(ProblemKind.INVALID_REQUEST, str(error), path="$") from None
    stated = None if ruling.stated is None else ruling.stated.record_id
    return RulingAnswer(
        record_id=record_id, verb=verb, at=format_ms(ruling.at), stated=stated, replaces=earlier(record)
    )
