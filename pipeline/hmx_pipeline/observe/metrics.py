"""Prometheus metrics: every metric that a process exports, one per line. Labels never name a tenant or session.

Counters and histograms change once per batch, block or request. Gauges are set when /metrics is read, so they cost
nothing in between and lost partitions disappear.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from prometheus_client import Counter, Gauge, Histogram, generate_latest

from hmx_pipeline.contracts.outcomes import Outcome

_FAST: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_AGES: Final = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 2, 5, 10, 30, 60, 300, 3600)
_PLACE: Final = ["stage", "partition"]
_SPOT: Final = ["topic", "partition"]


class Metrics:
    # every process
    kafka_answers = Gauge("hmx_kafka_answers", "1: Kafka answers this process; 0: it waits for Kafka", ["process"])
    # counters of the worker
    records = Counter("hmx_stage_records", "Source records folded and committed", ["stage"])
    outcomes = Counter(
        "hmx_stage_outcomes", "Outcomes of these records; reason of a rejection", ["stage", "outcome", "reason"]
    )
    effects = Counter("hmx_stage_effects", "Other effects of the folds, by name: artifacts, bounds", ["stage", "name"])
    transactions = Counter("hmx_stage_transactions", "Transactions: committed, aborted, fenced", ["stage", "result"])
    transaction_seconds = Histogram(
        "hmx_stage_transaction_seconds", "Time to fold and commit a batch", ["stage"], buckets=_FAST
    )
    freshness_seconds = Histogram(
        "hmx_stage_freshness_seconds",
        "Time from append to commit, of the oldest record of each batch",
        ["stage"],
        buckets=_AGES,
    )
    fence_seconds = Histogram("hmx_stage_fence_seconds", "Time to fence a previous owner", ["stage"], buckets=_FAST)
    restore_seconds = Histogram("hmx_stage_restore_seconds", "Time to restore a partition", ["stage"], buckets=_FAST)
    restored_records = Counter("hmx_stage_restored_records", "State records read while restoring", ["stage"])
    batches_dropped = Counter("hmx_batches_dropped", "Batches that did not start at the stored position")
    batches_lost = Counter("hmx_batches_lost", "Batches lost between fetch and fold, and fetched again")
    # gauges of the worker
    partitions_owned = Gauge("hmx_partitions_owned", "Source partitions owned by this worker")
    loop_idle_seconds = Gauge("hmx_loop_idle_seconds", "Seconds since the fetch loop last ran")
    ready = Gauge("hmx_partition_ready", "1: restored and processing", _PLACE)
    set_aside = Gauge("hmx_partition_set_aside", "1: not processed, its state can't be read", _PLACE)
    position = Gauge("hmx_partition_position", "Next offset of the source partition", _PLACE)
    lag_records = Gauge("hmx_partition_lag_records", "Offsets up to the end of the source partition", _PLACE)
    lag_seconds = Gauge("hmx_partition_lag_seconds", "Age of the oldest uncommitted record, at most", _PLACE)
    batches_queued = Gauge("hmx_partition_batches_queued", "Batches fetched but not committed", _PLACE)
    state_records = Gauge("hmx_partition_state_records", "State records of the partition", _PLACE)
    waiting = Gauge("hmx_partition_waiting", "Events waiting behind gaps, or patterns waiting to be compiled", _PLACE)
    waiting_sessions = Gauge("hmx_partition_waiting_sessions", "Sessions waiting at a gap", _PLACE)
    # materialiser
    materialised = Counter("hmx_materialised_records", "Records written to Redis", ["topic"])
    block_seconds = Histogram("hmx_materialiser_block_seconds", "Time to project and write a block", buckets=_FAST)
    redis_freshness_seconds = Histogram(
        "hmx_materialiser_freshness_seconds",
        "Time from append of an event to its episode in Redis, of the oldest of each block",
        buckets=_AGES,
    )
    materialiser_lag = Gauge("hmx_materialiser_lag_records", "Offsets between Redis and the end of the topic", _SPOT)
    materialiser_lag_seconds = Gauge(
        "hmx_materialiser_lag_seconds", "Age of the oldest record not in Redis, at most", _SPOT
    )
    materialiser_position = Gauge("hmx_materialiser_position", "Next offset to read into Redis", _SPOT)
    materialiser_lost = Counter("hmx_materialiser_lost_records", "Offsets deleted by retention before they were read")
    materialiser_recreated = Counter(
        "hmx_materialiser_recreated_topics",
        "Topics deleted and created again; records of the old ones are dropped",
        ["topic"],
    )
    materialiser_unreadable = Counter("hmx_materialiser_unreadable_records", "Unreadable records, left out", ["topic"])
    unsearched = Counter(
        "hmx_materialiser_unsearched", "Episodes not searchable because their tenant's index is full (over all fills)"
    )
    materialiser_retries = Counter(
        "hmx_materialiser_retries", "Retries because Kafka or Redis failed, or Redis held other positions", ["cause"]
    )
    provenance_failed = Counter(
        "hmx_provenance_failed", "Records in Redis found altered or lost, by kind of key", ["kind"]
    )
    memory_mended = Counter("hmx_materialiser_mended", "Damaged Redis keys restored from the topics", ["kind"])
    forgotten = Counter("hmx_forgotten_episodes", "Episodes that a tenant's retention took out of Redis", ["policy"])
    archived = Counter("hmx_archived_records", "Records written to the archive", ["topic"])
    archive_lost = Counter("hmx_archive_lost_records", "Offsets deleted by retention before they were archived")
    archived_at = Gauge("hmx_archived_timestamp_seconds", "When the archive last held all that the topics did")
    # sources
    source_events = Counter("hmx_source_events", "Messages of a queue that Kafka has, repeated ones too")
    source_refused = Counter("hmx_source_refused", "Messages of a queue that were refused for good", ["reason"])
    source_retries = Counter("hmx_source_retries", "Retries because the queue gave nothing or refused")
    # service
    requests = Counter("hmx_http_requests", "Requests answered", ["route", "status"])
    request_seconds = Histogram("hmx_http_request_seconds", "Time to answer", ["route"], buckets=_FAST)
    pack_tokens = Histogram(
        "hmx_pack_tokens", "Tokens used by a pack", buckets=(0, 256, 512, 1024, 2048, 4096, 8192, 16384)
    )
    events_accepted = Counter("hmx_http_events", "Events received over HTTP, by result", ["result"])
    hooks = Counter("hmx_http_hooks", "Hooks of coding agents answered, by hook and answer", ["hook", "answer"])
    otel = Counter("hmx_http_otel_records", "Spans and log records received, by what became of them", ["result"])
    thread_wait = Gauge("hmx_http_thread_wait_seconds", "Recent wait of requests for the event loop and a thread")
    streams = Gauge("hmx_http_streams", "Open streams: outgoing events (sse), incoming events (websocket)", ["kind"])
    streams_ended = Counter("hmx_http_streams_ended", "Streams ended by the service, by reason", ["reason"])


METRICS: Final = Metrics
_lock: Final = threading.Lock()


def count_effects(stage: str, counts: Mapping[str, int]) -> None:
    """Counts the effects of a batch's fold, outcomes apart from the rest."""
    for name, count in counts.items():
        outcome, _, reason = name.partition(".")
        if name == Outcome.REJECTED:  # also counted under its reason
            continue
        if outcome in _OUTCOMES:
            METRICS.outcomes.labels(stage, outcome, reason).inc(count)
        else:
            METRICS.effects.labels(stage, name).inc(count)


_OUTCOMES: Final = frozenset(map(str, Outcome))


def replace(gauge: Gauge, values: Mapping[tuple[Any, ...], float]) -> None:
    """Replaces all label sets of a gauge, so lost partitions disappear."""
    gauge.clear()
    for labels, value in values.items():
        gauge.labels(*labels).set(value)


def exposition(refresh: Callable[[], None]) -> bytes:
    """Returns all metrics in Prometheus format; `refresh` sets the gauges."""
    with _lock:
        refresh()
        return generate_latest()
