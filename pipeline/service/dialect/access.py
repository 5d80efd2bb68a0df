"""Who asks: an API key in the header `Authorization: Bearer`, and how often its tenant may.

Enters: a file of keys, each line a key's SHA-256 and its tenant; it is read again as soon as it changes, so a key that
is taken out is of no use from the next request on. Without a file a key `hx_test_NAME` is the tenant NAME: as much
trust as the header of the native routes has. Fails with ProblemError, which never says a key.
"""

import hashlib
import math
import secrets
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

from fastapi import Depends, Header, Request

from pipeline.contracts.keys import CONTROL_TENANT
from pipeline.service.dialect.envelope import LIMITS, TENANT
from pipeline.service.problems import Kind, ProblemError

OPEN: Final = "hx_test_"
LIVE: Final = "hx_live_"
WINDOW_S: Final = 60
_SCHEME: Final = "bearer "


def new_key() -> tuple[str, str]:
    """A key, and what a file of keys says of it."""
    key = LIVE + secrets.token_urlsafe(24)
    return key, digest(key)


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


class Access:
    """`file` is empty where there is none; `per_minute` is 0 where there is no limit."""

    def __init__(self, file: str, per_minute: int, now_s: Callable[[], float] = time.time) -> None:
        self._now_s = now_s
        self._file = Path(file) if file else None
        self._per_minute = per_minute
        self._read_at = -1
        self._tenants: dict[str, str] = {}
        self._window = 0
        self._asked: Counter[str] = Counter()

    def tenant(self, authorization: str) -> str:
        """Raises ProblemError for a key that is none."""
        key = authorization[len(_SCHEME) :].strip() if authorization.lower().startswith(_SCHEME) else ""
        if self._file is None:
            tenant = key.removeprefix(OPEN) if key.startswith(OPEN) else ""
        else:
            tenant = self._listed(self._file).get(digest(key), "")
        if not tenant or tenant == CONTROL_TENANT:
            raise ProblemError(Kind.UNAUTHORIZED, "send a valid key: Authorization: Bearer hx_…")
        return tenant

    def limits(self, tenant: str) -> dict[str, str]:
        """Counts one request, by the minute. Raises ProblemError, with the same headers, beyond the limit."""
        if not self._per_minute:
            return {}
        now = self._now_s()
        window = int(now // WINDOW_S)
        if window != self._window:
            self._window = window
            self._asked.clear()
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
            raise ProblemError(Kind.RATE_LIMITED, f"at most {self._per_minute} requests a minute", headers)
        return headers

    def _listed(self, file: Path) -> dict[str, str]:
        """Nobody has access where the file can't be read."""
        try:
            changed = file.stat().st_mtime_ns
            if changed != self._read_at:
                lines = (line.strip().partition(" ") for line in file.read_text().splitlines())
                self._tenants = {key: tenant.strip() for key, _, tenant in lines if tenant and not key.startswith("#")}
                self._read_at = changed
        except OSError:
            self._tenants, self._read_at = {}, -1
        return self._tenants


async def caller(request: Request, authorization: Annotated[str, Header()] = "") -> str:
    """The tenant of the key."""
    access: Access = request.app.state.access
    tenant = access.tenant(authorization)
    request.scope[TENANT] = tenant
    request.scope[LIMITS] = access.limits(tenant)
    return tenant


Caller = Annotated[str, Depends(caller)]
