"""mem0's routes (`/v1/memories/`, `/v3/memories/…`), so that its clients reach this memory: add, search, list, delete.

Enters: messages, a question, filters or an id, in mem0's form. Leaves: answers in mem0's form, and events, rulings and
erasures in the log. Messages become events, so what is added is found once it is learnt. A memory is a knowledge record
or an artifact: to delete it is to retract or archive it, and to delete all of a user is to erase the user. `user_id` is
the subject; a key that is bound to a subject needs none, and opens no other. `app_id` stands for `agent_id` where no
agent is named. They are mounted only where HMX_MEM0 is set.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import ValidationError

from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.event import Id
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.contracts.options import ENTRY_MARK
from hmx_pipeline.contracts.pack import Entry
from hmx_pipeline.contracts.ruling import RulingVerb
from hmx_pipeline.packs.render import artifact as rendered
from hmx_pipeline.queries.context_pack import make_pack
from hmx_pipeline.queries.erasure_query import erase
from hmx_pipeline.queries.knowledge_query import KnowledgeFilter, RulingRequest, list_knowledge
from hmx_pipeline.retrieval.pack_request import Lineage, PackRequest
from hmx_pipeline.service import path_ids  # noqa: F401  routes below say `:id`
from hmx_pipeline.service.access import Reader, Writer, bound_to, grant_of, subject_for
from hmx_pipeline.service.body import JSON, described, media_type, parsed, read_body
from hmx_pipeline.service.erasure_routes import ErasureRequest, receipt
from hmx_pipeline.service.fair_turns import FairTurns, in_turn
from hmx_pipeline.service.hippocortex.capture import Captures
from hmx_pipeline.service.knowledge_routes import archived, ruled
from hmx_pipeline.service.memory import PAGE, missing, store_of, view_of
from hmx_pipeline.service.problems import ProblemError, ProblemKind, invalid

BODY_BYTES: Final = MB
MESSAGES: Final = 1_000
TOKENS: Final = 4_000
FOUND: Final = 10
PAGES: Final = 100
_ROLES: Final = ("user", "assistant", "system")

Json = dict[str, Any]
router: Final = APIRouter()


def _asked(*required: str) -> Json:
    return described({"type": "object", "required": list(required)})


@router.get("/v1/ping/")
def mem0_ping(tenant: Reader) -> Response:
    """Says whose memory the key opens, as mem0's clients ask first."""
    return _json({"status": "ok", "org_id": tenant, "project_id": tenant, "user_email": None})


@router.post("/v3/memories/add/", openapi_extra=_asked("messages"))
@router.post("/v1/memories/", name="mem0_add_v1", openapi_extra=_asked("messages"))
async def mem0_add(request: Request, tenant: Writer) -> Response:
    """Adds messages, in mem0's form: they are in memory once they are learnt. If one is refused, none is taken."""
    asked = await _body(request, tenant)
    said, whose = asked.get("messages"), _entities(asked)
    told = [{"role": "user", "content": said}] if isinstance(said, str) else [said] if isinstance(said, dict) else said
    if not isinstance(told, list) or not 0 < len(told) <= MESSAGES or not all(isinstance(one, dict) for one in told):
        raise ProblemError(ProblemKind.INVALID_REQUEST, f"send 1 to {MESSAGES} messages", path="$.messages")
    user = subject_for(bound_to(request), whose.get("user_id"))
    agent = whose.get("agent_id") or "mem0"
    named = f"user-{user}" if user else f"agent-{agent}"
    session = whose.get("run_id") or f"mem0-{named}-{datetime.now(UTC):%Y-%m-%d}"
    given = asked.get("metadata")
    metadata = {**(given if isinstance(given, dict) else {}), "agentId": agent}
    captures: Captures = request.app.state.captures
    texts = [_text(one.get("content")) for one in told]
    sent = [
        orjson.dumps({
            "type": "message", "sessionId": session, "metadata": metadata, **({"userId": user} if user else {}),
            "payload": {"role": one["role"] if one.get("role") in _ROLES else "user", "text": text},
        })
        for one, text in zip(told, texts, strict=True)
    ]  # fmt: skip
    taken = await captures.take(tenant, grant_of(request), sent, whole=True)
    if refused := next((one.refused for one in taken if one.refused is not None), None):
        raise ProblemError(ProblemKind.EVENT_REJECTED, refused.detail, reason=refused.reason)
    results = [{"id": one.event_id, "memory": text, "event": "ADD"} for one, text in zip(taken, texts, strict=True)]
    return _json({"status": "PENDING", "event_id": taken[0].event_id, "results": results})


