"""Subscriptions: tells a client of hmx-mcp when a resource it named reads otherwise than before.

Asks the service every LOOK_S, and only while something is subscribed. Over HTTP the server keeps no sessions, so only
stdio has this. A service that is away changes nothing.
"""

from collections import Counter
from typing import Any, Final

import anyio
import anyio.to_thread
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, EmptyResult

from hmx_mcp.resources import read
from hmx_mcp.service import Service, ServiceError

LOOK_S: Final = 2.0
WATCHED: Final = 32
"""Resources that are watched at a time."""


class Watching:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._bus = InMemorySubscriptionBus()
        self._listening = ListenHandler(self._bus, max_subscriptions=WATCHED)
        self._subscribed: dict[str, Any] = {}
        """URI → the session of a client of the older protocol."""
        self._listened = Counter[str]()
        self._seen: dict[str, str | None] = {}

    async def subscribe(self, ctx: Any, params: Any) -> EmptyResult:
        await self._see([params.uri])
        self._subscribed[params.uri] = ctx.session
        return EmptyResult()

    async def unsubscribe(self, _ctx: Any, params: Any) -> EmptyResult:
        self._subscribed.pop(params.uri, None)
        return EmptyResult()

    async def listen(self, ctx: Any, params: Any) -> Any:
        """Lasts as long as the client listens."""
        uris = list(params.notifications.resource_subscriptions or ())
        await self._see(uris)
        self._listened.update(uris)
        try:
            return await self._listening(ctx, params)
        finally:
            self._listened = +(self._listened - Counter(uris))

    async def run(self) -> None:
        while True:
            await anyio.sleep(LOOK_S)
            wanted = self._subscribed.keys() | self._listened.keys()
            self._seen = {uri: known for uri, known in self._seen.items() if uri in wanted}
            for uri in wanted & self._seen.keys():
                before, self._seen[uri] = self._seen[uri], await self._reading(uri, self._seen[uri])
                if self._seen[uri] != before:
                    await self._bus.publish(ResourceUpdated(uri=uri))
                    if uri in self._subscribed:
                        await self._subscribed[uri].send_resource_updated(uri)

    async def _see(self, uris: list[str]) -> None:
        if len(self._seen.keys() | set(uris)) > WATCHED:
            raise MCPError(INVALID_PARAMS, f"at most {WATCHED} resources are watched")
        for uri in uris:
            if uri not in self._seen:
                self._seen[uri] = await self._reading(uri, None)

    async def _reading(self, uri: str, before: str | None) -> str | None:
        """What it says now; none if there is no such record."""
        try:
            return await anyio.to_thread.run_sync(read, self._service, uri)
        except ServiceError as error:
            return None if error.status == 404 else before
