"""Context pack query: plans a retrieval, fetches from Redis, assembles the pack.

Enters: a `PackRequest`. Leaves: a `ContextPack` with the time that it took; of a pack, the capture that tells what it
has shown. Raises StoreUnavailableError.
"""

import time

import orjson

from hmx_pipeline.contracts.episode import SUBJECT_ID
from hmx_pipeline.contracts.ledger import REINFORCES, SURFACED, memory_hash
from hmx_pipeline.contracts.limits import PROJECTED_REFS
from hmx_pipeline.contracts.pack import ContextPack
from hmx_pipeline.packs.assemble import assemble, timed
from hmx_pipeline.packs.tokens import estimate
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.retrieval_plan import plan
from hmx_pipeline.segments.targets import CallTargets
from hmx_pipeline.store.fetch import Store
from hmx_pipeline.store.layouts import ReplacedError

AT_ONCE, AT_ONCE_EACH = 4, 3
"""Packs made at the same time, in total and per tenant. More would only compete for the interpreter."""


def make_pack(store: Store, request: PackRequest, call: CallTargets | None = None) -> ContextPack:
    """Makes a pack. Raises StoreUnavailableError, also while a new layout is being filled beside an old one."""
    started = time.perf_counter()
    planned = plan(request, store.embed)
    pack = assemble(request, planned, store.fetch(planned), call)
    if not pack.metadata.get("memory_complete", True) and store.replaces(request.tenant_id):
        raise ReplacedError(
            "memory is being filled in the layout of this version: until then ask the version before it"
        )
    return timed(pack, round((time.perf_counter() - started) * 1000, 3), time.time_ns() // 1_000_000)


def surfaced(pack: ContextPack, subject: str | None, agent: str | None) -> bytes:
    """Returns the capture that says what the pack has shown, the first of it; empty if it has shown nothing. Its
    session is its own, so it disturbs none. `agent`: the only one whose events the key writes, if there is one."""
    shown = list(dict.fromkeys(entry.source_id for entry in pack.entries))[:PROJECTED_REFS]
    about = {"agentId": agent or pack.agent_id or "memory", **({SUBJECT_ID: subject} if subject else {})}
    content = {
        "kind": "surfaced",
        "targets": [{"seq": rank, "hash": memory_hash(name)} for rank, name in enumerate(shown, 1)],
        "source": {"checkout_id": pack.pack_id},
        "authority_status": "non_authoritative",
    }
    event = {"type": REINFORCES, "sessionId": f"{SURFACED}{pack.pack_id}", "payload": content, "metadata": about}
    return orjson.dumps(event) if shown else b""


def read_tables() -> None:
    """Loads tables before the first request, which would otherwise wait 0.1 s for them."""
    plan(PackRequest(query="ready", tenant_id="_"))
    estimate("ready")
