"""Request bodies: media type, size limits, and parsing large ones in a thread.

Enters: a request, with the media types and the number of bytes that its route takes. Leaves: the body as bytes, or a
model of it. Raises ProblemError: wrong type, too large, too much held at once, not valid.
"""

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.types import Scope

from hmx_pipeline.contracts.limits import KB, MB
from hmx_pipeline.service.fair_turns import FairTurns
from hmx_pipeline.service.hippocortex.answer_envelope import TENANT
from hmx_pipeline.service.problems import RETRY, ProblemError, ProblemKind, invalid

SMALL: Final = 8 * KB
"""Bodies up to this size are parsed in the event loop; a thread would cost more."""
TENANT_BYTES: Final = 64 * MB
PROCESS_BYTES: Final = 256 * MB
"""Limits of unanswered request bodies in memory, per tenant and per process."""
HELD: Final = "held"
"""Key in a request's scope: bytes of its body that are counted as held."""

JSON: Final = "application/json"

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


class Bodies:
    """Counts the bytes of unanswered bodies by tenant."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._all = 0

    def hold(self, scope: Scope, size: int) -> None:
        """Adds bytes. Raises ProblemError beyond a limit."""
        tenant = scope[TENANT]
        if self._held[tenant] + size > TENANT_BYTES or self._all + size > PROCESS_BYTES:
            raise ProblemError(ProblemKind.BUSY, "too many bodies in memory: send fewer requests at a time", RETRY)
        self._held[tenant] += size
        self._all += size
        scope[HELD] = scope.get(HELD, 0) + size

    def release(self, scope: Scope) -> None:
        """Subtracts the bytes of an answered request."""
        size = scope.pop(HELD, 0)
        if size:
            self._all -= size
            self._held[scope[TENANT]] -= size
            self._held += Counter()  # drops zero counts


async def parsed(request: Request, tenant: str, body: bytes, parse: Callable[[], T]) -> T:
    """Runs `parse`, in a thread if the body is large."""
    turns: FairTurns = request.app.state.parsing
    return parse() if len(body) <= SMALL else await turns.run(tenant, parse)


def media_type(request: Request, known: Sequence[str], codings: Sequence[str] = ("identity",)) -> str:
    """Returns the matching media type of `known`. Raises ProblemError for others, and for a body of another coding."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in known or coding(request) not in codings:
        how = "uncompressed" if len(codings) == 1 else f"of the coding {' or '.join(codings)}"
        raise ProblemError(ProblemKind.UNSUPPORTED_MEDIA_TYPE, f"send {' or '.join(known)}, {how}")
    return given


def coding(request: Request) -> str:
    return request.headers.get("content-encoding", "identity").strip().lower()


def unpacked(body: bytes, limit: int) -> bytes:
    """Returns what a gzip body holds. Raises ProblemError if that is no gzip, or more than `limit` bytes."""
    unpacking = zlib.decompressobj(wbits=31)
    try:
        found = unpacking.decompress(body, limit + 1)
    except zlib.error:
        raise ProblemError(ProblemKind.INVALID_REQUEST, "the body is no gzip", path="$") from None
    if len(found) > limit:
        raise ProblemError(ProblemKind.TOO_LARGE, f"the body exceeds {limit} bytes: send less per request")
    if not unpacking.eof or unpacking.unused_data:
        detail = "the gzip ends too early, or something follows it: send one whole member"
        raise ProblemError(ProblemKind.INVALID_REQUEST, detail, path="$")
    return found


async def read_model(request: Request, model: type[M], limit: int) -> M:
    """Reads a body of JSON as a model. Raises ProblemError."""
    media_type(request, (JSON,))
    try:
        return model.model_validate_json(await read_body(request, limit))
    except ValidationError as error:
        raise invalid(error) from None


def described(schema: Any) -> dict[str, Any]:
    """Returns the OpenAPI description of a body that the route parses itself."""
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema}}}}


async def read_body(request: Request, limit: int) -> bytes:
    """Reads a body. Raises ProblemError as soon as it exceeds `limit` bytes."""
    bodies: Any = request.app.state.bodies
    announced = request.headers.get("content-length", "")
    body = bytearray()
    too_large = announced.isdecimal() and int(announced) > limit
    if not too_large:
        async for chunk in request.stream():
            body += chunk
            if too_large := len(body) > limit:
                break
            bodies.hold(request.scope, len(chunk))
    if too_large:
        raise ProblemError(ProblemKind.TOO_LARGE, f"the body exceeds {limit} bytes: send less per request")
    return bytes(body)


def inlined(schema: Any, definitions: dict[str, Any]) -> Any:
    """Replaces references by their definitions; definitions must not be recursive."""
    if isinstance(schema, list):
        return [inlined(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        named = definitions[schema["$ref"].removeprefix("#/$defs/")]
        schema = {**named, **{name: value for name, value in schema.items() if name != "$ref"}}
    return {name: inlined(part, definitions) for name, part in schema.items()}
