"""A request → a context pack: what to look for, what is there, what of it is said. The one way to answer a query."""

import time

from pipeline.contracts.pack import ContextPack
from pipeline.packs.assemble import assemble, with_duration
from pipeline.packs.tokens import estimate
from pipeline.retrieval.plan import plan
from pipeline.retrieval.request import PackRequest
from pipeline.store.fetch import Store

AT_ONCE, AT_ONCE_EACH = 4, 3
"""Packs that a process makes at the same time, and of one tenant. More would take the interpreter from one another, and
threads from what else is asked."""


def make_pack(store: Store, request: PackRequest) -> ContextPack:
    """Raises StoreUnavailableError."""
    started = time.perf_counter()
    planned = plan(request, store.embed)
    pack = assemble(request, planned, store.fetch(planned))
    return with_duration(pack, round((time.perf_counter() - started) * 1000, 3))


def read_tables() -> None:
    """Those that the first pack of a process would wait a tenth of a second for."""
    plan(PackRequest(query="ready", tenant_id="_"))
    estimate("ready")
