"""Resources and prompts: the same memory for hosts that attach it themselves, marked as the tools mark it.

`hmx://rules` holds the standing rules, `hmx:{id}` is one record; the tools' `url` is of this form.
"""

from typing import Final, NamedTuple
from urllib.parse import unquote

from hmx_mcp.service import Service, ServiceError
from hmx_mcp.tools import fetch, pack

RULES: Final = "hmx://rules"
RECORD: Final = "hmx:{id}"


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


def read(service: Service, uri: str) -> str:
    """Raises ServiceError; its status is 404 if there is no such resource."""
    if uri == RULES:
        return pack(service, {"query": "rules", "sections": ["core"], "token_budget": 4_000}).text
    scheme, _, name = uri.partition(":")
    if scheme != "hmx" or not name or name.startswith("/"):
        raise ServiceError("there is no such resource", 404)
    return fetch(service, {"id": unquote(name)}).text


def prompted(service: Service, spec: PromptSpec, given: str) -> str:
    """Raises ServiceError."""
    return f"{spec.words} {given}\n\n{pack(service, {'query': given, 'token_budget': 1_200}).text}"
