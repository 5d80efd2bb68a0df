"""Completeness header `X-HMX-Memory-Complete`: whether memory is fully loaded, on every answer from memory.

Enters: a request. Leaves: the tenant's completeness, which `service/request_metrics` writes as the header. It is read
from memory at most once a second, by a dependency of the routes, and not from what the answer has read; a pack states
its own completeness. Without Redis the header is left out.
"""

from contextlib import suppress
from typing import Final

from fastapi import Depends, Request

from hmx_pipeline.retrieval.memory_completeness import Completeness
from hmx_pipeline.service.ttl_cache import TtlCache
from hmx_pipeline.store.atomic_blocks import StoreUnavailableError
from hmx_pipeline.store.fetch import Store

MEMORY_COMPLETE: Final = "X-HMX-Memory-Complete"
COMPLETE: Final = "memory_complete"
"""Key in a request's scope: whether memory is complete."""
KEPT_S: Final = 1.0


class CompletenessCache(TtlCache[Completeness | None]):
    """TTL cache of the completeness; None if Redis does not answer."""

    def __init__(self, store: Store) -> None:
        super().__init__(lambda: _asked(store), KEPT_S)


def _asked(store: Store) -> Completeness | None:
    found = []
    for server in store.servers:
        with suppress(StoreUnavailableError):  # its tenants get no answer that could be incomplete
            server.layouts.use()
            found.append(server.completeness())
    return min(found, key=lambda each: each.percent, default=None)


async def reported(request: Request) -> None:
    known: CompletenessCache = request.app.state.completing
    whole = await known.get()
    request.scope[COMPLETE] = None if whole is None else whole.complete


REPORTED: Final = Depends(reported)
"""Dependency of routes that read memory."""


def anew(request: Request, tenant: str) -> Completeness:
    """Reads the completeness of a tenant's memory now, for an empty answer. Blocks. Raises StoreUnavailableError."""
    store: Store = request.app.state.store
    found = store.completeness(tenant)
    request.scope[COMPLETE] = found.complete
    return found
