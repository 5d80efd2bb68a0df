"""Which of several Redis servers holds a tenant."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.settings import Settings, SettingsError
from hmx_pipeline.store.redis_keys import Keys
from hmx_pipeline.store.servers import number_of, own_server

TENANTS = [f"tenant-{n}" for n in range(4_000)]
URLS = "redis://one:6379 redis://two:6379"


@given(st.text(), st.integers(1, 9))
def test_one_more_server_only_takes_tenants_and_moves_no_others(tenant: str, servers: int) -> None:
    assert number_of(tenant, servers + 1) in (number_of(tenant, servers), servers)


@pytest.mark.parametrize("servers", [2, 3, 7])
def test_each_server_gets_its_share(servers: int) -> None:
    counts = Counter(number_of(tenant, servers) for tenant in TENANTS)
    assert len(counts) == servers
    assert max(counts.values()) < 1.2 * len(TENANTS) / servers


def test_another_number_of_servers_is_another_layout() -> None:
    assert len({Keys("", "", servers).root for servers in (1, 2, 3)}) == 3
    assert Keys("", "", 1).root == Keys().root


def test_a_materialiser_that_does_not_know_its_server_says_what_to_set() -> None:
    with pytest.raises(SettingsError, match="set HMX_REDIS_SERVER of each to the one that it fills, 0 to 1"):
        own_server(Settings(redis_url=URLS))


def test_pods_that_are_numbered_on_share_the_servers_in_turn() -> None:
    assert [own_server(Settings(redis_url=URLS, redis_server=n)) for n in range(4)] == [0, 1, 0, 1]
    assert own_server(Settings(redis_url="redis://one:6379")) == 0