@router.post("/v3/memories/search/", openapi_extra=_asked("query"))
@router.post("/v1/memories/search/", name="mem0_search_v1", openapi_extra=_asked("query"))
async def mem0_search(request: Request, tenant: Reader) -> Response:
    """Finds what answers a question, best first, in mem0's form."""
    asked = await _body(request, tenant)
    whose = _entities(asked)
    user = subject_for(bound_to(request), whose.get("user_id"))
    most = asked.get("top_k") or asked.get("limit") or FOUND
    if type(most) is not int or most < 1:
        raise ProblemError(ProblemKind.INVALID_REQUEST, "top_k is a number from 1", path="$.top_k")
    try:
        origin = Lineage(session_id=whose.get("run_id"), agent_id=whose.get("agent_id"))
        wanted = PackRequest(
            query=asked.get("query", ""), tenant_id=tenant, token_budget=TOKENS, subject_id=user,
            lineage=origin if origin != Lineage() else None,
        )  # fmt: skip
    except ValidationError as error:
        raise invalid(error) from None
    turns: FairTurns = request.app.state.packs
    pack = await turns.run(tenant, make_pack, store_of(request), wanted)
    ranked = sorted(pack.entries, key=lambda entry: entry.rank)
    return _json({"results": [_found(entry, user) for entry in ranked[:most]]})


@router.post("/v3/memories/", openapi_extra=_asked())
async def mem0_list(
    request: Request, tenant: Reader,
    page: Annotated[int, Query(ge=1, le=PAGES)] = 1, page_size: Annotated[int, Query(ge=1, le=PAGE)] = PAGE,
) -> Response:  # fmt: skip
    """Lists what memory knows of a user, in mem0's form."""
    asked = await _body(request, tenant)
    return await _listed(request, tenant, _entities(asked), page, page_size)


@router.get("/v1/memories/")
async def mem0_list_v1(
    request: Request, tenant: Reader,
    user_id: Id | None = None, agent_id: Id | None = None, app_id: Id | None = None, run_id: Id | None = None,
    page: Annotated[int, Query(ge=1, le=PAGES)] = 1, page_size: Annotated[int, Query(ge=1, le=PAGE)] = PAGE,
) -> Response:  # fmt: skip
    """Lists what memory knows of a user, in mem0's form."""
    whose = {"user_id": user_id, "agent_id": agent_id or app_id, "run_id": run_id}
    return await _listed(request, tenant, {name: one for name, one in whose.items() if one}, page, page_size)


@router.get("/v1/memories/{memory_id:id}/")
@in_turn
def mem0_get(request: Request, tenant: Reader, memory_id: Id) -> Response:
    """Returns a memory by its id, in mem0's form."""
    view = view_of(request, tenant)
    if record := view.knowledge(memory_id):
        return _json(_told(record))
    if found := view.artifact(memory_id):
        text = rendered(Artifact.model_validate(found))
        return _json({"id": memory_id, "memory": text, "categories": [found["artifact_type"]]})
    raise missing(request, tenant, "memory")


@router.delete("/v1/memories/{memory_id:id}/")
async def mem0_delete(request: Request, tenant: Writer, memory_id: Id) -> Response:
    """Retracts a record, or archives an artifact: needs a key of scope admin; a user's own record, of the user."""

    def deleted() -> None:
        if view_of(request, tenant).artifact(memory_id) is not None:
            archived(request, tenant, memory_id, "")
        else:
            ruled(request, tenant, memory_id, RulingVerb.RETRACT, RulingRequest())

    turns: FairTurns = request.app.state.reading
    await turns.run(tenant, deleted)
    return _json({"message": "Memory deleted successfully!"})


