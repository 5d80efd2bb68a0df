"""The MCP server: the tools over stdio until the host closes the connection, or over HTTP for one request."""

import gc
import logging
from typing import Any

import anyio
import anyio.to_thread
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from hmx_mcp.service import Service, ServiceError
from hmx_mcp.tools import INSTRUCTIONS, TOOLS, ToolSpec, call

VERSION = "0.2.0"


def server(service: Service, limiter: anyio.CapacityLimiter | None = None) -> "Server[dict[str, object]]":
    """`limiter` bounds how many tools run at a time."""

    async def list_tools(_ctx: object, _params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[_tool(name, spec) for name, spec in TOOLS.items()])

    async def call_tool(_ctx: object, params: CallToolRequestParams) -> CallToolResult:
        spec = TOOLS.get(params.name)
        if spec is None:
            return _failed(f"there is no tool {params.name!r}; memory_pack is the front door")
        try:
            answer = await anyio.to_thread.run_sync(call, service, spec, params.arguments or {}, limiter=limiter)
        except (ServiceError, ValueError) as error:
            return _failed(str(error))
        return CallToolResult(content=[TextContent(text=answer.text)], structured_content=answer.data)

    return Server(
        "hmx",
        version=VERSION,
        title="HMX memory",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _tool(name: str, spec: ToolSpec) -> Tool:
    return Tool(
        name=name,
        title=spec.title,
        description=spec.description,
        input_schema=spec.input_schema,
        output_schema=spec.output_schema,
        annotations=ToolAnnotations(
            title=spec.title,
            read_only_hint=not spec.writes,
            destructive_hint=False,
            idempotent_hint=not spec.writes,
            open_world_hint=False,
        ),
    )


def _failed(why: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=why)], is_error=True)


async def _serve() -> None:
    made = server(Service.of())
    async with stdio_server() as (reading, writing):
        gc.enable()  # __main__ has switched it off
        await made.run(reading, writing, made.create_initialization_options())


async def answer(service: Service, limiter: anyio.CapacityLimiter, request: Any, receive: Any, send: Any) -> None:
    """Answer one POST of Streamable HTTP: an ASGI application without sessions, so any process may answer."""
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # stdio starts without it

    logging.getLogger(StreamableHTTPSessionManager.__module__).setLevel(logging.WARNING)
    manager = StreamableHTTPSessionManager(server(service, limiter), json_response=True, stateless=True)
    async with manager.run():
        await manager.handle_request(request, receive, send)


def run() -> None:
    anyio.run(_serve)
