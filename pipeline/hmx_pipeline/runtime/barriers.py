"""Barriers: appends a marker to events partitions, and waits until it has passed both stages.

A marker in every partition asks for all sessions. A tenant's own asks for its sessions: it stands where these are, and
writes nothing for others. Leaves: `Ends`, the ends of the output topics after that. Raises LackingError after the
timeout, which names the stage and partitions that the barrier has not passed.
"""

import time
import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from hmx_pipeline.contracts.keys import tenant_partition
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.intake.control_records import barrier
from hmx_pipeline.kafka.clients import Cluster, consumer_config, read_partition
from hmx_pipeline.kafka.control_producer import append_control
from hmx_pipeline.kafka.preflight import existing_topics
from hmx_pipeline.kafka.topic_files import KafkaRefusedError, connect
from hmx_pipeline.runtime.stored_positions import stored_position, stored_positions
from hmx_pipeline.settings import Settings
from hmx_pipeline.stages.pattern_keys import barrier_state_key
from hmx_pipeline.stages.pattern_state import BarrierState, decode_state
from hmx_pipeline.topology import EPISODES, EVENTS, EVIDENCE, MATERIALISED, PATTERN_STATE, SESSIONS

Ends = Mapping[str, int]
"""topic/partition → offset, without the topic prefix."""
Progress = Callable[[str], None]
POLL_S: Final = 0.1
ANSWER_S: Final = 10.0


class LackingError(TimeoutError):
    """The barrier has not passed everywhere in time."""


def silent(_: str) -> None:
    """Ignores progress."""


def wait_for_all(
    settings: Settings, positions: Callable[[], Ends], timeout: float = 120.0, on_progress: Progress = silent
) -> None:
    """Waits for both stages, then for a reader at `positions`. Raises LackingError."""
    deadline = time.monotonic() + timeout
    ends = wait_for_stages(settings, timeout, on_progress)
    wait_for_reader(ends, positions, max(0.0, deadline - time.monotonic()), on_progress)


def wait_for_stages(settings: Settings, timeout: float = 120.0, on_progress: Progress = silent) -> Ends:
    """Appends a barrier, and returns the output ends once both stages have passed it.

    Events behind a gap, and barriers behind them, wait for the reorder window. A record rerouted meanwhile is behind
    the barrier in its new partition, so a second barrier follows; one is enough, since records are rerouted once.
    """
    deadline = time.monotonic() + timeout
    partitions = existing_topics(settings, EVENTS, EVIDENCE, PATTERN_STATE, *MATERIALISED)
    sources, targets = partitions[EVENTS], partitions[EVIDENCE]
    state = settings.topic_prefix + PATTERN_STATE
    with closing(Cluster(settings.require_kafka())) as cluster:
        rerouted = _rerouted(cluster, settings.topic_prefix)
        for _ in range(2):
            before = [TopicPartition(state, p, cluster.watermarks(state, p).high) for p in range(targets)]
            on_progress("appending a barrier")
            barrier_id = _append_barrier(settings, range(sources))
            _await_passage(settings, barrier_id, range(sources), before, deadline, on_progress)
            if _rerouted(cluster, settings.topic_prefix) == rerouted:
                break
    return output_ends(settings)


def wait_for_tenant(
    settings: Settings,
    tenant_id: str,
    sources: Callable[[], Collection[int]],
    positions: Callable[[], Ends],
    timeout: float,
) -> None:
    """Waits until what the log now holds of a tenant is compiled, and known to a reader at `positions`. Raises
    LackingError.

    `sources`: the events partitions in which the reader finds new episodes of the tenant. Only these get a marker, and
    each forwards one record, so others' sessions and partitions cost nothing.
    """
    deadline = time.monotonic() + timeout
    partitions = existing_topics(settings, EVENTS, EVIDENCE, PATTERN_STATE, *MATERIALISED)
    target = tenant_partition(tenant_id, partitions[EVIDENCE])
    with closing(Cluster(settings.require_kafka())) as cluster:
        for _ in range(2):  # what the first look finds rerouted is at the log's end by the second
            _await_sessions(cluster, settings, partitions[EVENTS], deadline)
        wait_for_reader(output_ends(settings, EPISODES), positions, deadline - time.monotonic())
        if places := sorted(sources()):
            state = settings.topic_prefix + PATTERN_STATE
            before = [TopicPartition(state, target, cluster.watermarks(state, target).high)]
            barrier_id = _append_barrier(settings, places, tenant_id)
            _await_passage(settings, barrier_id, places, before, deadline, silent)
    own = {where: end for where, end in output_ends(settings).items() if where.endswith(f"/{target}")}
    wait_for_reader(own, positions, deadline - time.monotonic())


