"""The service, with the key, tenant and subject that its host has set. No caller can name another.

Raises ServiceError, whose text may be shown; it never quotes the key.
"""

import json
import os
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from hmx_mcp.http_question import SilentServiceError, ask_over_http

URL: Final = "http://127.0.0.1:8080"
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
            return ask_over_http(self.url, method, path, body, headers, most_bytes=ANSWER_BYTES)
        except SilentServiceError as error:
            raise ServiceError(str(error)) from None


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
