"""Barriers: appends a marker to every events partition, and waits until it has passed both stages.

Leaves: `Ends`, the ends of the output topics after that. Raises LackingError after the timeout, which names the stage
and partitions that the barrier has not passed.
"""

import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.intake.control_records import barrier
from hmx_pipeline.kafka.clients import Cluster, consumer_config
from hmx_pipeline.kafka.control_producer import append_control
from hmx_pipeline.kafka.preflight import existing_topics
from hmx_pipeline.kafka.topic_files import KafkaRefusedError, connect
from hmx_pipeline.runtime.stored_positions import stored_positions
from hmx_pipeline.settings import Settings
from hmx_pipeline.stages.pattern_state import BarrierState, barrier_state_key, decode_state
from hmx_pipeline.topology import EVENTS, EVIDENCE, MATERIALISED, PATTERN_STATE, SESSIONS

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
            barrier_id = uuid.uuid4().hex
            on_progress("appending a barrier")
            now_ms = int(time.time() * 1000)
            markers = [(source, barrier(barrier_id, source, now_ms)) for source in range(sources)]
            try:
                append_control(settings, "barrier", markers)
            except KafkaRefusedError as error:
                raise LackingError(str(error)) from error
            _await_passage(settings, barrier_id, sources, before, deadline, on_progress)
            if _rerouted(cluster, settings.topic_prefix) == rerouted:
                break
    return output_ends(settings)


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


def output_ends(settings: Settings) -> Ends:
    """Returns the high watermarks of the materialised topics.

    The last stable offset would be too low: markers of one transaction reach its partitions one after the other.
    """
    prefix = settings.topic_prefix
    asked = {
        TopicPartition(prefix + topic, partition): OffsetSpec.latest()
        for topic, partitions in existing_topics(settings, *MATERIALISED).items()
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
    sources: int,
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
            lacking = _lacking(known, sources, len(before))
            if time.monotonic() > deadline:
                raise LackingError(lacking)
            on_progress(lacking)


def _lacking(known: Mapping[int, BarrierState], sources: int, targets: int) -> str:
    """Names the stage and the partitions that the barrier has not passed."""
    forwarded = {source for state in known.values() for source in state.seen}
    if len(forwarded) < sources:
        return f"waiting for sessions: {EVENTS} partitions {_listed(set(range(sources)) - forwarded)}"
    passed = {partition for partition, state in known.items() if state.passed}
    return f"waiting for patterns: {EVIDENCE} partitions {_listed(set(range(targets)) - passed)}"


def _listed(partitions: set[int]) -> str:
    return ", ".join(map(str, sorted(partitions)))
