"""What a context pack costs: planned, fetched from a real Redis and assembled, as the service does it; then over HTTP.

Tenants are made up (`memories`). Every round asks questions of its own; some others have warmed the process up before.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from hmx_pipeline.observe.allocator import collect_seldom
from hmx_pipeline.queries.context_pack import make_pack
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.fetch import Store
from tests.bench import memories
from tests.bench.kit import Bench, Child, quantile
from tests.bench.report import Bar, Line
from tests.support.memory import Memory
from tests.support.pipeline import Pipeline
from tests.support.resident import used_memory

QUESTIONS: Final = 1_000
WARM: Final = 1_000
"""Other questions before: what of memory is asked for often, a process has by then."""
ARTIFACTS: Final = 5_000
SMALL: Final = 100_000
LARGE: Final = 1_000_000
BUDGET: Final = 4_096
WRITTEN: Final = 20_000
"""Records a second, beside which packs are asked for."""
CLIENTS: Final = 32
PAST: Final = 1_000
"""Sessions of agents at work, beside what was said."""
ASKING: Final = {"session_id": "session-1", "agent_id": "agent-1"}


def packs(bench: Bench) -> list[Line]:
    collect_seldom()
    with memory_of(bench) as (settings, memory):
        before = used_memory(memory.client)
        memories.fill(memory, "weighed", SMALL)
        held = (used_memory(memory.client) - before) / SMALL
        memories.fill(memory, "small", SMALL, ARTIFACTS)
        alone = [_asked(memory.store, "small", SMALL, number) for number in bench.rounds()]
        memories.fill(memory, "busy", SMALL, ARTIFACTS)
        memories.past(memory, "busy", PAST)
        other = Store.open(settings)
        begun = [_asked(other, "busy", SMALL, number, **ASKING) for number in range(bench.round_count)]
        served = [_served(bench, settings, number) for number in range(bench.round_count)]
        by_two = [_served(bench, settings, number, "--processes", "2") for number in range(bench.round_count)]
        written = [_while_written(bench, settings, memory, number) for number in range(bench.round_count)]
        memories.fill(memory, "large", LARGE, ARTIFACTS)
        large = [_asked(Store.open(settings), "large", LARGE, number) for number in range(bench.round_count)]
        beside = [_asked(memory.store, "small", SMALL, number) for number in range(bench.round_count)]
    name = f"{SMALL:,} memories"
    medians = [quantile(took, 50) for took in alone]
    return [
        *_lines(f"pack, {name}", alone, 4, 15),
        *_lines("  for a session under way, with a past", begun, 4, 15),
        *_lines(f"pack, {name}, while written", [took for took, _ in written], 8, 25),
        Line("  records written meanwhile", "records/s", [rate for _, rate in written]),
        *_lines(f"pack, {LARGE:,} memories", large, 12, 60),
        Line("packs over HTTP, 32 clients", "packs/s", served, bar=Bar("≥", 250, ratio=False)),
        Line("  by two processes", "packs/s", by_two, "one process", served, Bar("≥", 1.7)),
        Line("Redis, a memory of 100 characters", "bytes", [held], bar=Bar("≤", 350, ratio=False)),
        Line("pack beside 10 × more", "ms", [quantile(took, 50) for took in beside], "alone", medians, Bar("≤", 1.1)),
    ]


def _lines(name: str, rounds: Sequence[Sequence[float]], median: float, tail: float) -> list[Line]:
    return [
        Line(f"{name}, p{share}", "ms", [quantile(took, share) for took in rounds], bar=Bar("≤", limit, ratio=False))
        for share, limit in ((50, median), (99, tail))
    ]


@contextmanager
def memory_of(bench: Bench) -> Iterator[tuple[Settings, Memory]]:
    with bench.topics() as settings:
        memory = Memory(settings.redis_url, settings.topic_prefix)
        try:
            yield settings, memory
        finally:
            memory.wipe()
            memory.client.close()


def _asked(store: Store, tenant: str, episodes: int, seed: int, **asking: str) -> list[float]:
    """Milliseconds of each pack, the first ones left out."""
    return timed(store, tenant, memories.queries(WARM + QUESTIONS, episodes, seed), **asking)[WARM:]


def timed(store: Store, tenant: str, questions: Sequence[str], **asking: str) -> list[float]:
    """Milliseconds of each pack; `asking`: who asks, a session or an agent."""
    took = []
    for question in questions:
        request = PackRequest(query=question, tenant_id=tenant, token_budget=BUDGET, **asking)
        started = time.perf_counter()
        pack = make_pack(store, request)
        pack.to_json()
        took.append((time.perf_counter() - started) * 1000)
        assert pack.entries, f"nothing was found for {question!r}"
    return took


def _while_written(bench: Bench, settings: Settings, memory: Memory, number: int) -> tuple[list[float], float]:
    """And how many records a second were written."""
    tenant = f"written-{number}"
    memories.fill(memory, tenant, SMALL, ARTIFACTS)
    with Child(bench, "writing", settings.redis_url, settings.topic_prefix, tenant, SMALL, WRITTEN) as writing:
        writing.answer()
        writing.say("go")
        took = _asked(Store.open(settings), tenant, SMALL, number)
        return took, writing.ask("stop")["rate"]


def _served(bench: Bench, settings: Settings, number: int, *options: str) -> float:
    """Packs a second from the service."""
    pipeline = Pipeline(settings, bench.folder)
    try:
        pipeline.start("service", *options)
        return float(bench.child("asking", settings.service_port, "small", SMALL, number, CLIENTS)["rate"])
    finally:
        pipeline.stop_all()
