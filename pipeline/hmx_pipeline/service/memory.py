"""Memory routes under `/v1/hmx`: context packs, and every source that a pack or an artifact names (HMX-C §1).

Enters: a question with a token budget (`PackRequest`), filters, or an id. Leaves: a `ContextPack`, a page, or the
stored record as JSON, as the subject of the request's key may see it. Raises ProblemError.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final, NamedTuple

import orjson
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import ValidationError

from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.base import Model
from hmx_pipeline.contracts.episode import Episode, event_fields
from hmx_pipeline.contracts.event import Event, Id
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.headers import ORIGIN_OFFSET, ORIGIN_PARTITION
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.limits import ID_BYTES, KB
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.contracts.pack import ContextPack, OverviewPack, Vocabulary
from hmx_pipeline.intake.number_ranges import out_of_range_path
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.packs.vocabulary import in_overview
from hmx_pipeline.queries.context_pack import make_pack, surfaced
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.service import path_ids  # noqa: F401  routes below say `:id`
from hmx_pipeline.service.access import OPERATOR, Reader, admitted, bound_to, grant_of, subject_for
from hmx_pipeline.service.api_keys import Scope
from hmx_pipeline.service.body import JSON, described, inlined, media_type, parsed, read_body
from hmx_pipeline.service.completeness_header import COMPLETE, anew
from hmx_pipeline.service.fair_turns import FairTurns, in_turn
from hmx_pipeline.service.problems import RETRY, ProblemError, ProblemKind, invalid, unavailable
from hmx_pipeline.service.read_your_writes import await_memory
from hmx_pipeline.service.subscriptions import FAILURES
from hmx_pipeline.service.ttl_cache import TtlCache
from hmx_pipeline.store.erased_memory import Erasures
from hmx_pipeline.store.fetch import Ambiguous, Store
from hmx_pipeline.store.subject_view import SubjectView

REQUEST_BYTES: Final = 256 * KB
PAGE: Final = 100
EXAMINED: Final = 20
"""Pages looked through for one with the words."""
FORGOTTEN_S: Final = 1.0
"""Longest time that a 404 waits to tell what retention has taken."""

Subject = Annotated[
    str | None, Query(max_length=ID_BYTES, description="As this subject sees it; empty: as nobody in particular does")
]

router: Final = APIRouter(prefix="/v1/hmx")


class ArtifactList(Model):
    artifacts: list[Artifact]
    total: int
    cursor: str | None = None
    """Cursor of the next page; absent on the last page."""
    memory_complete: bool | None = None
    """False while memory is being loaded and more may appear."""


def _asked() -> dict[str, Any]:
    """Returns the OpenAPI body of a pack request; the tenant is that of the request."""
    schema = PackRequest.model_json_schema()
    schema = inlined(schema, schema.pop("$defs"))
    schema["properties"].pop("tenant_id")
    schema["required"].remove("tenant_id")
    schema["properties"]["after"] = {
        "type": "string",
        "description": "Token of an append: waits until memory holds its events, or answers 504 after 10 seconds",
    }
    schema["properties"]["require_complete"] = {
        "type": "boolean",
        "default": False,
        "description": "Answer 503 while memory is being loaded; by default the pack has memory_complete: false",
    }
    schema["properties"]["surfaces"] = {
        "type": "boolean",
        "default": False,
        "description": "Append one event that reinforces what the pack shows; felt in the cognitive profile alone",
    }
    return described(schema)


@router.post("/context-packs", responses={200: {"model": ContextPack | OverviewPack}}, openapi_extra=_asked())
async def post_context_pack(request: Request, tenant: Reader) -> Response:
    """Assembles the context for a question within a token budget (HMX-C).

    `as_of` gives the pack as of that event time: facts, artifact versions and relative times. Not restored: withdrawn
    records, settled conflicts, erased versions, replaced policies that do not match the question, and past confidence
    and counts of knowledge.
    """
    media_type(request, (JSON,))
    body = await read_body(request, REQUEST_BYTES)
    asked, conditions = await parsed(request, tenant, body, lambda: _pack_request(body, tenant, bound_to(request)))
    if conditions.after is not None:
        await await_memory(request.app.state.reading, store_of(request), tenant, conditions.after)
    if conditions.surfaces and not admitted(request, tenant, Scope.WRITE):
        raise ProblemError(ProblemKind.FORBIDDEN, "`surfaces` appends an event: use a key that may write")
    turns: FairTurns = request.app.state.packs
    if bound_to(request) is not None and asked.session_id is not None:
        session = await turns.run(tenant, view_of(request, tenant).session, asked.session_id)
        asked = asked.model_copy(update={"session_id": session})
    pack = await turns.run(tenant, make_pack, store_of(request), asked)
    grant = grant_of(request)
    if conditions.surfaces and (sent := surfaced(pack, asked.subject_id, grant.agent)):
        await request.app.state.captures.take_one(tenant, grant, sent)
    request.scope[COMPLETE] = pack.metadata.get("memory_complete")
    if conditions.require_complete and request.scope[COMPLETE] is False:
        raise _incomplete(pack)
    METRICS.pack_tokens.observe(pack.token_budget.used)
    told = in_overview(pack) if asked.vocabulary is Vocabulary.OVERVIEW else pack
    return Response(told.to_json(), media_type=JSON)


def _incomplete(pack: ContextPack) -> ProblemError:
    filling = pack.metadata["memory_filling"]
    detail = f"memory is {filling['percent']:g} % filled: try again, or leave out require_complete"
    return ProblemError(ProblemKind.MEMORY_INCOMPLETE, detail, RETRY, memory_complete=False, memory_filling=filling)


class Conditions(NamedTuple):
    """Conditions for making a pack; they are not part of its identity."""

    after: object
    require_complete: bool
    surfaces: bool
    """Whether what the pack shows is reinforced: appends one event."""


def _pack_request(body: bytes, tenant: str, bound: str | None = None) -> tuple[PackRequest, Conditions]:
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError:
        path = out_of_range_path(body)
        detail = "the body is not valid JSON" if path == "$" else "the number is out of range"
        raise ProblemError(ProblemKind.INVALID_REQUEST, detail, path=path) from None
    if not isinstance(fields, dict):
        raise ProblemError(ProblemKind.INVALID_REQUEST, "the body must be a JSON object", path="$")
    if fields.setdefault("tenant_id", tenant) != tenant:
        raise ProblemError(
            ProblemKind.TENANT_MISMATCH, "not the tenant of the request: leave it out", path="$.tenant_id"
        )
    if bound is not None:
        fields["subject_id"] = subject_for(bound, fields.get("subject_id"))
    conditions = Conditions(
        fields.pop("after", None), fields.pop("require_complete", False), fields.pop("surfaces", False)
    )
    for name in ("require_complete", "surfaces"):
        if not isinstance(getattr(conditions, name), bool):
            raise ProblemError(ProblemKind.INVALID_REQUEST, "must be true or false", path=f"$.{name}")
    try:
        return PackRequest.model_validate(fields), conditions
    except ValidationError as error:
        raise invalid(error) from None


@router.get("/tenants", dependencies=[OPERATOR])
def get_tenants(request: Request) -> Response:
    """Lists the tenants that have memory."""
    return _json({"tenants": store_of(request).tenants()})


@router.get("/events/{event_id:id}", responses={200: {"model": Event}})
async def get_event(
    request: Request, tenant: Reader, event_id: Id, session: Id | None = None, subject: Subject = None
) -> Response:
    """Returns a released event without secrets, its origin in headers; 409 if several sessions share the id. A 404
    has `forgotten` where the tenant's retention may have taken it."""
    found = await _event(request=request, tenant=tenant, event_id=event_id, session=session, subject=subject)
    if isinstance(found, Ambiguous):
        raise ProblemError(ProblemKind.AMBIGUOUS, "name the session with ?session=", sessions=list(found.sessions))
    if found is None:
        raise await _gone(request, tenant)
    origin = Episode.model_validate(found).origin
    answer = _json(event_fields(found))
    answer.headers[ORIGIN_PARTITION] = str(origin.partition)
    answer.headers[ORIGIN_OFFSET] = str(origin.offset)
    return answer


