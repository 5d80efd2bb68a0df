"""State topic reader: yields a stage's state records, partition by partition.

Leaves: records and tombstones in order. Raises what reading Kafka raises, and what kafka.preflight raises.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Final

from confluent_kafka import Message

from hmx_pipeline.contracts.keys import tenant_partition
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.kafka.clients import Cluster, Watermarks, read_partition
from hmx_pipeline.kafka.preflight import existing_topics
from hmx_pipeline.kafka.range_reader import BOUNDED
from hmx_pipeline.runtime.transaction import KEY_ERRORS
from hmx_pipeline.settings import Settings
from hmx_pipeline.stages.state_tables import StateRecord
from hmx_pipeline.topology import EVIDENCE, Stage

Progress = Callable[[str], None]
BEFORE_BYTES: Final = 16 * MB


def state_records(
    settings: Settings,
    stage: Stage,
    tenant: str | None = None,
    *,
    newest: int | None = None,
    on_progress: Progress = lambda _: None,
    on_left_out: Callable[[int], None] = lambda _: None,
) -> Iterator[StateRecord]:
    """Reads the records of a stage. `tenant` limits stages keyed by tenant to one partition, which other tenants
    share. `newest` limits each partition to its last offsets, plus all earlier records if there are no more than
    `newest` and BEFORE_BYTES; otherwise `on_left_out` gets the number of skipped offsets."""
    partitions = existing_topics(settings, stage.state)[stage.state]
    found: Iterable[int] = range(partitions)
    if tenant is not None and stage.source == EVIDENCE:
        found = [tenant_partition(tenant, partitions)]
    name = settings.topic_prefix + stage.state
    with closing(Cluster(settings.require_kafka())) as cluster:
        for partition in found:
            on_progress(f"{name} {partition + 1}/{partitions}")

            def read(low: int, high: int, partition: int = partition) -> Iterator[StateRecord]:
                marks = Watermarks(low, high)
                return map(_record, read_partition(cluster.kafka, name, partition, marks, **BOUNDED))

            low, high = cluster.watermarks(name, partition)
            if newest is not None and high - low > newest:
                # After compaction a large offset range may hold few records.
                start = high - newest
                before = _all(read(low, start), newest)
                if before is None:
                    on_left_out(start - low)
                else:
                    yield from before
                low = start
            yield from read(low, high)


def _all(records: Iterable[StateRecord], most: int) -> list[StateRecord] | None:
    """Returns all records; None above `most` records or BEFORE_BYTES."""
    found: list[StateRecord] = []
    size = 0
    for record in records:
        found.append(record)
        size += len(record.value or b"")
        if len(found) > most or size > BEFORE_BYTES:
            return None
    return found


def _record(message: Message) -> StateRecord:
    return StateRecord((message.key() or b"").decode(errors=KEY_ERRORS), message.value(), message.timestamp()[1])
