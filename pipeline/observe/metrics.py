"""Every metric that a process exports, one line each. Labels are bounded: never a tenant or a session.

Counters and histograms move once a batch, a block or a request. Gauges are asked of the process when somebody reads
them (`exposition`), so that they cost nothing in between and a partition that was given up is no longer there.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from prometheus_client import Counter, Gauge, Histogram, generate_latest

from pipeline.contracts.outcomes import Outcome

_FAST: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_AGES: Final = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 2, 5, 10, 30, 60, 300, 3600)
_PLACE: Final = ["stage", "partition"]
_SPOT: Final = ["topic", "partition"]


class Metrics:
    # worker: what it does
    records = Counter("hmx_stage_records", "Source records folded and committed", ["stage"])
    outcomes = Counter(
        "hmx_stage_outcomes", "What became of them, with the reason of a rejection", ["stage", "outcome", "reason"]
    )
    effects = Counter("hmx_stage_effects", "What else the folds did, by name: artifacts, bounds", ["stage", "name"])
    transactions = Counter("hmx_stage_transactions", "Transactions: committed, aborted, fenced", ["stage", "result"])
    transaction_seconds = Histogram(
        "hmx_stage_transaction_seconds", "Fold and commit of a batch", ["stage"], buckets=_FAST
    )
    freshness_seconds = Histogram(
        "hmx_stage_freshness_seconds",
        "Append → committed, of the oldest record of each batch",
        ["stage"],
        buckets=_AGES,
    )
    fence_seconds = Histogram(
        "hmx_stage_fence_seconds", "Fencing whoever owned a partition before", ["stage"], buckets=_FAST
    )
    restore_seconds = Histogram("hmx_stage_restore_seconds", "Restoring a partition's state", ["stage"], buckets=_FAST)
    restored_records = Counter("hmx_stage_restored_records", "State records read to restore", ["stage"])
    batches_dropped = Counter("hmx_batches_dropped", "Batches that did not start where the state ends")
    batches_lost = Counter(
        "hmx_batches_lost", "Batches that were lost between the fetch and the fold, and fetched again"
    )
    # worker: how it stands
    partitions_owned = Gauge("hmx_partitions_owned", "Source partitions that this worker owns")
    loop_idle_seconds = Gauge("hmx_loop_idle_seconds", "Since the fetch loop turned last")
    ready = Gauge("hmx_partition_ready", "1: restored and at work", _PLACE)
    set_aside = Gauge("hmx_partition_set_aside", "1: its state can't be read and nothing in it is processed", _PLACE)
    position = Gauge("hmx_partition_position", "Next offset of the source partition", _PLACE)
    lag_records = Gauge("hmx_partition_lag_records", "Offsets up to the end of the source partition", _PLACE)
    lag_seconds = Gauge("hmx_partition_lag_seconds", "Age of the oldest record that is not committed, at most", _PLACE)
    batches_queued = Gauge("hmx_partition_batches_queued", "Batches fetched and not yet committed", _PLACE)
    state_records = Gauge("hmx_partition_state_records", "Records of the state", _PLACE)
    waiting = Gauge(
        "hmx_partition_waiting", "Events that wait behind gaps, or patterns that are to be compiled", _PLACE
    )
    waiting_sessions = Gauge("hmx_partition_waiting_sessions", "Sessions that wait on gaps", _PLACE)
    # materialiser
    materialised = Counter("hmx_materialised_records", "Records written to Redis", ["topic"])
    block_seconds = Histogram("hmx_materialiser_block_seconds", "Projecting and writing a block", buckets=_FAST)
    redis_freshness_seconds = Histogram(
        "hmx_materialiser_freshness_seconds",
        "Append of an event → its episode in Redis, of the oldest of each block",
        buckets=_AGES,
    )
    materialiser_lag = Gauge(
        "hmx_materialiser_lag_records", "Offsets between what is in Redis and the topic's end", _SPOT
    )
    materialiser_lag_seconds = Gauge(
        "hmx_materialiser_lag_seconds", "Age of the oldest record that is not in Redis, at most", _SPOT
    )
    materialiser_position = Gauge("hmx_materialiser_position", "Next offset to read into Redis", _SPOT)
    materialiser_lost = Counter("hmx_materialiser_lost_records", "Offsets gone by retention before they were read")
    materialiser_recreated = Counter(
        "hmx_materialiser_recreated_topics",
        "Topics created again: what the old ones held is forgotten",
        ["topic"],
    )
    materialiser_unreadable = Counter("hmx_materialiser_unreadable_records", "Records left out of memory", ["topic"])
    unsearched = Counter(
        "hmx_materialiser_unsearched", "Episodes that no search finds, for their tenant's index is full (by all fills)"
    )
    materialiser_retries = Counter(
        "hmx_materialiser_retries", "Retries: kafka or redis failed, or Redis had other positions", ["cause"]
    )
    provenance_failed = Counter(
        "hmx_provenance_failed", "Records in Redis that were found altered or lost, by kind of key", ["kind"]
    )
    memory_mended = Counter(
        "hmx_materialiser_mended", "Keys in Redis found damaged, and restored from the topics", ["kind"]
    )
    # service
    requests = Counter("hmx_http_requests", "Requests answered", ["route", "status"])
    request_seconds = Histogram("hmx_http_request_seconds", "Time to answer", ["route"], buckets=_FAST)
    pack_tokens = Histogram(
        "hmx_pack_tokens", "Tokens used by a pack", buckets=(0, 256, 512, 1024, 2048, 4096, 8192, 16384)
    )
    events_accepted = Counter("hmx_http_events", "Events taken over HTTP, by result", ["result"])
    thread_wait = Gauge("hmx_http_thread_wait_seconds", "What a request waited for the event loop and a thread, lately")
    streams = Gauge("hmx_http_streams", "Streams that are open: events out (sse), events in (websocket)", ["kind"])
    streams_ended = Counter("hmx_http_streams_ended", "Streams that the service has ended, with the reason", ["reason"])


METRICS: Final = Metrics
_lock: Final = threading.Lock()


def count_effects(stage: str, counts: Mapping[str, int]) -> None:
    """What a batch's fold has counted, outcomes apart from the rest."""
    for name, count in counts.items():
        outcome, _, reason = name.partition(".")
        if name == Outcome.REJECTED:  # counted again under its reason
            continue
        if outcome in _OUTCOMES:
            METRICS.outcomes.labels(stage, outcome, reason).inc(count)
        else:
            METRICS.effects.labels(stage, name).inc(count)


_OUTCOMES: Final = frozenset(map(str, Outcome))


def replace(gauge: Gauge, values: Mapping[tuple[Any, ...], float]) -> None:
    """What a gauge says of every place that there is now, and of no other."""
    gauge.clear()
    for labels, value in values.items():
        gauge.labels(*labels).set(value)


def exposition(refresh: Callable[[], None]) -> bytes:
    """All metrics as Prometheus reads them; `refresh` sets the gauges."""
    with _lock:
        refresh()
        return generate_latest()