@in_turn
def _event(
    request: Request, tenant: str, event_id: str, session: str | None, subject: str | None
) -> dict[str, Any] | Ambiguous | None:
    return view_of(request, tenant, subject).event(event_id, session)


_REJECTED: Final = ". If it was rejected, GET /v1/hmx/dead-letters says why"


async def _gone(request: Request, tenant: str) -> ProblemError:
    """What an artifact names as its source may have left since; who follows it learns why it is not there, unless
    Kafka is silent."""
    with suppress(ProblemError, TimeoutError):
        async with asyncio.timeout(FORGOTTEN_S):
            erased = await erased_of(request)
        if taken := erased.retention(tenant):
            detail = f"the tenant has no event with this id, or its retention has taken it{_REJECTED}"
            return ProblemError(ProblemKind.NOT_FOUND, detail, forgotten=taken)
    return missing(request, tenant, "event", _REJECTED)


@router.get("/contributions/{contribution_id:id}", responses={200: {"model": Contribution}})
@in_turn
def get_contribution(request: Request, tenant: Reader, contribution_id: str, subject: Subject = None) -> Response:
    """Returns one segment's contribution to a pattern, as named in source_memory_ids."""
    return _found(request, tenant, view_of(request, tenant, subject).contribution(contribution_id), "contribution")


