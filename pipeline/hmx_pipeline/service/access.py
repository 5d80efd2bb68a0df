"""Access control: API keys and tokens, tenants, scopes and rate limits, for all HTTP routes and WebSockets.

Enters: a request's headers. Leaves: its tenant, and the subject that its key is bound to. With a key file or an issuer,
`Authorization: Bearer` selects the tenant, and `X-HMX-Tenant` must agree if sent. Without one (local development) the
header or a key `hx_test_NAME` selects the tenant, unauthenticated. Raises ProblemError, which never quotes a key.
"""

import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import Depends, Header, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.requests import HTTPConnection

from hmx_pipeline.contracts.ids import too_long
from hmx_pipeline.contracts.keys import CONTROL_TENANT
from hmx_pipeline.contracts.limits import ID_BYTES
from hmx_pipeline.service.api_keys import Grant, KeyFile, Scope
from hmx_pipeline.service.hippocortex.answer_envelope import LIMITS, TENANT, speaks
from hmx_pipeline.service.problems import ProblemError, ProblemKind

if TYPE_CHECKING:
    from hmx_pipeline.service.bearer_tokens import BearerTokens

HEADER: Final = "X-HMX-Tenant"
OPEN: Final = "hx_test_"
WINDOW_S: Final = 60
TENANTS: Final = 65_536
"""Tenants with a rate limit count of their own per minute; the others share one count."""
GRANT: Final = "hmx.grant"
"""Where a request's scope says what its key allows."""
_SCHEMES: Final = ("bearer ", "token ")
"""mem0's clients say the latter."""


