"""`POST /v1/synthesize` and `/v1/artifacts`: packs and artifacts in the clients' format.

Enters: a question with options, or a filter. Leaves: entries under the clients' six sections, or pages. The content is
the same as under `/v1/hmx`.
"""

import base64
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal

import orjson
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import Field

from hmx_pipeline.compiler.registry import ARTIFACT_TYPES
from hmx_pipeline.contracts.base import Items
from hmx_pipeline.contracts.event import Id, Unit
from hmx_pipeline.contracts.options import Filling, Section, SourceType, Status
from hmx_pipeline.contracts.pack import ContextPack, Entry
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.queries.context_pack import make_pack
from hmx_pipeline.retrieval.pack_request import QUERY_CHARACTERS, PackRequest
from hmx_pipeline.service import path_ids  # noqa: F401  routes below say `:id`
from hmx_pipeline.service.access import Reader, bound_to, subject_for
from hmx_pipeline.service.body import described, read_body
from hmx_pipeline.service.completeness_header import anew
from hmx_pipeline.service.fair_turns import FairTurns, in_turn
from hmx_pipeline.service.hippocortex.answer_envelope import success
from hmx_pipeline.service.hippocortex.client_json import REQUEST_BYTES, ClientModel, parsed, schema_of
from hmx_pipeline.service.hippocortex.usage import Usage
from hmx_pipeline.service.memory import store_of, view_of
from hmx_pipeline.service.problems import ProblemError, ProblemKind
from hmx_pipeline.store.atomic_blocks import TamperedError
from hmx_pipeline.store.fetch import Ambiguous, Store

PAGE: Final = 100
Asked = Literal["procedures", "failures", "decisions", "facts", "causal", "context"]
_BY_SOURCE: Final[Mapping[SourceType, Asked]] = {SourceType.POLICY: "decisions"}
"""The clients' section of an entry: by artifact type, else by source type, else by section (X23)."""

_SAME: Final = ("title", "summary", "confidence", "status", "tags", "metadata")
COMPILED_ARTIFACT: Final[Mapping[str, str]] = {
    "artifact_id": "id",
    "artifact_type": "type",
    "source_events": "evidenceRefs",
    "source_memory_ids": "sourceMemoryIds",
    "superseded_by": "supersededBy",
    **{name: name for name in _SAME},
}
CONTEXT_PACK: Final[Mapping[str, str]] = {
    "pack_id": "id",
    "query_context": "queryContext",
    "token_budget": "tokenBudget",
    "created_at": "createdAt",
    "metadata": "metadata",
}
"""Field → name in the clients' types CompiledArtifact and ContextPack (HMX-A §11, HMX-C §9); others are left out."""

router: Final = APIRouter()


class SynthesisOptions(ClientModel):
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)] = 4000
    min_confidence: Unit = 0.3
    include_provenance: bool = True
    sections: Items[Asked] | None = None
    fill: Annotated[Filling, Field(strict=False)] = Filling.RELEVANT


class Synthesis(ClientModel):
    query: Annotated[str, Field(min_length=1, max_length=QUERY_CHARACTERS)]
    options: SynthesisOptions = SynthesisOptions()
    user_id: Id | None = None
    """The person to answer; without one, only what the whole tenant shares is found."""


@router.post("/synthesize", openapi_extra=described(schema_of(Synthesis)))
async def synthesize(request: Request, tenant: Reader) -> Response:
    """Answers a question from memory within a token budget."""
    asked = parsed(Synthesis, await read_body(request, REQUEST_BYTES))
    turns: FairTurns = request.app.state.packs
    subject = subject_for(bound_to(request), asked.user_id)
    answer = await turns.run(tenant, _answer, store_of(request), tenant, asked, subject)
    usage: Usage = request.app.state.usage
    usage.count(tenant, "syntheses")
    usage.count(tenant, "tokens", answer["budget"]["used"])
    usage.count(tenant, "ratio", answer["budget"]["compressionRatio"])
    METRICS.pack_tokens.observe(answer["budget"]["used"])
    return success(request, answer)