@router.get("/knowledge/{record_id:id}", responses={200: {"model": KnowledgeRecord}})
@in_turn
def get_knowledge(request: Request, tenant: Reader, record_id: Id, subject: Subject = None) -> Response:
    """Returns a memory, policy, entity, relation or conflict in any status; superseded_by names its successor."""
    return _found(request, tenant, view_of(request, tenant, subject).knowledge(record_id), "knowledge record")


@router.get("/artifacts", responses={200: {"model": ArtifactList}})
@in_turn
def list_artifacts(
    request: Request,
    tenant: Reader,
    artifact_type: Annotated[str | None, Query(alias="type")] = None,
    status: Status = Status.ACTIVE,
    text: Annotated[str, Query(max_length=500, description="Words that all stand in title or summary")] = "",
    limit: Annotated[int, Query(ge=1, le=PAGE)] = 20,
    cursor: str | None = None,
) -> Response:
    """Lists artifacts of one status, active by default (HMX-A §5), in pages; one with words may be short."""
    view, words = view_of(request, tenant), text.casefold().split()
    for _ in range(EXAMINED):
        page = store_of(request).list_artifacts(tenant, artifact_type, status, limit, cursor)
        seen = [one for one in filter(view.sees_artifact, page.artifacts) if _has(one, words)]
        cursor = page.cursor
        if seen or not words or cursor is None:
            break
    seen = view.told(seen)
    # A bound key learns no counts of others.
    total = page.total if bound_to(request) is None and not words else len(seen)
    answer: dict[str, Any] = {"artifacts": seen, "total": total}
    whole = request.scope[COMPLETE] if page.artifacts else anew(request, tenant).complete
    if whole is not None:
        answer["memory_complete"] = whole
    return _json(answer if page.cursor is None else {**answer, "cursor": page.cursor})


def _has(artifact: Mapping[str, Any], words: Sequence[str]) -> bool:
    said = f"{artifact['title']} {artifact['summary']}".casefold()
    return all(word in said for word in words)


@router.get("/artifacts/{artifact_id:id}", responses={200: {"model": Artifact}})
@in_turn
def get_artifact(request: Request, tenant: Reader, artifact_id: Id, subject: Subject = None) -> Response:
    """Returns an artifact in any status; supersedes and superseded_by link its versions (HMX-A §7)."""
    return _found(request, tenant, view_of(request, tenant, subject).artifact(artifact_id), "artifact")


def store_of(request: Request) -> Store:
    store = request.app.state.store
    assert isinstance(store, Store)
    return store


def view_of(request: Request, tenant: str, subject: str | None = None) -> SubjectView:
    """Returns single records of the tenant as the request's key sees them, or the subject that it names. Raises
    ProblemError if that is not the key's own."""
    bound = bound_to(request)
    subject_for(bound, subject or None)
    return SubjectView(store_of(request), tenant, subject if bound is None else bound)


def _json(value: Any) -> Response:
    return Response(orjson.dumps(value), media_type=JSON)


def _found(request: Request, tenant: str, value: dict[str, Any] | None, what: str) -> Response:
    if value is None:
        raise missing(request, tenant, what)
    return _json(value)


def missing(request: Request, tenant: str, what: str, else_: str = "") -> ProblemError:
    whole = anew(request, tenant)
    but = "" if whole.complete else f". {whole}"
    return ProblemError(ProblemKind.NOT_FOUND, f"the tenant has no {what} with this id{else_}{but}")


async def erased_of(request: Request) -> Erasures:
    """Raises ProblemError if Kafka does not answer: nothing is served that might be erased."""
    known: TtlCache[Erasures] = request.app.state.erased
    try:
        return await known.get()
    except FAILURES as error:
        raise unavailable(ProblemKind.KAFKA_UNAVAILABLE, f"Kafka does not answer: {type(error).__name__}") from None
