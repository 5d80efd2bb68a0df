"""The service over HTTP, with the key, tenant and subject that the environment names. No caller can name another.

Raises ServiceError, whose text may be shown; it never quotes the key.
"""

import http.client
import json
import os
import ssl
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

URL: Final = "http://127.0.0.1:8080"
TIMEOUT_S: Final = 30.0
ANSWER_BYTES: Final = 16 * 1024 * 1024
Json = dict[str, Any]


class ServiceError(Exception):
    def __init__(self, detail: str, status: int = 0) -> None:
        super().__init__(detail)
        self.status = status


class Service(NamedTuple):
    url: str
    key: str
    tenant: str
    subject: str

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> "Service":
        return cls(
            environment.get("HMX_SERVICE_URL") or URL,
            environment.get("HMX_API_KEY", ""),
            environment.get("HMX_TENANT", ""),
            environment.get("HMX_SUBJECT", ""),
        )

    def get(self, path: str) -> Json:
        return self._ask("GET", path, None)

    def post(self, path: str, body: Json) -> Json:
        return self._ask("POST", path, json.dumps(body).encode())

    def _ask(self, method: str, path: str, body: bytes | None) -> Json:
        address = urlsplit(self.url)
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        elif self.tenant:
            headers["X-HMX-Tenant"] = self.tenant.encode().decode("latin-1")
        try:
            connection = _connection(address.scheme, address.hostname or "", address.port)
            try:
                connection.request(method, address.path.rstrip("/") + path, body, headers)
                answer = connection.getresponse()
                said = answer.read(ANSWER_BYTES)
            finally:
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            raise ServiceError(f"the memory service at {self.url} does not answer ({error})") from None
        return _parsed(said, answer.status)


def _connection(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    if scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=ssl.create_default_context())
    return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)


def _parsed(said: bytes, status: int) -> Json:
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