def _answer(store: Store, tenant: str, asked: Synthesis, subject: str | None) -> dict[str, Any]:
    options = asked.options
    request = PackRequest(
        query=asked.query,
        tenant_id=tenant,
        token_budget=options.max_tokens,
        min_confidence=options.min_confidence,
        sections=_sections(options.sections),
        fill=options.fill,
        subject_id=subject,
    )
    pack = make_pack(store, request)
    kept: list[Entry] = []
    entries: list[dict[str, Any]] = []
    for entry in pack.entries:
        kind = _artifact_type(store, tenant, entry)
        name = _clients_name(entry, kind)
        wanted = options.sections is None or name in options.sections
        if wanted and entry.provenance.confidence >= options.min_confidence:
            kept.append(entry)
            entries.append(_entry(entry, name, kind, options.include_provenance))
    typed = in_clients_types(pack.model_dump(mode="json", exclude={"entries"}, exclude_none=True), CONTEXT_PACK)
    return {**typed, "packId": pack.pack_id, "entries": entries, "budget": _budget(pack, kept)}


def in_clients_types(fields: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {theirs: fields[ours] for ours, theirs in names.items() if fields.get(ours) is not None}


def _sections(asked: list[Asked] | None) -> list[Section] | None:
    """Returns every section that may hold the requested ones; the rest is filtered later."""
    if asked is None:
        return None
    found = {section for section in Section if section.clients_name in asked}
    found |= {kind.section for kind in ARTIFACT_TYPES.values() if kind.clients_name in asked}
    kinds = {kind for kind, name in _BY_SOURCE.items() if name in asked}
    found |= {section for section in Section if kinds & section.permitted}
    return sorted(found)


def _artifact_type(store: Store, tenant: str, entry: Entry) -> str | None:
    if entry.source_type is not SourceType.ARTIFACT:
        return None
    try:
        found = store.get_artifact(tenant, entry.source_id)
    except TamperedError:  # damaged since the pack was made
        return None
    return None if found is None else str(found["artifact_type"])


def _clients_name(entry: Entry, artifact_type: str | None) -> str:
    kind = ARTIFACT_TYPES.get(artifact_type or "")
    if kind is not None:
        return kind.clients_name
    return _BY_SOURCE.get(entry.source_type, entry.section.clients_name)


def _entry(entry: Entry, name: str, kind: str | None, with_provenance: bool) -> dict[str, Any]:
    said: dict[str, Any] = {"section": name, "content": entry.content, "confidence": entry.provenance.confidence}
    if with_provenance:
        source: dict[str, Any] = {
            "sourceType": entry.source_type,
            "sourceId": entry.source_id,
            "evidenceCount": entry.provenance.evidence_count,
        }
        said["provenance"] = [source if kind is None else {**source, "artifactType": kind}]
    return said


def _budget(pack: ContextPack, kept: list[Entry]) -> dict[str, Any]:
    """Computes the budget. `compressionRatio`: tokens of the entries / tokens of all candidates."""
    used = sum(entry.token_estimate for entry in kept)
    offered = used + sum(dropped.token_estimate for dropped in pack.dropped_entries or ())
    return {
        "limit": pack.token_budget.total_budget,
        "used": used,
        "compressionRatio": round(used / offered, 4) if offered else 1.0,
        "entriesIncluded": len(kept),
        "entriesDropped": pack.token_budget.dropped_count,
    }


@router.get("/artifacts")
@in_turn
def list_artifacts(
    request: Request,
    tenant: Reader,
    artifact_type: Annotated[str | None, Query(alias="type")] = None,
    status: Status = Status.ACTIVE,
    sort: Literal["createdAt", "updatedAt", "confidence", "evidenceCount"] = "createdAt",
    order: Literal["asc", "desc"] = "desc",
    limit: Annotated[int, Query(ge=1, le=PAGE)] = 20,
    cursor: str | None = None,
) -> Response:
    """Lists artifacts of one status, sorted and paged."""
    seen = filter(
        view_of(request, tenant).sees_artifact, store_of(request).all_artifacts(tenant, artifact_type, status)
    )
    held = [told(artifact) for artifact in seen]
    if not held:
        anew(request, tenant)
    held.sort(key=lambda one: (one[sort], one["id"]), reverse=order == "desc")
    rest = held
    if cursor is not None:
        after = _opened(cursor, sort)
        rest = [one for one in held if ((one[sort], one["id"]) > after) is (order == "asc") and one["id"] != after[1]]
    page, more = rest[:limit], len(rest) > limit
    pagination: dict[str, Any] = {"hasMore": more, "total": len(held)}
    if more:
        pagination["cursor"] = _closed(page[-1][sort], page[-1]["id"])
    return success(request, {"artifacts": page, "pagination": pagination})


def told(artifact: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an artifact in the clients' format."""
    values = (artifact[name] for name in ("artifact_id", "artifact_type", "status", "title", "content", "confidence"))
    count = artifact.get("observed_count", len(artifact["source_events"]))
    return _in_clients_form(values, count, artifact["created_at"], artifact.get("updated_at"))


def _in_clients_form(values: Iterable[Any], count: int, created: str, updated: str | None = None) -> dict[str, Any]:
    named = zip(("id", "type", "status", "title", "content", "confidence"), values, strict=True)
    return {**dict(named), "evidenceCount": count, "createdAt": created, "updatedAt": updated or created}


def _closed(value: Any, name: str) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([value, name])).decode().rstrip("=")


def _opened(cursor: str, sort: str) -> tuple[Any, str]:
    """Decodes a cursor. Raises ProblemError if it is invalid or of another order."""
    try:
        value, name = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, TypeError):
        value, name = None, None
    expected: tuple[type, ...] = (str,) if sort.endswith("At") else (int, float)
    if not isinstance(name, str) or not isinstance(value, expected):
        raise ProblemError(ProblemKind.INVALID_REQUEST, "not a cursor of this list: start without one", path="$.cursor")
    return value, name


