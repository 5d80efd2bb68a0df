"""The service as commands ask it: at its address, where one is known, else its routes in this process.

Enters: a route and what is asked of it. Leaves: its answer. Exits with one line if the service refuses or is silent.
At an address it needs no model, no Redis and no Kafka, so that a command starts at once.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NoReturn, Self
from urllib.parse import quote, urlencode, urlsplit

import orjson

from hmx_pipeline.cli.console import fail
from hmx_pipeline.cli.opened_memory import Json, tenant_or_only
from hmx_pipeline.settings import Settings

TIMEOUT_S: Final = 30.0
PAGE: Final = 100
_FORBIDDEN, _NOT_FOUND, _INVALID = 403, 404, 422
Ask = Callable[[str, str, bytes | None, Mapping[str, str]], tuple[int, bytes]]
"""Method, path, body and headers to status and answer."""


class SilentServiceError(Exception):
    """The service does not answer; the message says where."""


class ServiceClient:
    """`tenant` is whose memory is asked; empty for what concerns all."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._ask = self._over_http if settings.service_url else _in_process(settings)
        self.tenant = ""

    @classmethod
    def of(cls, tenant: str | None) -> Self:
        """Asks about this tenant, or about the only one; exits with a list of tenants if that is not clear."""
        service = cls(Settings.load())
        status, said = service._asked("GET", "tenants", None)
        if status != _FORBIDDEN:
            service.tenant = tenant_or_only(service._read(status, said)["tenants"], tenant)
        elif tenant is None:
            fail("the key opens one tenant: name it with --tenant")
        else:
            service.tenant = tenant
        return service

    def get(self, path: str, **asked: Any) -> Json:
        given = {name: value for name, value in asked.items() if value not in (None, "")}
        return self._answer("GET", f"{path}?{urlencode(given, doseq=True)}", None)

    def post(self, path: str, body: Json) -> Json:
        return self._answer("POST", path, orjson.dumps({name: at for name, at in body.items() if at is not None}))

    def find(self, kind: str, name: str) -> Json | None:
        """Returns one record; None if there is none."""
        status, said = self._asked("GET", f"{kind}/{quote(name, safe='')}", None)
        return None if status == _NOT_FOUND else self._read(status, said)

    def pages(self, path: str, **asked: Any) -> Iterator[Json]:
        cursor: str | None = ""
        while cursor is not None:
            yield (page := self.get(path, limit=PAGE, cursor=cursor, **asked))
            cursor = page.get("cursor")

    def _answer(self, method: str, path: str, body: bytes | None) -> Json:
        return self._read(*self._asked(method, path, body))

    def _asked(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json"}
        if self._settings.api_key:
            headers["Authorization"] = f"Bearer {self._settings.api_key}"
        if self.tenant:
            headers["X-HMX-Tenant"] = self.tenant.encode().decode("latin-1")
        try:
            return self._ask(method, f"/v1/hmx/{path}", body, headers)
        except SilentServiceError as error:
            fail(f"{error}: `hmx status` shows what runs")

    def _over_http(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
        return over_http(self._settings.service_url, method, path, body, headers)

    def _read(self, status: int, said: bytes) -> Json:
        try:
            value = orjson.loads(said)
        except orjson.JSONDecodeError:
            value = None
        if not isinstance(value, dict):
            fail(f"{self._settings.service_url} answers without JSON ({status}): HMX_SERVICE_URL names another server")
        if status >= 400:
            _refused(status, value)
        return value


def over_http(url: str, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
    """Raises SilentServiceError, whose text quotes no key."""
    import http.client

    try:
        address = urlsplit(url)
        kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
        connection = kind(address.hostname or "", address.port, timeout=TIMEOUT_S)
        try:
            connection.request(method, address.path.rstrip("/") + path, body, dict(headers))
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()
    except (OSError, http.client.HTTPException) as error:
        where = f"{address.scheme}://{address.netloc.rpartition('@')[2]}{address.path}"
        raise SilentServiceError(f"the service at {where} does not answer ({error})") from None
    except ValueError:
        raise SilentServiceError("HMX_SERVICE_URL or HMX_API_KEY is not well formed") from None


def _in_process(settings: Settings) -> Ask:
    if not settings.redis_url:
        fail("no service: run `hmx up` here, or set HMX_SERVICE_URL=http://host:port")
    from hmx_pipeline.service.in_process import OwnRoutes

    return OwnRoutes(settings).ask


def _refused(status: int, problem: Json) -> NoReturn:
    place = f"{problem['path']}: " if "path" in problem else ""
    key = ". Set HMX_API_KEY to a key of the tenant" if status == 401 else ""
    fail(f"{place}{problem.get('detail') or status}{key}", 2 if status == _INVALID else 1)
