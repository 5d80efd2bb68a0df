"""A cost is a difference: what a stack takes at rest is nobody's event."""

import pytest

from tests.scale.extrapolate import Prices, bill, costs
from tests.scale.samples import Sample


def sample(tenants: int, events: int) -> Sample:
    """A deployment that costs 100 µs an event and 1 s at rest, 500 bytes a memory, 2,000 a tenant."""
    memories = events * 2 // 3
    return Sample(
        tenants,
        events,
        memories,
        {"worker": 1 + events * 100e-6},
        {"service": 0.010},
        10_000_000 + 500 * memories + 2_000 * tenants,
        {"hmx.events.v1": 1_000 + 300 * events},
        {"worker": 200_000_000},
    )


def test_what_is_there_at_rest_is_no_cost_of_an_event_a_memory_or_a_tenant() -> None:
    found = costs(sample(20, 9_000), sample(200, 9_000), sample(200, 30_000))
    assert found.event_us == pytest.approx({"worker": 100})
    assert (found.redis_memory, found.redis_tenant) == pytest.approx((500, 2_000))
    assert found.topic_event == pytest.approx({"hmx.events.v1": 300})
    assert found.tenants_cost == 1


def test_a_bill_counts_packs_beside_events_and_replicas_beside_bytes() -> None:
    found = costs(sample(20, 9_000), sample(200, 9_000), sample(200, 30_000))
    prices = Prices(core=25, memory_gb=4, disk_gb=0.1, peak=2, replicas=3, packs_event=0.01, kept_days=15)
    month = bill(found, 2_592e6, memories=1e8, tenants=10_000, prices=prices)  # 1,000 events a second
    assert month.cores == pytest.approx({"worker": 0.2, "service": 0.2})
    assert month.redis_gb == pytest.approx(100.04)
    assert month.disk_gb == pytest.approx(3 * 1.296e9 * 300 / 1e9)
    assert month.total == pytest.approx(0.4 * 25 + 100.04 * 4 + month.disk_gb * 0.1)
