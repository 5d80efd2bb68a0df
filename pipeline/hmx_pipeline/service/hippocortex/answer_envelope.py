"""Answer envelope of every `/v1` route except `/v1/hmx`: `{"ok", "data" | "error", "meta"}`.

Enters: data, or a problem kind and its text. The clients read `ok` and `error.code`, not the HTTP status.
"""

import time
import uuid
from collections.abc import Mapping
from typing import Any, Final

import orjson
from fastapi import Request
from fastapi.responses import Response
from starlette.types import Scope

JSON: Final = "application/json"
PREFIX: Final = "/v1/"
NATIVE: Final = "/v1/hmx"
TENANT: Final = "tenant"
STARTED: Final = "started"
LIMITS: Final = "limits"
"""Keys in a request's scope: its tenant, start time, and rate limit headers."""
_CODES: Final[Mapping[str, str]] = {
    "invalid_request": "validation_error",
    "event_rejected": "validation_error",
    "id_too_long": "validation_error",
    "unsupported_media_type": "validation_error",
    "too_large": "validation_error",
    "not_offered": "not_found",
    "ambiguous": "conflict",
    "internal": "internal_error",
    "kafka_unavailable": "service_unavailable",
    "redis_unavailable": "service_unavailable",
    "memory_incomplete": "service_unavailable",
    "provenance_failed": "service_unavailable",
    "busy": "service_unavailable",
    "stopping": "service_unavailable",
}
"""Problem kind → error code of the clients; other kinds keep their code."""

_META: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["requestId", "tenantId", "durationMs"],
    "properties": {
        "requestId": {"type": "string"},
        "tenantId": {"type": ["string", "null"]},
        "durationMs": {"type": "number"},
    },
}


def _described(ok: bool, part: str, schema: dict[str, Any]) -> dict[str, Any]:
    parts = {"ok": {"const": ok}, part: schema, "meta": _META}
    return {"content": {JSON: {"schema": {"type": "object", "required": list(parts), "properties": parts}}}}


_ERROR: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["code", "message"],
    "properties": {
        "code": {"type": "string"},
        "message": {"type": "string"},
        "details": {"type": "array", "items": {"type": "object"}},
    },
}
FAILED: Final[dict[int | str, dict[str, Any]]] = {
    "default": {"description": "An error", **_described(False, "error", _ERROR)},
}
DOCUMENTED: Final[dict[int | str, dict[str, Any]]] = {200: _described(True, "data", {"type": "object"}), **FAILED}
"""OpenAPI responses of every route."""


def speaks(scope: Scope) -> bool:
    """Returns whether the request is answered in envelopes."""
    path: str = scope.get("path", "")
    return path.startswith(PREFIX) and path != NATIVE and not path.startswith(f"{NATIVE}/")


def success(request: Request, data: Any) -> Response:
    return _sealed(request.scope, {"ok": True, "data": data}, 200, {})


def failure(
    scope: Scope, code: str, message: str, status: int, headers: Mapping[str, str] | None, members: Mapping[str, Any]
) -> Response:
    """Wraps an error; `members` become its details."""
    error: dict[str, Any] = {"code": _CODES.get(code, code), "message": message}
    if members:
        error["details"] = [dict(members)]
    return _sealed(scope, {"ok": False, "error": error}, status, headers or {})


def _sealed(scope: Scope, said: dict[str, Any], status: int, headers: Mapping[str, str]) -> Response:
    took = round((time.perf_counter() - scope.get(STARTED, time.perf_counter())) * 1000, 3)
    meta = {"requestId": str(uuid.uuid4()), "tenantId": scope.get(TENANT), "durationMs": took}
    return Response(orjson.dumps({**said, "meta": meta}), status, dict(headers), JSON)