@router.get("/artifacts/{source_id:id}")
@in_turn
def get_artifact(request: Request, tenant: Reader, source_id: Id) -> Response:
    """Returns an artifact, or a knowledge record or an event in the same format."""
    view = view_of(request, tenant)
    artifact = view.artifact(source_id)
    if artifact is not None:
        return success(request, in_clients_types(artifact, COMPILED_ARTIFACT) | told(artifact))
    record = view.knowledge(source_id)
    if record is not None:
        return success(request, _told_record(record))
    event = view.event(source_id)
    if isinstance(event, Ambiguous):
        raise ProblemError(
            ProblemKind.AMBIGUOUS, "several sessions have an event with this id", sessions=list(event.sessions)
        )
    if event is None:
        whole = anew(request, tenant)
        but = "" if whole.complete else f". {whole}"
        raise ProblemError(ProblemKind.NOT_FOUND, f"the tenant has nothing with this id{but}")
    return success(request, _told_event(event))


def _told_record(record: Mapping[str, Any]) -> dict[str, Any]:
    values = (record[name] for name in ("record_id", "kind", "status", "text", "body", "confidence"))
    return _in_clients_form(values, len(record["source_memory_ids"]), record["created_at"])


def _told_event(event: Mapping[str, Any]) -> dict[str, Any]:
    values = (event["id"], SourceType.EPISODE, Status.ACTIVE, event["eventType"], event["payload"], 1.0)
    return _in_clients_form(values, 1, event["timestamp"])


@router.post("/vault/query/{item_id:id}/reveal")
async def vault_reveal(_: Reader, item_id: str) -> Response:  # noqa: ARG001  a part of the path
    """Not offered: secrets are removed at intake and stored nowhere."""
    return await vault(_)


@router.post("/vault/query")
async def vault(_: Reader) -> Response:
    """Not offered: secrets are removed at intake and stored nowhere."""
    raise ProblemError(ProblemKind.NOT_OFFERED, "there is no vault: secrets are removed from events and stored nowhere")
