"""Requests to a service in this process, without a server; `OwnRoutes` asks Redis alone, without keys or limits.

Enters: an application and a request. Leaves: status, headers and body of its answer.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote

from starlette.types import ASGIApp, Message

from hmx_pipeline.settings import Settings

_Header = tuple[bytes, bytes]
_Sent = tuple[int, Sequence[_Header], bytes]
_HERE: Final[dict[str, Any]] = {
    "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "server": None, "client": None,
}  # fmt: skip


class OwnRoutes:
    """Those that read Redis, without keys or limits: whoever has these settings may read it themselves."""

    def __init__(self, settings: Settings) -> None:
        """Raises SettingsError if the address of Redis is not set."""
        from hmx_pipeline.service.app import create_app

        self._app = create_app(
            replace(
                settings,
                kafka_bootstrap="127.0.0.1:1",  # nothing that is asked here is in Kafka
                kafka_properties=(),
                rate_limit=0,
                api_keys="",
                jwt_issuer="",
                jwt_audience="",
                jwt_jwks="",
                openai_upstream="",
                openai_key="",
            )
        )

    def ask(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
        given = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
        status, _, said = asyncio.run(
            sent(self._app, as_scope(_HERE, method, path, [*given, (b"host", b"localhost")]), body or b"")
        )
        return status, said


def as_scope(
    about: Mapping[str, Any], method: str, path: str, headers: Sequence[tuple[bytes, bytes]]
) -> dict[str, Any]:
    place, _, query = path.partition("?")
    return {
        **about,
        "method": method,
        "path": unquote(place),
        "raw_path": place.encode(),
        "query_string": query.encode(),
        "headers": headers,
    }


async def sent(app: ASGIApp, scope: dict[str, Any], body: bytes) -> _Sent:
    """Returns what an application answers to a request with this body."""
    start: dict[str, Any] = {}
    bodies, said = [body], bytearray()

    async def receive() -> Message:
        if not bodies:
            await asyncio.Event().wait()  # the request has ended, and nobody hangs up
        return {"type": "http.request", "body": bodies.pop(), "more_body": False}

    async def send(message: Message) -> None:
        start.update(message if message["type"] == "http.response.start" else {})
        said.extend(message.get("body", b""))

    await app(scope, receive, send)
    return start["status"], start["headers"], bytes(said)
