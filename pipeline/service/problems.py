"""Every error over HTTP as problem details (RFC 9457), each kind written once.

Enters: a `ProblemError`, or what the framework raises. Leaves: `application/problem+json`, without payloads or traces.
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

from pipeline.contracts.rejections import Reason
from pipeline.intake.paths import path_of
from pipeline.observe.logs import at
from pipeline.service.dialect.envelope import failure, speaks

LOG: Final = logging.getLogger("hmx.service")
MEDIA_TYPE: Final = "application/problem+json"
RETRY: Final = {"Retry-After": "2"}
ALWAYS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
"""What every answer says: memory is nobody's to keep, and a tenant's bytes are never taken for a page."""
METHODS: Final = ("DELETE", "GET", "OPTIONS", "PATCH", "POST", "PUT")


class Kind(StrEnum):
    """A stable code; `status` and `heading` come with it."""

    status: int
    heading: str

    def __new__(cls, code: str, status: int, heading: str) -> "Kind":
        member = str.__new__(cls, code)
        member._value_ = code
        member.status = status
        member.heading = heading
        return member

    BAD_FRAMING = "bad_framing", 400, "The request is no HTTP that is read here"
    UNSUPPORTED_VERSION = "unsupported_version", 400, "Another major version is spoken here"
    TENANT_REQUIRED = "tenant_required", 400, "The header X-HMX-Tenant names no tenant"
    TENANT_RESERVED = "tenant_reserved", 400, "The tenant is reserved for the pipeline itself"
    UNAUTHORIZED = "unauthorized", 401, "The request has no valid key"
    FORBIDDEN = "forbidden", 403, "The key does not open this"
    ORIGIN_NOT_ALLOWED = "origin_not_allowed", 403, "The page that asks is of another site"
    NOT_FOUND = "not_found", 404, "There is nothing of that name"
    METHOD_NOT_ALLOWED = "method_not_allowed", 405, "The route does not answer this method"
    AMBIGUOUS = "ambiguous", 409, "The id stands for more than one event"
    POSITION_LOST = "position_lost", 410, "The stream can't be resumed there"
    TOO_LARGE = "too_large", 413, "The request is too large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type", 415, "The body has a type that is not read here"
    ID_TOO_LONG = str(Reason.ID_TOO_LONG), 422, "The request names an id that is too long"
    HOST_NOT_ALLOWED = "host_not_allowed", 421, "The service does not answer to this name"
    INVALID_REQUEST = "invalid_request", 422, "The request is not valid"
    EVENT_REJECTED = "event_rejected", 422, "No event was accepted"
    TENANT_MISMATCH = "tenant_mismatch", 422, "The body names another tenant than whoever sends it"
    RATE_LIMITED = "rate_limited", 429, "There were too many requests"
    INTERNAL = "internal", 500, "A defect of the service"
    NOT_OFFERED = "not_offered", 501, "This is not offered here"
    KAFKA_UNAVAILABLE = "kafka_unavailable", 503, "Kafka does not take events at the moment"
    REDIS_UNAVAILABLE = "redis_unavailable", 503, "Redis does not answer at the moment"
    MEMORY_INCOMPLETE = "memory_incomplete", 503, "Memory is being filled"
    PROVENANCE_FAILED = "provenance_failed", 503, "What Redis holds of it is not what was published"
    BUSY = "busy", 503, "Too many ask at the same time"
    STOPPING = "stopping", 503, "The service stops"
    NOT_YET = "not_yet", 504, "Memory does not hold yet what is waited for"
    HTTP = "http", 0, "The request can't be answered"
    """Whatever else the framework refuses; the status is its own."""


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
                        "reason": {"type": "string", "description": "A stable code; an event's is intake's"},
                        "path": {"type": "string", "description": "JSON path of the cause"},
                    },
                }
            }
        },
    }
}
"""What OpenAPI says of every route's errors."""

_BY_STATUS: Final = {404: Kind.NOT_FOUND, 405: Kind.METHOD_NOT_ALLOWED}


class ProblemError(Exception):
    """`members` are extension members of the problem (RFC 9457 §3.2)."""

    def __init__(self, kind: Kind, detail: str, headers: dict[str, str] | None = None, **members: Any) -> None:
        super().__init__(kind)
        self.kind = kind
        self.detail = detail
        self.headers = headers
        self.members = members


def problem(
    kind: Kind, detail: str, headers: dict[str, str] | None = None, status: int = 0, **members: Any
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
    scope: Scope, kind: Kind, detail: str, headers: dict[str, str] | None = None, status: int = 0, **members: Any
) -> Response:
    """As whoever asks reads errors: problem details, or the envelope of the other dialect."""
    if speaks(scope):
        return failure(scope, kind, detail, status or kind.status, headers, members)
    return problem(kind, detail, headers, status, **members)


def invalid(error: ValidationError) -> ProblemError:
    """Of a body that a model has refused; it names the first mistake."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return ProblemError(_kind(first["type"]), first["msg"], path=path_of(first["loc"]))


def _kind(mistake: str) -> Kind:
    return Kind.ID_TOO_LONG if mistake == Kind.ID_TOO_LONG else Kind.INVALID_REQUEST


def unavailable(kind: Kind, detail: str) -> ProblemError:
    return ProblemError(kind, detail, RETRY)


def internal(error: Exception, scope: Scope) -> Response:
    """The log names the kind of error and the line that raised it: a message might hold a payload."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    LOG.error(
        "%s at %s:%s", type(error).__name__, Path(last.filename).name, last.lineno, extra=at(tenant=scope.get("tenant"))
    )
    return answer(scope, Kind.INTERNAL, "the log names the line that failed")


def install(app: FastAPI) -> None:
    app.add_exception_handler(ProblemError, _raised)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _parameters)


async def _raised(request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return answer(request.scope, error.kind, error.detail, error.headers, **error.members)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = _BY_STATUS.get(error.status_code, Kind.HTTP)
    headers = dict(error.headers or {})
    if kind is Kind.METHOD_NOT_ALLOWED:
        headers["Allow"] = _allowed(request.scope)
    return answer(request.scope, kind, HTTPStatus(error.status_code).phrase, headers, error.status_code)


def _allowed(scope: Scope) -> str:
    """Of every route with this path; the framework tells of one."""
    routes = scope["app"].routes
    asked = ({**scope, "method": method} for method in METHODS)
    found = [one["method"] for one in asked if any(route.matches(one)[0] is Match.FULL for route in routes)]
    return ", ".join(sorted({*found, "HEAD"} if "GET" in found else found))


async def _parameters(request: Request, error: Exception) -> Response:
    """Of a parameter in the path or the query; bodies are read and named by the routes."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return answer(request.scope, _kind(first["type"]), str(first["msg"]), path=path_of(first["loc"][1:]))