class Access:
    """Checks keys and rate limits. `file` is empty for no keys; `per_minute` is 0 for no limit."""

    def __init__(
        self, file: str, per_minute: int, now_s: Callable[[], float] = time.time, tokens: "BearerTokens | None" = None
    ) -> None:
        self._now_s = now_s
        self.tokens = tokens
        self._keys = KeyFile(Path(file)) if file else None
        self._per_minute = per_minute
        self._window = 0
        self._asked: Counter[str] = Counter()

    @property
    def open(self) -> bool:
        """Returns whether requests need no key."""
        return self._keys is None and self.tokens is None

    def grant(self, key: str, named: str | None = None) -> Grant | None:
        """Returns the grant of a key or token, or if there are neither of a tenant name; None if invalid."""
        if not self.open:
            grant = self._keys.grant(key) if self._keys is not None else None
            grant = self.tokens.read(key)[0] if grant is None and self.tokens is not None else grant
        else:
            tenant = (key.removeprefix(OPEN) if key.startswith(OPEN) else "") or named
            grant = Grant(tenant, frozenset(Scope), open=True) if tenant else None
        return grant if grant and grant.tenant and grant.tenant != CONTROL_TENANT else None

    def limits(self, tenant: str) -> tuple[dict[str, str], bool]:
        """Counts one request of this minute. Returns the rate limit headers, and whether the limit is kept."""
        if not self._per_minute:
            return {}, True
        now = self._now_s()
        window = int(now // WINDOW_S)
        if window != self._window:
            self._window = window
            self._asked.clear()
        if tenant not in self._asked and len(self._asked) >= TENANTS:
            tenant = ""
        self._asked[tenant] += 1
        reset = (window + 1) * WINDOW_S
        left = self._per_minute - self._asked[tenant]
        headers = {
            "X-RateLimit-Limit": str(self._per_minute),
            "X-RateLimit-Remaining": str(max(0, left)),
            "X-RateLimit-Reset": str(reset),
        }
        if left < 0:
            headers["Retry-After"] = str(max(1, math.ceil(reset - now)))
        return headers, left >= 0


def key_of(connection: HTTPConnection) -> str:
    """Returns the bearer key of a request, or an empty string."""
    shown = connection.headers.get("authorization", "")
    return shown.partition(" ")[2].strip() if shown.lower().startswith(_SCHEMES) else ""


async def ready(connection: HTTPConnection) -> None:
    """Has the issuer's keys at hand for the request's token: to be awaited before `admit`."""
    access: Access = connection.app.state.access
    if access.tokens is not None:
        await access.tokens.ready(key_of(connection))


def holder_of(connection: HTTPConnection) -> str:
    """Returns who shows the key of an admitted request: the key itself, or whose token it is."""
    access: Access = connection.app.state.access
    key = key_of(connection)
    grant, holder = access.tokens.read(key) if access.tokens is not None else (None, "")
    return holder if grant is not None else key


def admit(connection: HTTPConnection, scope: Scope) -> str:
    """Authorises a request, counts it and returns its tenant. Raises ProblemError."""
    access: Access = connection.app.state.access
    key, named = key_of(connection), _named(connection)
    grant = access.grant(key, named)
    if grant is None:
        raise _stranger(connection, access.open and not key)
    if too_long(grant.tenant):
        raise ProblemError(ProblemKind.ID_TOO_LONG, f"the tenant has more than {ID_BYTES} bytes", path="$.tenant_id")
    connection.scope[TENANT] = grant.tenant  # for logs and answers
    connection.scope[GRANT] = grant
    connection.scope[LIMITS], kept = access.limits(grant.tenant)
    if named not in (None, grant.tenant):
        raise ProblemError(ProblemKind.FORBIDDEN, f"the key belongs to another tenant: leave out the header {HEADER}")
    if scope not in grant.scopes:
        raise ProblemError(ProblemKind.FORBIDDEN, f"the key lacks the scope {scope}: create one with `hmx keys new`")
    _keep(connection, kept)
    return grant.tenant


async def visitor(request: Request) -> None:
    """Counts a request for a page that needs no key; all visitors share one limit. Raises ProblemError."""
    access: Access = request.app.state.access
    request.scope[LIMITS], kept = access.limits(CONTROL_TENANT)  # nobody's name
    _keep(request, kept)


def _keep(connection: HTTPConnection, kept: bool) -> None:
    if not kept:
        limit = connection.scope[LIMITS]["X-RateLimit-Limit"]
        raise ProblemError(ProblemKind.RATE_LIMITED, f"at most {limit} requests per minute: wait as Retry-After says")


def let_decide(connection: HTTPConnection, subject: str | None) -> None:
    """Lets a key of scope admin rule and erase, and a bound key for its own subject. Raises ProblemError for others,
    and if the key was revoked since its admission."""
    access: Access = connection.app.state.access
    grant = access.grant(key_of(connection), _named(connection))
    if grant is None:
        raise _stranger(connection, access.open)
    own = grant.subject is not None and grant.subject == subject
    if not own and Scope.ADMIN not in grant.scopes:
        detail = "the key needs the scope admin, or must be bound to the subject whose memory it changes"
        raise ProblemError(ProblemKind.FORBIDDEN, detail)


def admitted(connection: HTTPConnection, tenant: str, scope: Scope = Scope.READ) -> bool:
    """Returns whether the request would still be admitted, since a stream outlives its admission."""
    access: Access = connection.app.state.access
    grant = access.grant(key_of(connection), _named(connection))
    if grant is None or grant.tenant != tenant or grant.subject != bound_to(connection):
        return False
    return scope in grant.scopes


def grant_of(connection: HTTPConnection) -> Grant:
    """Returns what the key of an admitted request allows."""
    grant: Grant = connection.scope[GRANT]
    return grant


def bound_to(connection: HTTPConnection) -> str | None:
    """Returns the subject that an admitted request's key is bound to; None if it is the tenant's."""
    return grant_of(connection).subject


def subject_for(bound: str | None, named: str | None) -> str | None:
    """Returns for whom a request asks: whom it names, or whom its key is bound to. Raises ProblemError for another."""
    if bound is not None and named not in (None, bound):
        raise ProblemError(ProblemKind.FORBIDDEN, "the key is bound to another subject: leave the subject out")
    return named or bound


def _named(connection: HTTPConnection) -> str | None:
    """Returns the tenant header, or None. Raises ProblemError if it is empty, repeated, reserved or not UTF-8."""
    values = connection.headers.getlist(HEADER)
    if not values:
        return None
    if len(values) > 1 or not values[0]:
        raise ProblemError(ProblemKind.TENANT_REQUIRED, f"send exactly one header {HEADER}")
    try:
        tenant = values[0].encode("latin-1").decode()  # HTTP headers are bytes; the framework decodes them as latin-1
    except UnicodeError:
        raise ProblemError(ProblemKind.TENANT_REQUIRED, f"the header {HEADER} is not UTF-8") from None
    if tenant == CONTROL_TENANT:
        raise ProblemError(ProblemKind.TENANT_RESERVED, f"the tenant {CONTROL_TENANT} is reserved: name another one")
    return tenant


def _stranger(connection: HTTPConnection, may_be_named: bool) -> ProblemError:
    if may_be_named and not speaks(connection.scope):
        return ProblemError(ProblemKind.TENANT_REQUIRED, f"send exactly one header {HEADER}")
    access: Access = connection.app.state.access
    key, detail, challenge = key_of(connection), "send a valid key: Authorization: Bearer hx_…", "Bearer"
    if access.tokens is not None and key.count(".") == 2:
        grant, why = access.tokens.read(key)
        if grant is None:
            detail, challenge = f"the token {why}", 'Bearer error="invalid_token"'
    return ProblemError(ProblemKind.UNAUTHORIZED, detail, {"WWW-Authenticate": challenge})


# Only documents the headers in OpenAPI. `admit` reads them itself, because WebSockets need it too.
_Key = Annotated[
    HTTPAuthorizationCredentials | None,
    Security(HTTPBearer(auto_error=False, scheme_name="key", description="A key from `hmx keys new`, or a JWT")),
]
_Named = Annotated[
    str | None,
    Header(alias=HEADER, description="The tenant, UTF-8; required if the service has no keys", examples=["acme"]),
]


def _having(scope: Scope, *, whole: bool = False) -> Callable[..., Awaitable[str]]:
    async def tenant(request: Request, _key: _Key = None, _named: _Named = None) -> str:
        await ready(request)
        name = admit(request, scope)
        if whole and bound_to(request) is not None:
            detail = "this tells of all subjects, and the key is bound to one: use a key of the tenant"
            raise ProblemError(ProblemKind.FORBIDDEN, detail)
        return name

    return tenant


async def operator(request: Request, _key: _Key = None) -> None:
    """Admits an operator, for routes that concern all tenants: needs a key of scope admin, if keys are set."""
    access: Access = request.app.state.access
    if not access.open:
        await ready(request)
        admit(request, Scope.ADMIN)


Reader = Annotated[str, Depends(_having(Scope.READ))]
WholeReader = Annotated[str, Depends(_having(Scope.READ, whole=True))]
Writer = Annotated[str, Depends(_having(Scope.WRITE))]
Operator = Annotated[str, Depends(_having(Scope.ADMIN))]
"""Parameter types: the tenant that a route reads, appends or decides for. A `WholeReader` sees all its subjects."""
OPERATOR: Final = Depends(operator)
"""Dependency of routes that concern all tenants."""
VISITOR: Final = Depends(visitor)
"""Dependency of pages that take work and need no key."""
