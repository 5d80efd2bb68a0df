"""Block builder: cuts topic records into blocks and projects them.

Enters: records in order. Leaves: blocks with their commands. An unreadable record is logged, counted and left out.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.observe import logs
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.retrieval.vectors import Embed
from hmx_pipeline.store.changes import Changes, Command, Hides
from hmx_pipeline.store.partition_reader import owner
from hmx_pipeline.store.projection import ProjectionError, TopicRecord, project
from hmx_pipeline.store.redis_keys import Keys
from hmx_pipeline.store.servers import number_of

LOG: Final = logging.getLogger("hmx.materialiser")

BLOCK_RECORDS: Final = 1_000
BLOCK_BYTES: Final = 4 * MB
BLOCK_ARGUMENTS: Final = 25_000


class BlockBuilder:
    """`alive` is called for every record: an embedding model takes milliseconds for each. `server` is the index of the
    one that is filled: other servers' tenants are left out."""

    def __init__(
        self, keys: Keys, embed: Embed | None, hides: Hides, alive: Callable[[], None], server: int = 0
    ) -> None:
        self._keys = keys
        self._embed = embed
        self._hides = hides
        self._alive = alive
        self._server = server

    def blocks(self, records: Iterable[TopicRecord]) -> Iterator[tuple[list[TopicRecord], list[Command]]]:
        """Cuts records into blocks by count, bytes and arguments, so that no block delays readers for long."""
        block: list[TopicRecord] = []
        size, changes = 0, self._changes()
        for record in records:
            self._alive()
            block.append(record)
            size += len(record.value or b"")
            self._project(changes, record)
            if len(block) == BLOCK_RECORDS or size >= BLOCK_BYTES or changes.arguments >= BLOCK_ARGUMENTS:
                yield block, changes.commands()
                block, size, changes = [], 0, self._changes()
        if block:
            yield block, changes.commands()

    def _changes(self) -> Changes:
        return Changes(self._keys, self._embed, self._hides)

    def _project(self, changes: Changes, record: TopicRecord) -> None:
        if self._keys.servers > 1 and number_of(owner(record)[0] or "", self._keys.servers) != self._server:
            return
        try:
            project(changes, record)
        except ProjectionError as error:
            tenant, session = owner(record)
            place = logs.at(record.topic, record.partition, record.offset, tenant=tenant, session=session)
            LOG.error("left out of memory: %s", error, extra=place)  # noqa: TRY400  a trace would show values
            METRICS.materialiser_unreadable.labels(record.topic).inc()
