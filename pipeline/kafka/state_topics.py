"""Reading a stage's state topic, partition by partition: what belongs together stands in one.

Enters: settings, a stage. Leaves: its records, tombstones too, in their order. Fails as reading Kafka does, and as
`reach` does where there is nothing to read.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing

from pipeline.contracts.keys import tenant_partition
from pipeline.kafka.clients import Cluster, Watermarks, read_partition
from pipeline.kafka.reach import existing_topics
from pipeline.settings import Settings
from pipeline.stages.tables import StateRecord
from pipeline.topology import EVIDENCE, Stage

Progress = Callable[[str], None]


def state_records(
    settings: Settings,
    stage: Stage,
    tenant: str | None = None,
    *,
    newest: int | None = None,
    on_progress: Progress = lambda _: None,
    on_left_out: Callable[[int], None] = lambda _: None,
) -> Iterator[StateRecord]:
    """`tenant`: of a stage whose state lies by tenant only its partition, in which others are too. `newest`: so many
    offsets of each partition only, the last ones; how many there are before them is told."""
    partitions = existing_topics(settings, stage.state)[stage.state]
    found: Iterable[int] = range(partitions)
    if tenant is not None and stage.source == EVIDENCE:
        found = [tenant_partition(tenant, partitions)]
    name = settings.topic_prefix + stage.state
    with closing(Cluster(settings.require_kafka())) as cluster:
        for partition in found:
            on_progress(f"{name} {partition + 1}/{partitions}")
            low, high = cluster.watermarks(name, partition)
            start = low if newest is None else max(low, high - newest)
            on_left_out(start - low)
            for message in read_partition(cluster.bootstrap, name, partition, Watermarks(start, high)):
                yield StateRecord((message.key() or b"").decode(), message.value(), message.timestamp()[1])