def _append_barrier(settings: Settings, places: Collection[int], tenant_id: str = "") -> str:
    """Appends a marker to these partitions, and returns its id."""
    barrier_id, now_ms = uuid.uuid4().hex, int(time.time() * 1000)
    markers = [(place, barrier(barrier_id, place, now_ms, tenant_id, len(places))) for place in places]
    try:
        append_control(settings, "barrier", markers)
    except KafkaRefusedError as error:
        raise LackingError(str(error)) from error
    return barrier_id


def _await_sessions(cluster: Cluster, settings: Settings, partitions: int, deadline: float) -> None:
    """Waits until the sessions stage has processed what the log holds now."""
    topic = settings.topic_prefix + EVENTS
    ends = {partition: cluster.watermarks(topic, partition) for partition in range(partitions)}
    while True:
        for partition, marks in list(ends.items()):
            stored = stored_position(cluster, SESSIONS, settings.topic_prefix, partition)
            left = marks._replace(low=max(marks.low, stored.position if stored is not None else 0))
            # Above the last record there may be a producer's transaction marker, which no position passes.
            if not any(True for _ in read_partition(cluster.kafka, topic, partition, left)):
                del ends[partition]
        if not ends:
            return
        if time.monotonic() > deadline:
            raise LackingError(f"waiting for sessions: {EVENTS} partitions {_listed(set(ends))}")
        time.sleep(POLL_S)


def _rerouted(cluster: Cluster, prefix: str) -> int:
    """Returns the number of records rerouted so far."""
    positions = stored_positions(cluster, SESSIONS, prefix)
    return sum(position.counts.get(Outcome.REROUTED, 0) for position in positions if position is not None)


def wait_for_reader(
    ends: Ends, positions: Callable[[], Ends], timeout: float = 120.0, on_progress: Progress = silent
) -> None:
    """Waits until a reader of the outputs, such as Redis, has reached their ends."""
    deadline = time.monotonic() + timeout
    while True:
        at = positions()
        behind = {where: end - at.get(where, 0) for where, end in ends.items() if at.get(where, 0) < end}
        if not behind:
            return
        places = ", ".join(sorted(behind))
        if time.monotonic() > deadline:
            raise LackingError(f"Redis has not read {places} to the end: {sum(behind.values())} offsets to go")
        on_progress(f"waiting for Redis: {sum(behind.values())} offsets of {len(behind)} partitions")
        time.sleep(POLL_S)


def output_ends(settings: Settings, *topics: str) -> Ends:
    """Returns the high watermarks of the materialised topics, or of some of them.

    The last stable offset would be too low: markers of one transaction reach its partitions one after the other.
    """
    prefix = settings.topic_prefix
    asked = {
        TopicPartition(prefix + topic, partition): OffsetSpec.latest()
        for topic, partitions in existing_topics(settings, *(topics or MATERIALISED)).items()
        for partition in range(partitions)
    }
    admin = connect(settings.require_kafka())
    found = admin.list_offsets(asked, request_timeout=ANSWER_S)
    return {
        f"{where.topic.removeprefix(prefix)}/{where.partition}": end.result().offset for where, end in found.items()
    }


def _await_passage(
    settings: Settings,
    barrier_id: str,
    sources: Collection[int],
    before: list[TopicPartition],
    deadline: float,
    on_progress: Progress,
) -> None:
    """Reads the barrier's records in the state topic of the patterns stage."""
    key = barrier_state_key(barrier_id)
    known: dict[int, BarrierState] = {}
    consumer = Consumer(consumer_config(settings.require_kafka()))
    with closing(consumer):
        consumer.assign(before)
        while True:
            for message in consumer.consume(1_000, POLL_S):
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                value, partition = message.value(), message.partition()
                if error is None and value is not None and message.key() == key.encode():
                    assert partition is not None
                    known[partition] = decode_state(key, value)
            if sum(state.passed for state in known.values()) == len(before):
                return
            lacking = _lacking(known, sources, [place.partition for place in before])
            if time.monotonic() > deadline:
                raise LackingError(lacking)
            on_progress(lacking)


def _lacking(known: Mapping[int, BarrierState], sources: Collection[int], targets: Collection[int]) -> str:
    """Names the stage and the partitions that the barrier has not passed."""
    forwarded = {source for state in known.values() for source in state.seen}
    if len(forwarded) < len(sources):
        return f"waiting for sessions: {EVENTS} partitions {_listed(set(sources) - forwarded)}"
    passed = {partition for partition, state in known.items() if state.passed}
    return f"waiting for patterns: {EVIDENCE} partitions {_listed(set(targets) - passed)}"


def _listed(partitions: set[int]) -> str:
    return ", ".join(map(str, sorted(partitions)))
