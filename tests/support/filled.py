"""Topics as the sessions stage leaves them, without its processes: the same fold, the same transactions."""

from collections.abc import Iterable
from itertools import islice

from hmx_pipeline.contracts.keys import partition_of
from hmx_pipeline.kafka.clients import Cluster, Watermarks, plain_producer, produce, read_partition
from hmx_pipeline.kafka.publisher import key_of
from hmx_pipeline.queries.rejected_records import row_of
from hmx_pipeline.runtime.transaction import Transactions
from hmx_pipeline.settings import Settings
from hmx_pipeline.stages.executor import Executor
from hmx_pipeline.stages.sessions import SessionsFold
from hmx_pipeline.topology import EVENTS, EVIDENCE, SESSIONS

CHUNK = 5_000


def fill(settings: Settings, values: Iterable[bytes]) -> int:
    """Appends these events, and folds every partition to its end; how many records there are then."""
    cluster, log = Cluster(settings.require_kafka()), plain_producer(settings.require_kafka())
    name, evidence = settings.topic_prefix + EVENTS, settings.topic_prefix + EVIDENCE
    partitions, evidence_partitions = (cluster.topic(topic).partitions for topic in (name, evidence))
    for value in values:
        key = key_of(value) or b""  # what has none goes where the empty key belongs
        produce(log, name, value, key, [], partition_of(key.decode(), partitions))
    assert log.flush(60) == 0
    count = 0
    for partition in range(partitions):
        fold = SessionsFold(
            partitions=partitions, evidence_partitions=evidence_partitions, control_key=settings.require_control_key()
        )
        executor = Executor(fold, partition)
        transactions = Transactions(
            cluster, SESSIONS, partition, settings.topic_prefix, settings.transaction_timeout_ms, log
        )
        transactions.fence()
        low, high = transactions.restore(executor).position, cluster.watermarks(name, partition).high
        rows = map(row_of, read_partition(cluster.kafka, name, partition, Watermarks(low, high)))
        while batch := list(islice(rows, CHUNK)):
            transactions.commit(executor, executor.run(batch), batch[-1].offset + 1)
            count += len(batch)
        transactions.close()
    cluster.close()
    return count
