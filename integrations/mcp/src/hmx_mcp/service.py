"""The service, with the key, tenant and subject that its host has set. No caller can name another.

Raises ServiceError, whose text may be shown; it never quotes the key.
"""

import http.client
import json
import os
import ssl
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

URL: Final = "http://127.0.0.1:8080"
TIMEOUT_S: Final = 30.0
ANSWER_BYTES: Final = 16 * 1024 * 1024
JSON: Final = "application/json"
Json = dict[str, Any]
Ask = Callable[[str, str, bytes | None], tuple[int, bytes]]
"""Method, path and body to status and answer."""


class ServiceError(Exception):
    def __init__(self, detail: str, status: int = 0) -> None:
        super().__init__(detail)
        self.status = status


class Service(NamedTuple):
    ask: Ask
    subject: str
    session: str
    """The session of a caller that names none."""

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> "Service":
        url, key, tenant = (environment.get(f"HMX_{name}", "") for name in ("SERVICE_URL", "API_KEY", "TENANT"))
        return cls(_Remote(url or URL, key, tenant).ask, environment.get("HMX_SUBJECT", ""), f"mcp-{uuid.uuid4()}")

    def get(self, path: str) -> Json:
        return _parsed(*self.ask("GET", path, None))

    def post(self, path: str, body: Json) -> Json:
        return _parsed(*self.ask("POST", path, json.dumps(body).encode()))


class _Remote(NamedTuple):
    url: str
    key: str
    tenant: str

    def ask(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        headers = {"Content-Type": JSON}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        elif self.tenant:
            headers["X-HMX-Tenant"] = self.tenant.encode().decode("latin-1")
        try:
            address = urlsplit(self.url)
            connection = _connection(address.scheme, address.hostname or "", address.port)
            try:
                connection.request(method, address.path.rstrip("/") + path, body, headers)
                answer = connection.getresponse()
                return answer.status, answer.read(ANSWER_BYTES)
            finally:
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            where = f"{address.scheme}://{address.netloc.rpartition('@')[2]}{address.path}"
            raise ServiceError(f"the memory service at {where} does not answer ({error})") from None
        except ValueError:  # its text may quote the key
            raise ServiceError("HMX_SERVICE_URL, HMX_API_KEY or HMX_TENANT is not well formed") from None


def _connection(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    if scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=ssl.create_default_context())
    return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)


def _parsed(status: int, said: bytes) -> Json:
    try:
        value = json.loads(said)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ServiceError(f"the memory service answered {status} without JSON", status)
    if status >= 400:
        detail = value.get("detail") or value.get("title") or "no reason was given"
        raise ServiceError(f"the memory service refused: {detail}", status)
    return value


def in_path(name: str) -> str:
    return quote(name, safe="")
