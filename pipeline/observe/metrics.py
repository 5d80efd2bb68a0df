"""Every metric that a process exports, one line each. Labels are bounded: never a tenant or a session."""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

_FAST: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    partitions_owned = Gauge("hmx_partitions_owned", "Source partitions that this worker owns")
    records = Counter("hmx_stage_records", "Source records folded and committed", ["stage"])
    effects = Counter(
        "hmx_stage_effects", "What the folds did, by name: outcomes, artifacts, bounds", ["stage", "name"]
    )
    transactions = Counter("hmx_stage_transactions", "Transactions by result", ["stage", "result"])
    transaction_seconds = Histogram(
        "hmx_stage_transaction_seconds", "Fold and commit of a batch", ["stage"], buckets=_FAST
    )
    restore_seconds = Histogram("hmx_stage_restore_seconds", "Restoring a partition's state", ["stage"], buckets=_FAST)
    batches_dropped = Counter("hmx_batches_dropped", "Batches that did not start where the state ends")
    materialised = Counter("hmx_materialised_records", "Records written to Redis", ["topic"])
    materialiser_lag = Gauge("hmx_materialiser_lag_records", "Offsets between what is in Redis and the topics' ends")
    materialiser_lost = Counter("hmx_materialiser_lost_records", "Offsets gone by retention before they were read")
    materialiser_unreadable = Counter("hmx_materialiser_unreadable_records", "Records left out of memory", ["topic"])
    materialiser_retries = Counter("hmx_materialiser_retries", "Retries after Kafka or Redis failed", ["cause"])
    requests = Counter("hmx_http_requests", "Requests answered", ["route", "status"])
    request_seconds = Histogram("hmx_http_request_seconds", "Time to answer", ["route"], buckets=_FAST)
    pack_tokens = Histogram(
        "hmx_pack_tokens", "Tokens used by a pack", buckets=(0, 256, 512, 1024, 2048, 4096, 8192, 16384)
    )
    events_accepted = Counter("hmx_http_events", "Events taken over HTTP, by result", ["result"])


METRICS: Final = Metrics
