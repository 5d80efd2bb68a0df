"""`POST /mcp`: the tools of `hmx-mcp` over Streamable HTTP, for the tenant and subject of the request's key.

Enters: a message of MCP, as JSON-RPC. Leaves: the answer of `hmx-mcp`'s server, or 202 for a notification. Raises
ProblemError if its SDK is not installed. Each tool asks this service's own routes with the request's own key: so it may
do just what the key may do over HTTP.
"""

from datetime import UTC, datetime
from typing import Any, Final

import anyio
import anyio.from_thread
from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.service.access import HEADER, Reader, bound_to, holder_of
from hmx_pipeline.service.api_keys import NAME, digest
from hmx_pipeline.service.body import JSON, described, media_type, read_body
from hmx_pipeline.service.in_process import as_scope, sent
from hmx_pipeline.service.problems import MEDIA_TYPE, ProblemError, ProblemKind

BODY_BYTES: Final = MB
AT_ONCE: Final = 16
"""Tools that run at a time; each waits in a thread for routes that need another one."""
AT_ONCE_EACH: Final = 8
_PASSED: Final = (b"authorization", HEADER.lower().encode(), b"host", b"traceparent")
_BODY: Final = described({"type": "object", "description": "A message of MCP, as JSON-RPC"})
_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    202: {"description": "A notification was taken"},
    "4XX": {"description": "Not a message of MCP, or a problem (RFC 9457)", "content": {JSON: {}, MEDIA_TYPE: {}}},
}

router: Final = APIRouter()


@router.post("/mcp", openapi_extra=_BODY, responses=_ANSWERS)
async def post_mcp(request: Request, tenant: Reader) -> Response:
    """Serves memory over MCP (Streamable HTTP): the same tools as `hmx-mcp`, for the key's tenant."""
    media_type(request, (JSON,))
    body = await read_body(request, BODY_BYTES)
    mcp = await run_in_threadpool(_mcp)
    service = mcp.Service(_Routes(request).ask, "", _session(request, tenant))

    async def answering(scope: Any, receive: Any, send: Any) -> None:
        await mcp.answer(service, request.app.state.mcp_limiter, scope, receive, send)

    async with request.app.state.mcp.of(tenant):
        status, headers, said = await sent(answering, dict(request.scope), body)
    kept = {name.decode(): value.decode("latin-1") for name, value in headers if name != b"content-length"}
    return Response(said, status, kept)


def _mcp() -> Any:
    """Returns the MCP server. Its SDK takes a second to import and 30 MB, so only whoever asks for it has it."""
    try:
        from hmx_mcp import server
    except ModuleNotFoundError:
        detail = "the service lacks the MCP SDK: pip install 'hmx-pipeline[mcp]'"
        raise ProblemError(ProblemKind.NOT_OFFERED, detail) from None
    return server


def _session(request: Request, tenant: str) -> str:
    """Returns the session of a caller that names none: one for each key and day, whichever process answers."""
    whose = f"{tenant}\n{bound_to(request) or ''}\n{holder_of(request)}"
    return f"mcp-{digest(whose)[:NAME]}-{datetime.now(UTC):%Y-%m-%d}"


class _Routes:
    """This service, as one request may ask it."""

    def __init__(self, request: Request) -> None:
        self._app, self._scope = request.app, request.scope

    def ask(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        """Waits in the thread that a tool runs in."""
        headers = [(name, value) for name, value in self._scope["headers"] if name in _PASSED]
        about = {name: self._scope[name] for name in ("type", "asgi", "http_version", "scheme", "server", "client")}
        scope = as_scope(about, method, path, [*headers, (b"content-type", JSON.encode())])
        status, _, said = anyio.from_thread.run(sent, self._app, scope, body or b"")
        return status, said
