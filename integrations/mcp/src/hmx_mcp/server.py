"""The MCP server: over stdio until the host closes the connection, or over HTTP for one request."""

import gc
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)

from hmx_mcp.resources import PROMPTS, RECORD, RULES, prompted, read
from hmx_mcp.service import Service, ServiceError
from hmx_mcp.tools import INSTRUCTIONS, TOOLS, ToolSpec, call
from hmx_mcp.watching import Watching

VERSION = "0.2.0"
MIME = "text/plain"


def server(
    service: Service, limiter: anyio.CapacityLimiter | None = None, watching: Watching | None = None
) -> "Server[dict[str, object]]":
    """`limiter` bounds how many tools run at a time. Without `watching` nothing can be subscribed."""

    ours = _Handlers(service, limiter)
    return Server(
        "hmx",
        version=VERSION,
        title="HMX memory",
        instructions=INSTRUCTIONS,
        on_list_tools=ours.list_tools,
        on_call_tool=ours.call_tool,
        on_list_resources=ours.list_resources,
        on_list_resource_templates=ours.list_templates,
        on_read_resource=ours.read_resource,
        on_list_prompts=ours.list_prompts,
        on_get_prompt=ours.get_prompt,
        on_subscribe_resource=watching.subscribe if watching else None,
        on_unsubscribe_resource=watching.unsubscribe if watching else None,
        on_subscriptions_listen=watching.listen if watching else None,
    )


class _Handlers(NamedTuple):
    service: Service
    limiter: anyio.CapacityLimiter | None

    async def list_tools(self, _ctx: object, _params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[_tool(name, spec) for name, spec in TOOLS.items()])

    async def call_tool(self, _ctx: object, params: CallToolRequestParams) -> CallToolResult:
        spec = TOOLS.get(params.name)
        if spec is None:
            return _failed(f"there is no tool {params.name!r}; memory_pack is the front door")
        try:
            answer = await anyio.to_thread.run_sync(
                call, self.service, spec, params.arguments or {}, limiter=self.limiter
            )
        except (ServiceError, ValueError) as error:
            return _failed(str(error))
        return CallToolResult(content=[TextContent(text=answer.text)], structured_content=answer.data)

    async def list_resources(self, _ctx: object, _params: PaginatedRequestParams | None) -> ListResourcesResult:
        about = "The rules that hold for every task, marked as memory."
        rules = Resource(name="rules", title="Standing rules", uri=RULES, description=about, mime_type=MIME)
        return ListResourcesResult(resources=[rules])

    async def list_templates(self, _ctx: object, _params: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        about = "One record in full, by the `url` that search or fetch has given."
        record = ResourceTemplate(name="record", title="Record", uri_template=RECORD, description=about, mime_type=MIME)
        return ListResourceTemplatesResult(resource_templates=[record])

    async def read_resource(self, _ctx: object, params: ReadResourceRequestParams) -> ReadResourceResult:
        text = await self._asked(read, self.service, params.uri)
        return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, mime_type=MIME, text=text)])

    async def list_prompts(self, _ctx: object, _params: PaginatedRequestParams | None) -> ListPromptsResult:
        return ListPromptsResult(prompts=[
            Prompt(
                name=name, title=spec.title, description=spec.description,
                arguments=[PromptArgument(name=spec.argument, description=spec.about, required=True)],
            )
            for name, spec in PROMPTS.items()
        ])  # fmt: skip

    async def get_prompt(self, _ctx: object, params: GetPromptRequestParams) -> GetPromptResult:
        spec = PROMPTS.get(params.name)
        given = (params.arguments or {}).get(spec.argument) if spec else None
        if spec is None or not given:
            raise MCPError(INVALID_PARAMS, f"a prompt is one of {', '.join(PROMPTS)}, with its argument")
        text = await self._asked(prompted, self.service, spec, given)
        said = PromptMessage(role="user", content=TextContent(text=text))
        return GetPromptResult(description=spec.description, messages=[said])

    async def _asked(self, what: Callable[..., str], *given: object) -> str:
        try:
            return await anyio.to_thread.run_sync(what, *given, limiter=self.limiter)
        except ServiceError as error:
            raise MCPError(INVALID_PARAMS if 400 <= error.status < 500 else INTERNAL_ERROR, str(error)) from None


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
    service = Service.of()
    watching = Watching(service)
    made = server(service, watching=watching)
    async with stdio_server() as (reading, writing), anyio.create_task_group() as tasks:
        gc.enable()  # __main__ has switched it off
        tasks.start_soon(watching.run)
        await made.run(reading, writing, made.create_initialization_options())
        tasks.cancel_scope.cancel()


async def answer(service: Service, limiter: anyio.CapacityLimiter, request: Any, receive: Any, send: Any) -> None:
    """Answer one POST of Streamable HTTP: an ASGI application without sessions, so any process may answer."""
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # stdio starts without it

    logging.getLogger(StreamableHTTPSessionManager.__module__).setLevel(logging.WARNING)
    manager = StreamableHTTPSessionManager(server(service, limiter), json_response=True, stateless=True)
    async with manager.run():
        await manager.handle_request(request, receive, send)


def run() -> None:
    anyio.run(_serve)
