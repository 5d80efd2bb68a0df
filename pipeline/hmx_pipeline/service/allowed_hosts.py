"""Allowed hosts: checks `Host` and `Origin` while no keys are set, to keep other web pages out.

Stops DNS rebinding by `Host` and cross-site requests by `Origin`. Enters: every request except probes. Leaves: the
request, or a refusal that names the setting. With keys no check is needed, since other pages have no key.
"""

import ipaddress
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from hmx_pipeline.service.problems import ProblemKind, answer
from hmx_pipeline.settings import Settings

PROBES: Final = frozenset({"/livez", "/startupz", "/readyz", "/metrics"})
"""Paths without a host check: they expose no tenant data and change nothing."""
_HOST: Final = re.compile(r"(?:\[(?P<address>[0-9A-Za-z:.%]+)\]|(?P<name>[\w.-]+))(?::[0-9]*)?", re.ASCII)
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class AllowedNames:
    """Names of the service, and of pages that may call it."""

    def __init__(self, settings: Settings) -> None:
        given = {settings.host, urlsplit(settings.service_url).hostname or "", *settings.allowed_hosts.split(",")}
        self._names = LOOPBACK | {name.strip().lower() for name in given if name.strip()}
        self._addresses = settings.host not in LOOPBACK

    def host(self, host: str) -> bool:
        """Returns whether the Host is allowed. IP addresses are, unless the service listens on loopback only."""
        name = hostname(host)
        return name in self._names or (self._addresses and _is_address(name))

    def origin(self, origin: str, host: str) -> bool:
        """Returns whether the Origin is the requested host itself or an allowed name."""
        address = urlsplit(origin).netloc.lower()
        return bool(address) and (address == host.lower() or hostname(address) in self._names - LOOPBACK)


def hostname(host: str) -> str:
    """Removes the port of `name:port` or `[address]:port`; empty if malformed."""
    found = _HOST.fullmatch(host)
    return (found["address"] or found["name"]).lower().rstrip(".") if found else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class AllowedHosts:
    """ASGI middleware that refuses other hosts and origins."""

    def __init__(self, app: ASGIApp, names: AllowedNames | None) -> None:
        """Wraps `app`; `names` is None if keys are set."""
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._names is None or scope["type"] not in ("http", "websocket") or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        headers: Mapping[str, str] = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._names.host(host):
            detail = (
                f"the Host is not allowed: set HMX_ALLOWED_HOSTS={hostname(host) or 'NAME'}, or keys (HMX_API_KEYS)"
            )
            await answer(scope, ProblemKind.HOST_NOT_ALLOWED, detail)(scope, receive, send)
        elif origin is not None and not self._names.origin(origin, host):
            detail = "the Origin is another site: set HMX_ALLOWED_HOSTS to its host name, or keys (HMX_API_KEYS)"
            await answer(scope, ProblemKind.ORIGIN_NOT_ALLOWED, detail)(scope, receive, send)
        else:
            await self._app(scope, receive, send)
