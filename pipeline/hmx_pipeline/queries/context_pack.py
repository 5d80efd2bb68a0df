"""Context pack query: plans a retrieval, fetches from Redis, assembles the pack."""

import time

from hmx_pipeline.contracts.pack import ContextPack
from hmx_pipeline.packs.assemble import assemble, with_duration
from hmx_pipeline.packs.tokens import estimate
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.retrieval_plan import plan
from hmx_pipeline.store.fetch import Store

AT_ONCE, AT_ONCE_EACH = 4, 3
"""Packs made at the same time, in total and per tenant. More would only compete for the interpreter."""


def make_pack(store: Store, request: PackRequest) -> ContextPack:
    """Makes a pack. Raises StoreUnavailableError."""
    started = time.perf_counter()
    planned = plan(request, store.embed)
    pack = assemble(request, planned, store.fetch(planned))
    return with_duration(pack, round((time.perf_counter() - started) * 1000, 3))


def read_tables() -> None:
    """Loads tables before the first request, which would otherwise wait 0.1 s for them."""
    plan(PackRequest(query="ready", tenant_id="_"))
    estimate("ready")
