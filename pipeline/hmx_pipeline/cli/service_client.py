"""The service as commands ask it: at its address, where one is known, else its routes in this process.

Enters: a route and what is asked of it. Leaves: its answer. Exits with one line if the service refuses. Raises
SilentServiceError. At an address it needs no model, no Redis and no Kafka, so that a command starts at once.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from typing import Any, Final, NoReturn, Self
from urllib.parse import quote, urlencode, urlsplit

import orjson

from hmx_mcp.http_question import TIMEOUT_S, Answer, SilentServiceError, UntrustedServiceError, ask_over_http
from hmx_pipeline.cli.console import ERR, fail, plain
from hmx_pipeline.cli.opened_memory import Json, tenant_or_only
from hmx_pipeline.local.state import read_stack
from hmx_pipeline.settings import Settings

LOOK_S: Final = 3.0
"""Who only wants to know how things stand asks others after so long."""
PAGE: Final = 100
_THIS_MACHINE: Final = re.compile(r"localhost|127(?:\.\d+){3}|::1")
_OK, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _INVALID = 200, 401, 403, 404, 422
_NOWHERE: Final = "no service: run `hmx up` here, or set HMX_SERVICE_URL=http://host:port"
_SOMETHING: Final = "the answer {} is not the service's: HMX_SERVICE_URL names something else"


class ServiceClient:
    """`tenant` is whose memory is asked; empty for what concerns all."""

    def __init__(self, settings: Settings, timeout_s: float = TIMEOUT_S) -> None:
        url = settings.service_url
        self._send = partial(_over_http, url, timeout_s) if url else _in_process(settings)
        self._key = settings.api_key
        if url and self._key:
            _warn_of_plain_http(url)
        self.tenant = ""

    @classmethod
    def of(cls, tenant: str | None) -> Self:
        """Asks about this tenant, or about the only one; exits with a list of tenants if that is not clear."""
        settings = Settings.load()
        service = cls(settings)
        answer = service.ask("GET", "tenants")
        if answer[0] == _UNAUTHORIZED and not settings.api_key and _is_its_own(settings):
            service._send = _in_process(settings)  # whoever reaches memory's servers needs no key for what they hold
            answer = service.ask("GET", "tenants")
        if answer[0] != _FORBIDDEN:
            known = _read(answer).get("tenants")
            service.tenant = tenant_or_only(known, tenant) if isinstance(known, list) else _other(answer[0])
        elif tenant is None:
            fail("the key opens one tenant: name it with --tenant")
        else:
            service.tenant = tenant
        return service

    def ask(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """Returns status and body."""
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        if self.tenant:
            headers["X-HMX-Tenant"] = self.tenant.encode().decode("latin-1")
        return self._send(method, f"/v1/hmx/{path}", body, headers)

    def get(self, path: str, **asked: Any) -> Json:
        given = {name: value for name, value in asked.items() if value not in (None, "")}
        return _read(self.ask("GET", f"{path}?{urlencode(given, doseq=True)}"))

    def post(self, path: str, body: Json) -> Json:
        given = {name: value for name, value in body.items() if value is not None}
        return _read(self.ask("POST", path, orjson.dumps(given)))

    def find(self, kind: str, name: str) -> Json | None:
        """Returns one record; None if there is none."""
        answer = self.ask("GET", f"{kind}/{quote(name, safe='')}")
        return None if answer[0] == _NOT_FOUND else _read(answer)

    def pages(self, path: str, **asked: Any) -> Iterator[Json]:
        cursor: str | None = ""
        while cursor is not None:
            yield (page := self.get(path, limit=PAGE, cursor=cursor, **asked))
            cursor = page.get("cursor")


def told(settings: Settings, path: str, *members: str) -> Json | str:
    """Returns an answer of the service that has these members, or why there is none: others know it, too."""
    if not settings.service_url:
        return _NOWHERE
    try:
        status, said = ServiceClient(settings, LOOK_S).ask("GET", path)
        found = orjson.loads(said)
    except SilentServiceError as error:
        return str(error)
    except orjson.JSONDecodeError:
        return _SOMETHING.format(status)
    if not isinstance(found, dict) or (status == _OK and not found.keys() >= {*members}):
        return _SOMETHING.format(status)
    return found if status == _OK else _why(status, found)


def _is_its_own(settings: Settings) -> bool:
    """Whether Redis has the memory that this service serves: a stack's has not, if another service is named."""
    stack = read_stack(settings.state) or {}
    other = settings.redis_url == stack.get("redis_url") and settings.service_url != stack.get("service_url")
    return bool(settings.redis_url) and not other


@cache
def _warn_of_plain_http(url: str) -> None:
    """Warns once for each address: whoever is on the way reads the key."""
    with suppress(ValueError):  # it is no address, which is said when it is asked
        address = urlsplit(url)
        host = address.hostname
        if host and address.scheme == "http" and not _THIS_MACHINE.fullmatch(host):
            told = f"[yellow]HMX_API_KEY is sent unencrypted[/] to {plain(host)}: use https in HMX_SERVICE_URL"
            ERR.print(told, soft_wrap=True)


def _over_http(
    url: str, timeout_s: float, method: str, path: str, body: bytes | None, headers: dict[str, str]
) -> Answer:
    try:
        return ask_over_http(url, method, path, body, headers, timeout_s)
    except UntrustedServiceError:
        raise
    except SilentServiceError as error:
        raise SilentServiceError(f"{error}. `hmx status` shows what runs") from None


def _in_process(settings: Settings) -> Any:
    if not settings.redis_url:
        fail(_NOWHERE)
    from hmx_pipeline.service.in_process import OwnRoutes

    return OwnRoutes(settings).ask


def _read(answer: Answer) -> Json:
    status, said = answer
    try:
        value = orjson.loads(said)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        _other(status)
    if status >= 400:
        fail(_why(status, value), 2 if status == _INVALID else 1)
    return value


def _other(status: int) -> NoReturn:
    fail(_SOMETHING.format(status))


def _why(status: int, problem: Json) -> str:
    place = f"{problem['path']}: " if "path" in problem else ""
    key = ". Set HMX_API_KEY to a key of the tenant" if status == _UNAUTHORIZED else ""
    return f"{place}{problem.get('detail') or status}{key}"