@router.delete("/v1/memories/")
async def mem0_delete_all(request: Request, tenant: Writer, user_id: Id | None = None) -> Response:
    """Erases a user: needs a key of scope admin, or of this user."""
    user = subject_for(bound_to(request), user_id)
    if user is None:
        raise ProblemError(ProblemKind.INVALID_REQUEST, "name the user: ?user_id=", path="$.user_id")
    answer = await receipt(request, tenant, ErasureRequest(subject=user), erase)
    return _json({"message": "Memories deleted successfully!", "receipt": orjson.loads(answer.body)})


async def _listed(request: Request, tenant: str, whose: dict[str, str], page: int, size: int) -> Response:
    user = subject_for(bound_to(request), whose.get("user_id"))
    wanted = KnowledgeFilter(subject=user, session=whose.get("run_id"), agent=whose.get("agent_id"), sees=user or "")

    def told() -> tuple[list[Json], str | None]:
        records, cursor = list_knowledge(store_of(request), tenant, wanted, size)
        for _ in range(page - 1):
            if cursor is None:
                return [], None
            records, cursor = list_knowledge(store_of(request), tenant, wanted, size, cursor)
        return view_of(request, tenant).told(records), cursor

    turns: FairTurns = request.app.state.reading
    records, more = await turns.run(tenant, told)
    url = request.url.include_query_params(page=page + 1)
    following = f"{url.path}?{url.query}" if more is not None and page < PAGES else None
    results = [_told(record) for record in records]
    return _json({"count": len(results), "next": following, "previous": None, "results": results})


async def _body(request: Request, tenant: str) -> Json:
    media_type(request, (JSON,))
    body = await read_body(request, BODY_BYTES)
    try:
        asked = await parsed(request, tenant, body, lambda: orjson.loads(body))
    except orjson.JSONDecodeError:
        asked = None
    if not isinstance(asked, dict):
        raise ProblemError(ProblemKind.INVALID_REQUEST, "the body must be a JSON object", path="$")
    return asked


def _entities(asked: Json) -> dict[str, str]:
    """Returns whose memory is meant, said beside the question or in its filters. Raises ProblemError for a filter that
    is not known, since without it more would be found than was asked for."""
    filters = asked.get("filters") or {}
    if isinstance(filters, dict) and filters.keys() <= {"AND"}:
        filters = filters.get("AND") or {}
    parts = filters if isinstance(filters, list) else [filters]
    found = {name: asked[name] for name in ("user_id", "agent_id", "app_id", "run_id") if asked.get(name) is not None}
    for part in parts:
        if not isinstance(part, dict) or not part.keys() <= {"user_id", "agent_id", "app_id", "run_id"}:
            detail = "filter by user_id, agent_id, app_id or run_id alone"
            raise ProblemError(ProblemKind.INVALID_REQUEST, detail, path="$.filters")
        if any(found.get(name, one) != one for name, one in part.items()):
            raise ProblemError(ProblemKind.INVALID_REQUEST, "filter by one of each", path="$.filters")
        found |= part
    if not all(isinstance(one, str) and one for one in found.values()):
        raise ProblemError(ProblemKind.INVALID_REQUEST, "user_id and its like are texts", path="$.filters")
    app = found.pop("app_id", "")
    return {"agent_id": app, **found} if app else found


def _text(content: Any) -> str:
    parts = content if isinstance(content, list) else [content]
    said = (part.get("text") if isinstance(part, dict) else part for part in parts)
    return "\n".join(one for one in said if isinstance(one, str))


def _found(entry: Entry, user: str | None) -> Json:
    return {
        "id": entry.source_id,
        "memory": entry.content.removeprefix(ENTRY_MARK).lstrip(),
        "user_id": user,
        "score": entry.relevance_score,
        "categories": [entry.section],
        "metadata": {"source_type": entry.source_type, "confidence": entry.provenance.confidence},
    }


def _told(record: Json) -> Json:
    names = {"user_id": "subject_id", "agent_id": "agent_id", "run_id": "session_id", "created_at": "created_at"}
    about = {theirs: record.get(ours) for theirs, ours in names.items()}
    return {"id": record["record_id"], "memory": record["text"], **about, "categories": [record["kind"]]}


def _json(value: Any) -> Response:
    return Response(orjson.dumps(value), media_type=JSON)
