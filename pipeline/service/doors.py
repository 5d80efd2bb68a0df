"""Which names the service answers to while nobody needs a key, so that no web page elsewhere reads or writes memory.

A page whose own name suddenly leads to this machine (DNS rebinding) shows that name in `Host`; a page of another site
shows itself in `Origin`. Enters: every request but a probe's. Leaves: the request, or a refusal that says what to set.
With keys both may say what they like: a page elsewhere has no key.
"""

import ipaddress
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from pipeline.service.problems import Kind, answer
from pipeline.settings import Settings

PROBES: Final = frozenset({"/livez", "/startupz", "/readyz", "/metrics"})
"""Asked by address or by any name; they hold nothing of a tenant and change nothing."""
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class Names:
    """The names of the service, and those of pages that may ask it."""

    def __init__(self, settings: Settings) -> None:
        given = {settings.host, urlsplit(settings.service_url).hostname or "", *settings.allowed_hosts.split(",")}
        self._names = LOOPBACK | {name.strip().lower() for name in given if name.strip()}
        self._addresses = settings.host not in LOOPBACK

    def host(self, host: str) -> bool:
        """An address is no name that could lead elsewhere; where others than this machine may ask, any is taken."""
        name = hostname(host)
        return name in self._names or (self._addresses and _is_address(name))

    def origin(self, origin: str, host: str) -> bool:
        """The page's own, which stands before the very host that it asks, or one that is allowed by name."""
        address = urlsplit(origin).netloc.lower()
        return bool(address) and (address == host.lower() or hostname(address) in self._names - LOOPBACK)


def hostname(host: str) -> str:
    """`name:port` or `[address]:port` without its port; empty where it is neither."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Doors:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, names: Names | None) -> None:
        """`names` is None where keys are needed."""
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
                f"no name of this service: set HMX_ALLOWED_HOSTS={hostname(host) or 'NAME'}, or keys (HMX_API_KEYS)"
            )
            await answer(scope, Kind.HOST_NOT_ALLOWED, detail)(scope, receive, send)
        elif origin is not None and not self._names.origin(origin, host):
            detail = "Origin is another site: set HMX_ALLOWED_HOSTS to its host name, or keys (HMX_API_KEYS)"
            await answer(scope, Kind.ORIGIN_NOT_ALLOWED, detail)(scope, receive, send)
        else:
            await self._app(scope, receive, send)
