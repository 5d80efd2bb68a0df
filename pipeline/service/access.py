"""Who asks, what they may, and how often: the same for the native routes and for the clients' dialect.

Enters: a request's headers. Leaves: its tenant. Where there is a file of keys, `Authorization: Bearer` names a tenant
by its key, and the header `X-HMX-Tenant` may only say the same. Without one anybody is whoever they say, for local
development: by that header, or by a key `hx_test_NAME`. Fails with ProblemError, which never says a key.
"""

import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Final

from fastapi import Depends, Header, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.requests import HTTPConnection

from pipeline.contracts.ids import too_long
from pipeline.contracts.keys import CONTROL_TENANT
from pipeline.contracts.limits import ID_BYTES
from pipeline.service.dialect.envelope import LIMITS, TENANT, speaks
from pipeline.service.keys import Grant, KeyFile, Scope
from pipeline.service.problems import Kind, ProblemError

HEADER: Final = "X-HMX-Tenant"
OPEN: Final = "hx_test_"
WINDOW_S: Final = 60
TENANTS: Final = 65_536
"""Whose requests are counted apart in a minute; all others share one count. With keys there are never so many."""
_SCHEME: Final = "bearer "


class Access:
    """`file` is empty where there is none; `per_minute` is 0 where there is no limit."""

    def __init__(self, file: str, per_minute: int, now_s: Callable[[], float] = time.time) -> None:
        self._now_s = now_s
        self._keys = KeyFile(Path(file)) if file else None
        self._per_minute = per_minute
        self._window = 0
        self._asked: Counter[str] = Counter()

    @property
    def open(self) -> bool:
        """Nobody needs a key."""
        return self._keys is None

    def grant(self, key: str, named: str | None = None) -> Grant | None:
        """What a key opens, and without a file of keys what a name does where no key says it; None for no such key."""
        if self._keys is not None:
            grant = self._keys.grant(key)
        else:
            tenant = (key.removeprefix(OPEN) if key.startswith(OPEN) else "") or named
            grant = Grant(tenant, frozenset(Scope)) if tenant else None
        return grant if grant and grant.tenant and grant.tenant != CONTROL_TENANT else None

    def limits(self, tenant: str) -> tuple[dict[str, str], bool]:
        """Counts one request, by the minute. The headers that tell of the limit, and whether it is kept."""
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
    """Empty where none is shown."""
    shown = connection.headers.get("authorization", "")
    return shown[len(_SCHEME) :].strip() if shown.lower().startswith(_SCHEME) else ""


def admit(connection: HTTPConnection, scope: Scope) -> str:
    """The tenant of whoever asks, one request of it counted. Raises ProblemError."""
    access: Access = connection.app.state.access
    key, named = key_of(connection), _named(connection)
    grant = access.grant(key, named)
    if grant is None:
        raise _stranger(connection, access.open and not key)
    if too_long(grant.tenant):
        raise ProblemError(Kind.ID_TOO_LONG, f"the tenant has more than {ID_BYTES} bytes", path="$.tenant_id")
    connection.scope[TENANT] = grant.tenant  # for the log and the answer
    connection.scope[LIMITS], kept = access.limits(grant.tenant)
    if named not in (None, grant.tenant):
        raise ProblemError(Kind.FORBIDDEN, f"the key is another tenant's than the header {HEADER} names")
    if scope not in grant.scopes:
        raise ProblemError(Kind.FORBIDDEN, f"the key lacks the scope {scope}")
    if not kept:
        limit = connection.scope[LIMITS]["X-RateLimit-Limit"]
        raise ProblemError(Kind.RATE_LIMITED, f"at most {limit} requests a minute")
    return grant.tenant


def admitted(connection: HTTPConnection, tenant: str, scope: Scope = Scope.READ) -> bool:
    """Whether whoever was admitted still would be: a stream outlives its request."""
    access: Access = connection.app.state.access
    grant = access.grant(key_of(connection), _named(connection))
    return grant is not None and grant.tenant == tenant and scope in grant.scopes


def _named(connection: HTTPConnection) -> str | None:
    """None where no tenant is named. Raises ProblemError for an empty name, two, one that is not UTF-8 or reserved."""
    values = connection.headers.getlist(HEADER)
    if not values:
        return None
    if len(values) > 1 or not values[0]:
        raise ProblemError(Kind.TENANT_REQUIRED, f"send one header {HEADER}")
    try:
        tenant = values[0].encode("latin-1").decode()  # HTTP hands on bytes, the framework reads them as latin-1
    except UnicodeError:
        raise ProblemError(Kind.TENANT_REQUIRED, f"the header {HEADER} is not UTF-8") from None
    if tenant == CONTROL_TENANT:
        raise ProblemError(Kind.TENANT_RESERVED, f"the tenant {CONTROL_TENANT} is the pipeline's own")
    return tenant


def _stranger(connection: HTTPConnection, may_be_named: bool) -> ProblemError:
    if may_be_named and not speaks(connection.scope):
        return ProblemError(Kind.TENANT_REQUIRED, f"send one header {HEADER}")
    detail = "send a valid key: Authorization: Bearer hx_…"
    return ProblemError(Kind.UNAUTHORIZED, detail, {"WWW-Authenticate": "Bearer"})


# What OpenAPI says of it; `admit` looks at the headers itself, for WebSockets too.
_Key = Annotated[
    HTTPAuthorizationCredentials | None,
    Security(HTTPBearer(auto_error=False, scheme_name="key", description="A key, as `hmx keys new` prints it")),
]
_Named = Annotated[
    str | None,
    Header(alias=HEADER, description="The tenant, UTF-8; needed where the service has no keys", examples=["acme"]),
]


def _having(scope: Scope) -> Callable[..., Awaitable[str]]:
    async def tenant(request: Request, _key: _Key = None, _named: _Named = None) -> str:
        return admit(request, scope)

    return tenant


async def operator(request: Request, _key: _Key = None) -> None:
    """For what concerns all tenants: a key of scope admin, or anybody where nobody needs a key."""
    access: Access = request.app.state.access
    if not access.open:
        admit(request, Scope.ADMIN)


Reader = Annotated[str, Depends(_having(Scope.READ))]
Writer = Annotated[str, Depends(_having(Scope.WRITE))]
Operator = Annotated[str, Depends(_having(Scope.ADMIN))]
"""The tenant that a route reads for, appends for, or decides for."""
OPERATOR: Final = Depends(operator)
"""Among a route's dependencies: it concerns all tenants."""
