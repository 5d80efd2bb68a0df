"""Redis servers that share the tenants: each holds the keys of its own tenants, and its own positions in the topics.

Enters: settings, or a tenant. Leaves: a client of each server; the index of a tenant's server. Raises SettingsError. A
tenant's server is found by rendezvous hashing over the servers' numbers, so one more server takes tenants from every
other one and moves no further ones. The number of servers is a part of the layout (`store/redis_keys`): with another
number all are filled anew beside what they hold.
"""

from collections.abc import Sequence
from typing import Generic, TypeVar

import xxhash

from hmx_pipeline.settings import Settings, SettingsError
from hmx_pipeline.store.atomic_blocks import Client, connect

Server = TypeVar("Server")


def number_of(tenant_id: str, servers: int) -> int:
    """Returns the index of the server that holds a tenant."""
    if servers == 1:
        return 0
    return max(range(servers), key=lambda number: xxhash.xxh3_64_intdigest(f"{number}/{tenant_id}".encode()))


class Shared(Generic[Server]):
    """What there is of each server, such as its client, in the order of HMX_REDIS_URL."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self.all = tuple(servers)

    def of(self, tenant_id: str) -> Server:
        return self.all[number_of(tenant_id, len(self.all))]


def connected(settings: Settings) -> list[Client]:
    """Returns a client of each server; they connect when first used. Raises SettingsError."""
    return [connect(*each) for each in settings.require_redis()]


def own_server(settings: Settings) -> int:
    """Returns the index of the server that this process fills. Raises SettingsError."""
    servers = len(settings.require_redis())
    if servers > 1 and settings.redis_server < 0:
        raise SettingsError(
            f"HMX_REDIS_URL names {servers} servers: run a materialiser for each, and set HMX_REDIS_SERVER of each to"
            f" the one that it fills, 0 to {servers - 1}"
        )
    return max(0, settings.redis_server) % servers
