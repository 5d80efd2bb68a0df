"""The MCP server over HTTP, for one request: the official SDK, with the answers that stdio gives too."""

import logging
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

from hmx_mcp import answers
from hmx_mcp.service import Service
from hmx_mcp.tools import INSTRUCTIONS

_PARAMS: Any = {
    **dict.fromkeys(answers.OFFERED, types.PaginatedRequestParams),
    "tools/call": types.CallToolRequestParams,
    "resources/read": types.ReadResourceRequestParams,
    "prompts/get": types.GetPromptRequestParams,
}
logging.getLogger(StreamableHTTPSessionManager.__module__).setLevel(logging.WARNING)


async def answer(service: Service, limiter: anyio.CapacityLimiter, request: Any, receive: Any, send: Any) -> None:
    """Answer one POST of Streamable HTTP: an ASGI application without sessions, so any process may answer.

    `limiter` bounds how many tools run at a time. Nothing can be subscribed.
    """

    async def answered(method: str, _ctx: object, params: Any) -> dict[str, Any]:
        given = params.model_dump(mode="json", by_alias=True, exclude_none=True)
        try:
            said = await anyio.to_thread.run_sync(answers.answer, service, method, given, limiter=limiter)
        except answers.RefusedError as error:
            raise MCPError(error.code, str(error)) from None
        return {**said, **answers.envelope(method)}

    made: Server[dict[str, object]] = Server(
        answers.NAME, version=answers.VERSION, title=answers.TITLE, instructions=INSTRUCTIONS
    )
    for method, form in _PARAMS.items():
        made.add_request_handler(method, form, partial(answered, method))
    manager = StreamableHTTPSessionManager(made, json_response=True, stateless=True)
    async with manager.run():
        await manager.handle_request(request, receive, send)
