"""Problem details (RFC 9457): every error kind of the HTTP API, and its response.

Enters: a `ProblemError`, or an exception of the framework. Leaves: `application/problem+json`, without payloads or
traces.
"""

import logging
import traceback
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Scope

from hmx_pipeline.contracts.rejections import Reason
from hmx_pipeline.intake.json_paths import path_of
from hmx_pipeline.observe.logs import at
from hmx_pipeline.service.hippocortex.answer_envelope import failure, speaks

LOG: Final = logging.getLogger("hmx.service")
MEDIA_TYPE: Final = "application/problem+json"
RETRY: Final = {"Retry-After": "2"}
ALWAYS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
"""Headers of every answer: nothing is cached, and no content is taken for a web page."""
METHODS: Final = ("DELETE", "GET", "OPTIONS", "PATCH", "POST", "PUT")


class ProblemKind(StrEnum):
    """A stable error code with its HTTP status and title."""

    status: int
    heading: str

    def __new__(cls, code: str, status: int, heading: str) -> "ProblemKind":
        member = str.__new__(cls, code)
        member._value_ = code
        member.status = status
        member.heading = heading
        return member

    BAD_FRAMING = "bad_framing", 400, "The request is not valid HTTP"
    UNSUPPORTED_VERSION = "unsupported_version", 400, "The major version is not supported"
    TENANT_REQUIRED = "tenant_required", 400, "The header X-HMX-Tenant names no tenant"
    TENANT_RESERVED = "tenant_reserved", 400, "The tenant is reserved for the pipeline itself"
    UNAUTHORIZED = "unauthorized", 401, "The request has no valid key"
    FORBIDDEN = "forbidden", 403, "The key does not permit this"
    ORIGIN_NOT_ALLOWED = "origin_not_allowed", 403, "The page is of another site"
    NOT_FOUND = "not_found", 404, "Not found"
    METHOD_NOT_ALLOWED = "method_not_allowed", 405, "The method is not allowed"
    AMBIGUOUS = "ambiguous", 409, "Several events have this id"
    OUTRANKED = "outranked", 409, "An operator has ruled on this"
    POSITION_LOST = "position_lost", 410, "The stream can't be resumed from this position"
    TOO_LARGE = "too_large", 413, "The request is too large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type", 415, "The media type is not supported"
    ID_TOO_LONG = str(Reason.ID_TOO_LONG), 422, "An id in the request is too long"
    HOST_NOT_ALLOWED = "host_not_allowed", 421, "The host name is not allowed"
    INVALID_REQUEST = "invalid_request", 422, "The request is not valid"
    EVENT_REJECTED = "event_rejected", 422, "No event was accepted"
    TENANT_MISMATCH = "tenant_mismatch", 422, "The body names another tenant than the request"
    SUBJECT_MISMATCH = "subject_mismatch", 422, "The event is not of the subject that the key is bound to"
    AGENT_MISMATCH = "agent_mismatch", 422, "The event is not of the agent that the key is bound to"
    RATE_LIMITED = "rate_limited", 429, "Too many requests"
    INTERNAL = "internal", 500, "Internal error"
    NOT_OFFERED = "not_offered", 501, "Not offered"
    UPSTREAM_UNAVAILABLE = "upstream_unavailable", 502, "The model's server does not answer"
    KAFKA_UNAVAILABLE = "kafka_unavailable", 503, "Kafka is unavailable"
    REDIS_UNAVAILABLE = "redis_unavailable", 503, "Redis is unavailable"
    MEMORY_INCOMPLETE = "memory_incomplete", 503, "Memory is being loaded"
    PROVENANCE_FAILED = "provenance_failed", 503, "The record in Redis is damaged"
    BUSY = "busy", 503, "The service is busy"
    STOPPING = "stopping", 503, "The service is stopping"
    NOT_YET = "not_yet", 504, "The events are not in memory yet"
    HTTP = "http", 0, "The request was refused"
    """Other errors of the framework, with their own status."""


