"""One Redis server as a whole: whether it answers, its tenants, positions and completeness.

Enters: a client and the layout's `Keys`. Leaves: positions by topic/partition, and the `Completeness` that
`store/atomic_blocks` reads. Raises StoreUnavailableError.
"""

from hmx_pipeline.retrieval.memory_completeness import Completeness
from hmx_pipeline.store.atomic_blocks import Blocks, Client, reachable, refuse_eviction
from hmx_pipeline.store.layouts import Layouts
from hmx_pipeline.store.redis_keys import Keys


class MemoryServer:
    """Thread-safe."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._blocks = Blocks(client, keys)
        self.layouts = Layouts(client, keys)

    def ping(self) -> None:
        """Raises EvictingError too, if it may evict keys."""
        with reachable():
            self._client.ping()
        refuse_eviction(self._client)

    def tenants(self) -> list[str]:
        with reachable():
            return [tenant.decode() for tenant in self._client.smembers(self._keys.tenants)]

    def positions(self) -> dict[str, int]:
        """Returns topic/partition → position up to which records are in its memory."""
        return self._blocks.positions()

    def completeness(self) -> Completeness:
        """Returns whether its memory is complete, in one round trip."""
        return self._blocks.completeness()
