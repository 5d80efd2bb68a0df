"""`POST /v1/hooks/claude-code`: takes a hook's JSON, appends what it tells, and answers in the hook's form.

Enters: the JSON of one hook. Leaves: context from memory, or an empty object: within `X-HMX-Deadline-Ms`, empty rather
than late. `X-HMX-Appended` says what became of the events: `pending` means that Kafka has not acknowledged them, so the
hook should be sent again, with the same `X-HMX-Delivery`.
"""

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Header, Request
from fastapi.responses import Response
from pydantic import ValidationError

from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.doors.claude_code_hooks import HOOKS, UNMAPPED, HookCall, hook_answer, read_hook
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.queries.context_pack import make_pack
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.service.access import Writer, admitted, bound_to, grant_of
from hmx_pipeline.service.body import HELD, JSON, described, media_type, parsed, read_body
from hmx_pipeline.service.fair_turns import FairTurns
from hmx_pipeline.service.hippocortex.answer_envelope import TENANT
from hmx_pipeline.service.hippocortex.capture import Captures
from hmx_pipeline.service.memory import store_of, view_of
from hmx_pipeline.service.problems import ProblemError, ProblemKind
from hmx_pipeline.store.atomic_blocks import StoreUnavailableError, TamperedError

BODY_BYTES: Final = 16 * MB
APPENDED: Final = "X-HMX-Appended"
UNKNOWN: Final = "unknown"
"""Metrics label of hooks that have no mapping."""
LATEST_MS: Final = 30_000

router: Final = APIRouter()
_late: Final[set[asyncio.Task[Any]]] = set()
"""Appends that go on after their answer; a task that nobody holds may be collected."""

_BODY: Final = described({"type": "object", "description": "The JSON that Claude Code gives a hook"})
_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "What a hook of Claude Code answers", "content": {JSON: {"schema": {"type": "object"}}}}
}
Deadline = Annotated[int | None, Header(alias="X-HMX-Deadline-Ms", ge=1, le=LATEST_MS)]
Delivery = Annotated[str, Header(alias="X-HMX-Delivery", max_length=128)]


@router.post("/v1/hooks/claude-code", openapi_extra=_BODY, responses=_ANSWERS)
async def post_claude_code_hook(
    request: Request, tenant: Writer, deadline_ms: Deadline = None, delivery: Delivery = ""
) -> Response:
    """Takes a hook of Claude Code: appends what it tells, and answers with what memory knows, in the hook's form."""
    started = asyncio.get_running_loop().time()
    media_type(request, (JSON,))
    body = await read_body(request, BODY_BYTES)
    call = await parsed(request, tenant, body, lambda: _read(body, delivery))
    hook = call.hook if call.hook in HOOKS else UNKNOWN
    within = (deadline_ms or HOOKS.get(call.hook, UNMAPPED).deadline_ms) / 1000
    tell, ask = _task(_told(request, tenant, call)), _task(_asked(request, tenant, call))
    left = within - (asyncio.get_running_loop().time() - started)
    await asyncio.wait({tell, ask}, timeout=max(0.0, left))
    appended = tell.result() if tell.done() else "pending"
    if not tell.done():  # what it told stays in memory, and counts as held, until Kafka has it
        held = {TENANT: tenant, HELD: request.scope.pop(HELD, 0)}
        tell.add_done_callback(lambda _: request.app.state.bodies.release(held))
    answer = ask.result() if ask.done() else {}
    ask.cancel()
    METRICS.hooks.labels(hook, "late" if not ask.done() else "context" if answer else "empty").inc()
    return Response(orjson.dumps(answer), media_type=JSON, headers={APPENDED: appended})


def _task(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    task = asyncio.create_task(work)
    _late.add(task)
    task.add_done_callback(_late.discard)
    return task


def _read(body: bytes, delivery: str) -> HookCall:
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError:
        fields = None
    call = read_hook(fields, delivery) if isinstance(fields, dict) else None
    if call is None:
        detail = "send the JSON of a hook: hook_event_name, session_id"
        raise ProblemError(ProblemKind.INVALID_REQUEST, detail, path="$")
    return call


async def _told(request: Request, tenant: str, call: HookCall) -> str:
    """Appends the events. Returns what became of them."""
    captures: Captures = request.app.state.captures
    sent = [
        orjson.dumps(
            {
                "type": draft.event_type,
                "sessionId": call.session_id,
                "payload": draft.content,
                "metadata": {"agentId": call.agent_id, **call.metadata, **draft.metadata},
                **({"idempotencyKey": draft.key} if draft.key else {}),
            }
        )
        for draft in call.drafts
    ]
    if not sent:
        return "none"
    try:
        taken = await captures.take(tenant, grant_of(request), sent)
    except ProblemError:
        return "pending"
    if any(one.refused for one in taken):
        return "rejected"
    return "duplicate" if all(one.duplicate for one in taken) else "yes"


async def _asked(request: Request, tenant: str, call: HookCall) -> dict[str, Any]:
    """Returns the answer; empty if the key may not read, or memory cannot be read now."""
    asked = call.question
    if asked is None or not admitted(request, tenant):
        return {}
    turns: FairTurns = request.app.state.packs
    try:
        in_memory = await turns.run(tenant, view_of(request, tenant).session, call.session_id)
        wanted = PackRequest(
            query=asked.query,
            tenant_id=tenant,
            token_budget=asked.token_budget,
            session_id=in_memory,
            subject_id=bound_to(request),
            sections=list(asked.sections) or None,
        )
        pack = await turns.run(tenant, make_pack, store_of(request), wanted, asked.call)
    except (ProblemError, StoreUnavailableError, TamperedError, ValidationError):
        return {}
    return hook_answer(call.hook, [entry.content for entry in pack.entries])