DOCUMENTED: Final[dict[int | str, dict[str, Any]]] = {
    "default": {
        "description": "Problem details (RFC 9457)",
        "content": {
            MEDIA_TYPE: {
                "schema": {
                    "type": "object",
                    "required": ["type", "title", "status", "detail", "reason"],
                    "properties": {
                        "type": {"type": "string"},
                        "title": {"type": "string"},
                        "status": {"type": "integer"},
                        "detail": {"type": "string"},
                        "reason": {"type": "string", "description": "Stable code; for events the rejection reason"},
                        "path": {"type": "string", "description": "JSON path of the cause"},
                    },
                }
            }
        },
    }
}
"""OpenAPI responses of every route's errors."""

_BY_STATUS: Final = {404: ProblemKind.NOT_FOUND, 405: ProblemKind.METHOD_NOT_ALLOWED}


class ProblemError(Exception):
    """An error answered as a problem; `members` are extension members (RFC 9457 §3.2)."""

    def __init__(self, kind: ProblemKind, detail: str, headers: dict[str, str] | None = None, **members: Any) -> None:
        super().__init__(kind)
        self.kind = kind
        self.detail = detail
        self.headers = headers
        self.members = members


def problem(
    kind: ProblemKind, detail: str, headers: dict[str, str] | None = None, status: int = 0, **members: Any
) -> Response:
    status = status or kind.status
    body = {
        "type": f"urn:hmx:problem:{kind}",
        "title": kind.heading,
        "status": status,
        "detail": detail,
        "reason": kind,
        **members,
    }
    return Response(orjson.dumps(body), status, headers, MEDIA_TYPE)


def answer(
    scope: Scope, kind: ProblemKind, detail: str, headers: dict[str, str] | None = None, status: int = 0, **members: Any
) -> Response:
    """Answers an error as problem details, or as an envelope on `/v1` routes."""
    if speaks(scope):
        return failure(scope, kind, detail, status or kind.status, headers, members)
    return problem(kind, detail, headers, status, **members)


def invalid(error: ValidationError) -> ProblemError:
    """Converts a validation error, naming its first mistake."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return ProblemError(_kind(first["type"]), first["msg"], path=path_of(first["loc"]))


def _kind(mistake: str) -> ProblemKind:
    return ProblemKind.ID_TOO_LONG if mistake == ProblemKind.ID_TOO_LONG else ProblemKind.INVALID_REQUEST


def unavailable(kind: ProblemKind, detail: str) -> ProblemError:
    return ProblemError(kind, detail, RETRY)


def internal(error: Exception, scope: Scope) -> Response:
    """Logs the error's type and line, since its message might quote a payload."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    LOG.error(
        "%s at %s:%s", type(error).__name__, Path(last.filename).name, last.lineno, extra=at(tenant=scope.get("tenant"))
    )
    return answer(scope, ProblemKind.INTERNAL, "the service failed: its log names the line")


def install(app: FastAPI) -> None:
    app.add_exception_handler(ProblemError, _raised)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _parameters)


async def _raised(request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return answer(request.scope, error.kind, error.detail, error.headers, **error.members)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = _BY_STATUS.get(error.status_code, ProblemKind.HTTP)
    headers = dict(error.headers or {})
    if kind is ProblemKind.METHOD_NOT_ALLOWED:
        headers["Allow"] = _allowed(request.scope)
    said = HTTPStatus(error.status_code).phrase
    detail = "no route has this path: /docs/api lists all" if kind is ProblemKind.NOT_FOUND else said
    return answer(request.scope, kind, detail, headers, error.status_code)


def _allowed(scope: Scope) -> str:
    """Returns the methods of all routes with this path; the framework knows one route only."""
    routes = scope["app"].routes
    asked = ({**scope, "method": method} for method in METHODS)
    found = [one["method"] for one in asked if any(route.matches(one)[0] is Match.FULL for route in routes)]
    return ", ".join(sorted({*found, "HEAD"} if "GET" in found else found))


async def _parameters(request: Request, error: Exception) -> Response:
    """Answers an invalid path or query parameter."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return answer(request.scope, _kind(first["type"]), str(first["msg"]), path=path_of(first["loc"][1:]))
