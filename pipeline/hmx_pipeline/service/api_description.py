"""API description: the service's OpenAPI document, with stable operation ids and an example of each body.

Enters: the application's routes. Leaves: the document at `/openapi.json`, with ids that generated clients call.
"""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI
from fastapi.routing import APIRoute

HIPPOCORTEX: Final = "Hippocortex"
_EVENT: Final = {
    "hmx_version": "HMX-1.0",
    "event_id": "my-agent-1",
    "event_type": "message",
    "agent_id": "my-agent",
    "tenant_id": "acme",
    "session_id": "my-session",
    "timestamp": "2026-03-14T03:05:00Z",
    "sequence": 0,
    "content": {"role": "user", "text": "The registry moved to registry.internal:5000"},
    "metadata": {},
}
_CAPTURED: Final = {
    "type": "message",
    "sessionId": "my-session",
    "payload": {"role": "user", "content": "Deploy payments to staging"},
}
EXAMPLES: Final[Mapping[str, object]] = {
    "post_events": _EVENT,
    "confirm": {},
    "correct": {"value": "registry.internal:5000"},
    "retract": {},
    "archive_artifact": {"reason": "the namespace is not used any more"},
    "post_erasure": {"session": "my-session"},
    "post_context_pack": {"query": "Where is the registry?", "token_budget": 600},
    "post_fingerprint": {"tier": "compact"},
    "hippocortex_capture": _CAPTURED,
    "hippocortex_capture_batch": {"events": [_CAPTURED]},
    "hippocortex_learn": {"scope": "incremental"},
    "hippocortex_synthesize": {"query": "deploy payments", "options": {"maxTokens": 4000}},
    "hippocortex_export_fingerprint": {"tier": "compact"},
    "post_mcp": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
    "post_claude_code_hook": {
        "hook_event_name": "UserPromptSubmit",
        "session_id": "my-session",
        "prompt": "Deploy payments",
    },
    "post_traces": {
        "resourceSpans": [
            {
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "traceId": "5b8efff798038103d269b633813fc60c",
                                "spanId": "eee19b7ec3c1b174",
                                "name": "execute_tool get_order",
                                "startTimeUnixNano": "1794776400000000000",
                                "endTimeUnixNano": "1794776400100000000",
                                "attributes": [{"key": "gen_ai.tool.name", "value": {"stringValue": "get_order"}}],
                            }
                        ]
                    }
                ]
            }
        ]
    },
    "post_logs": {"resourceLogs": []},
    "post_chat_completion": {"model": "gpt-5", "messages": [{"role": "user", "content": "Deploy payments"}]},
    "mem0_add": {"messages": "I am vegetarian", "user_id": "ann"},
    "mem0_add_v1": {"messages": "I am vegetarian", "user_id": "ann"},
    "mem0_search": {"query": "What may I cook?", "filters": {"user_id": "ann"}},
    "mem0_search_v1": {"query": "What may I cook?", "user_id": "ann"},
    "mem0_list": {"filters": {"user_id": "ann"}},
}
"""Operation → body in JSON."""


def operation_id(route: APIRoute) -> str:
    """Names what a generated client calls: the function's name, which stays when a path changes."""
    return f"hippocortex_{route.name}" if HIPPOCORTEX in route.tags else route.name


class DescribedApp(FastAPI):
    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            for methods in super().openapi()["paths"].values():
                for said in methods.values():
                    if said["operationId"] in EXAMPLES:
                        said["requestBody"]["content"]["application/json"]["example"] = EXAMPLES[said["operationId"]]
        return super().openapi()
