"""The answers to MCP's methods, as JSON: what is offered, calls of tools, resources, prompts.

Over stdio and over HTTP they are the same. `hmx://rules` holds the standing rules, `hmx:{id}` is one record; the tools'
`url` is of this form. What comes from memory is marked in resources and prompts as the tools mark it.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from hmx_mcp.service import Json, Service, ServiceError
from hmx_mcp.tools import TOOLS, ToolSpec, call, fetch, pack

NAME: Final = "hmx"
TITLE: Final = "HMX memory"
VERSION: Final = "0.2.0"
RULES: Final = "hmx://rules"
MIME: Final = "text/plain"
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603


class RefusedError(Exception):
    """A request that cannot be answered, with the code of JSON-RPC for it."""

    def __init__(self, code: int, why: str, data: Json | None = None) -> None:
        super().__init__(why)
        self.code, self.data = code, data


class PromptSpec(NamedTuple):
    title: str
    description: str
    argument: str
    about: str
    """Of the argument."""
    words: str
    """Before what the user gave."""


PROMPTS: Final = {
    "start_task": PromptSpec(
        "Start a task with memory",
        "The task, with the procedures, failures, rules and facts that matter for it.",
        "goal",
        "What is to be done",
        "Do this task:",
    ),
    "recover": PromptSpec(
        "Recover from an error",
        "The error, with what helped when it happened before.",
        "error",
        "The error message",
        "Find the cause of this error and mend it:",
    ),
}


def _tool(name: str, spec: ToolSpec) -> Json:
    hints = {"readOnlyHint": not spec.writes, "idempotentHint": not spec.writes}
    return {
        "name": name,
        "title": spec.title,
        "description": spec.description,
        "inputSchema": spec.input_schema,
        "outputSchema": spec.output_schema,
        "annotations": {"title": spec.title, **hints, "destructiveHint": False, "openWorldHint": False},
    }


def _prompt(name: str, spec: PromptSpec) -> Json:
    arguments = [{"name": spec.argument, "description": spec.about, "required": True}]
    return {"name": name, "title": spec.title, "description": spec.description, "arguments": arguments}


OFFERED: Final[dict[str, Json]] = {
    "tools/list": {"tools": [_tool(name, spec) for name, spec in TOOLS.items()]},
    "resources/list": {
        "resources": [
            {
                "name": "rules", "title": "Standing rules", "uri": RULES, "mimeType": MIME,
                "description": "The rules that hold for every task, marked as memory.",
            }
        ]
    },
    "resources/templates/list": {
        "resourceTemplates": [
            {
                "name": "record", "title": "Record", "uriTemplate": "hmx:{id}", "mimeType": MIME,
                "description": "One record in full, by the `url` that search or fetch has given.",
            }
        ]
    },
    "prompts/list": {"prompts": [_prompt(name, spec) for name, spec in PROMPTS.items()]},
}  # fmt: skip
"""What needs no memory."""


def _called(service: Service, given: Json) -> Json:
    spec = TOOLS.get(given["name"])
    try:
        if spec is None:
            raise ValueError(f"there is no tool {given['name']!r}; memory_pack is the front door")
        answer = call(service, spec, given.get("arguments") or {})
    except (ServiceError, ValueError) as error:
        return {"content": [_text(str(error))], "isError": True}
    return {"content": [_text(answer.text)], "structuredContent": answer.data, "isError": False}


def _read(service: Service, given: Json) -> Json:
    return {"contents": [{"uri": given["uri"], "mimeType": MIME, "text": read(service, given["uri"])}]}


def read(service: Service, uri: str) -> str:
    """Raises ServiceError; its status is 404 if there is no such resource."""
    if uri == RULES:
        return pack(service, {"query": "rules", "sections": ["core"], "token_budget": 4_000}).text
    scheme, _, name = uri.partition(":")
    if scheme != "hmx" or not name or name.startswith("/"):
        raise ServiceError("there is no such resource", 404)
    return fetch(service, {"id": unquote(name)}).text


def _prompted(service: Service, given: Json) -> Json:
    spec = PROMPTS.get(given["name"])
    about = (given.get("arguments") or {}).get(spec.argument) if spec else None
    if spec is None or not about or not isinstance(about, str):
        raise RefusedError(INVALID_PARAMS, f"a prompt is one of {', '.join(PROMPTS)}, with its argument")
    memory = pack(service, {"query": about, "token_budget": 1_200}).text
    message = {"role": "user", "content": _text(f"{spec.words} {about}\n\n{memory}")}
    return {"description": spec.description, "messages": [message]}


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


ASKED: Final[dict[str, tuple[str, Callable[[Service, Json], Json]]]] = {
    "tools/call": ("name", _called),
    "resources/read": ("uri", _read),
    "prompts/get": ("name", _prompted),
}
"""What memory is asked for: the parameter that it must have, and how it is answered."""


def envelope(method: str) -> Json:
    """Return what the protocol of 2026-07-28 wants in every result: it is whole, and may not be kept."""
    fresh = method not in ASKED or method == "resources/read"
    return {"resultType": "complete", **({"ttlMs": 0, "cacheScope": "private"} if fresh else {})}


def answer(service: Service, method: str, params: Any) -> Json:
    """Answer a method of OFFERED or ASKED. Raises RefusedError."""
    if method in OFFERED:
        return OFFERED[method]
    needed, asked = ASKED[method]
    given = params if isinstance(params, dict) else {}
    if not isinstance(given.get(needed), str) or not isinstance(given.get("arguments"), dict | None):
        raise RefusedError(INVALID_PARAMS, f"{method} needs `{needed}`, a text, and `arguments`, if any, as an object")
    try:
        return asked(service, given)
    except ServiceError as error:
        raise RefusedError(INVALID_PARAMS if 400 <= error.status < 500 else INTERNAL_ERROR, str(error)) from None
