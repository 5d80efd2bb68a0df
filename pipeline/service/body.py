"""Reading a request's body: its media type, its bytes up to a bound, and parsing them without holding others up."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from fastapi import Request
from starlette.types import Scope

from pipeline.contracts.limits import KB, MB
from pipeline.service.dialect.envelope import TENANT
from pipeline.service.problems import RETRY, Kind, ProblemError
from pipeline.service.turns import Turns

SMALL: Final = 8 * KB
"""Bodies up to this size are parsed at once: a turn would cost more."""
TENANT_BYTES: Final = 64 * MB
PROCESS_BYTES: Final = 256 * MB
"""Bodies that a process holds of one tenant, and of all, until they are answered."""
HELD: Final = "held"
"""Where a request's scope says how many bytes of its body are held."""

T = TypeVar("T")


class Bodies:
    """What the process holds of bodies, by tenant."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._all = 0

    def hold(self, scope: Scope, size: int) -> None:
        """Raises ProblemError where it would be too much."""
        tenant = scope[TENANT]
        if self._held[tenant] + size > TENANT_BYTES or self._all + size > PROCESS_BYTES:
            raise ProblemError(Kind.BUSY, "the bodies of too many requests wait: send fewer at the same time", RETRY)
        self._held[tenant] += size
        self._all += size
        scope[HELD] = scope.get(HELD, 0) + size

    def release(self, scope: Scope) -> None:
        """What the request held; it is answered."""
        size = scope.pop(HELD, 0)
        if size:
            self._all -= size
            self._held[scope[TENANT]] -= size
            self._held += Counter()  # forgets who holds nothing


async def parsed(request: Request, tenant: str, body: bytes, parse: Callable[[], T]) -> T:
    """What `parse` makes of `body`."""
    turns: Turns = request.app.state.parsing
    return parse() if len(body) <= SMALL else await turns.run(tenant, parse)


def media_type(request: Request, known: Sequence[str]) -> str:
    """One of `known`, whatever its parameters. Raises ProblemError for another one and for a compressed body."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if given not in known or coding != "identity":
        raise ProblemError(Kind.UNSUPPORTED_MEDIA_TYPE, f"send {' or '.join(known)}, not compressed")
    return given


async def read_body(request: Request, limit: int) -> bytes:
    """Raises ProblemError as soon as it is known to be larger than `limit`."""
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
        raise ProblemError(Kind.TOO_LARGE, f"at most {limit} bytes")
    return bytes(body)


def inlined(schema: Any, definitions: dict[str, Any]) -> Any:
    """Each definition in the place that refers to it; none refers to itself."""
    if isinstance(schema, list):
        return [inlined(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        named = definitions[schema["$ref"].removeprefix("#/$defs/")]
        schema = {**named, **{name: value for name, value in schema.items() if name != "$ref"}}
    return {name: inlined(part, definitions) for name, part in schema.items()}
