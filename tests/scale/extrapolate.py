"""From a few samples to a deployment: what an event, a memory and a tenant cost, and what that makes of many.

Enters: three samples of which two differ in their tenants alone, and two in their events alone. Leaves: `Costs`. A cost
is the difference of two samples, so what a stack takes at rest is in none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tests.scale.samples import Sample

MONTH_S: Final = 30 * 86_400


@dataclass(frozen=True)
class Costs:
    event_us: Mapping[str, float]
    """Component → CPU microseconds an event."""
    pack_ms: Mapping[str, float]
    """Service and Redis → CPU milliseconds a pack."""
    redis_memory: float
    """Bytes in Redis a memory, with what was learnt beside and the words' lists."""
    redis_tenant: float
    """Bytes in Redis that a tenant takes besides its memories."""
    topic_event: Mapping[str, float]
    """Topic → bytes an event."""
    memories_event: float
    tenants_cost: float
    """CPU an event with all its tenants, as a multiple of the CPU with a tenth of them."""


@dataclass(frozen=True)
class Prices:
    core: float
    """A core for a month."""
    memory_gb: float
    disk_gb: float
    peak: float
    """Times the mean load that must be there."""
    replicas: int
    """Of a record in Kafka; memory in Redis is held twice."""
    packs_event: float
    kept_days: int
    """How long topics keep events; memory keeps what a policy leaves."""


def costs(few: Sample, many: Sample, larger: Sample) -> Costs:
    """`many`: as `few` with more tenants; `larger`: as `many` with more events."""
    events, memories = larger.events - many.events, larger.memories - many.memories
    event_us = {name: (larger.cpu[name] - many.cpu[name]) / events * 1e6 for name in larger.cpu}
    redis_memory = (larger.redis - many.redis) / memories
    return Costs(
        event_us,
        {name: seconds * 1e3 for name, seconds in larger.asked.items()},
        redis_memory,
        max(0.0, (many.redis - few.redis) / (many.tenants - few.tenants)),
        {name: (larger.topics[name] - many.topics[name]) / events for name in larger.topics},
        memories / events,
        sum(many.cpu.values()) / sum(few.cpu.values()),
    )


@dataclass(frozen=True)
class Bill:
    cores: Mapping[str, float]
    redis_gb: float
    disk_gb: float
    total: float


def bill(of: Costs, events_month: float, memories: float, tenants: float, prices: Prices) -> Bill:
    second = events_month / MONTH_S * prices.peak
    packs = {name: ms * 1e3 * prices.packs_event for name, ms in of.pack_ms.items()}
    each = {name: of.event_us.get(name, 0.0) + packs.get(name, 0.0) for name in {**of.event_us, **packs}}
    cores = {name: second * us / 1e6 for name, us in each.items()}
    redis_gb = 2 * (memories * of.redis_memory + tenants * of.redis_tenant) / 1e9
    kept = events_month * prices.kept_days / 30
    disk_gb = prices.replicas * kept * sum(of.topic_event.values()) / 1e9
    total = sum(cores.values()) * prices.core + redis_gb * prices.memory_gb + disk_gb * prices.disk_gb
    return Bill(cores, redis_gb, disk_gb, total)
