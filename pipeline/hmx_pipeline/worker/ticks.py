"""Ticks: small records that the owner appends when the log is silent and a timer is due.

Enters: the owned partitions, with their next timer and the end of their log. Leaves: a record in each silent partition;
in the events topic it is signed with the control key. So time comes from the log even in silence, and a replay repeats
it. A doubled tick is harmless.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from confluent_kafka import Producer

from hmx_pipeline.contracts.evidence import EvidenceControl
from hmx_pipeline.contracts.headers import AUTHENTICATION, Headers, tick_headers
from hmx_pipeline.intake.control_records import signature, tick
from hmx_pipeline.kafka.clients import sendable
from hmx_pipeline.kafka.publisher import named
from hmx_pipeline.topology import SESSIONS, Stage
from hmx_pipeline.worker.partition import OwnedPartition
from hmx_pipeline.worker.runner import Runner
from hmx_pipeline.worker.worker_status import ProgressWatch

SILENCE_S: Final = 0.25
LOOK_S: Final = 0.1
QUIET_S: Final = 5.0
QUIET_LOOK_S: Final = 1.0
"""Once nothing has come for so long, timers are looked at that often."""


def due_for_tick(partition: OwnedPartition, now: float) -> bool:
    """Returns whether to append a tick; `now` is monotonic. The first tick after a restore is unconditional, because
    the elapsed time is unknown."""
    due = partition.executor.next_due
    if not partition.ready or partition.queue or partition.busy is not None or due is None:
        return False
    if partition.end is None or partition.end.position < partition.end.high:
        return False
    quiet = now - (partition.last_record if partition.last_record is not None else partition.restored_at)
    if quiet < SILENCE_S or now - partition.last_tick < SILENCE_S:
        return False
    return partition.last_record is None or partition.executor.clock + quiet * 1000 >= due


def make_tick(stage: Stage, partition: int, control_key: str, now_ms: int) -> tuple[bytes, Headers]:
    if stage is SESSIONS:
        value = tick(partition, now_ms)
        return value, [*named(value)[1], (AUTHENTICATION, signature(control_key, value))]
    value = EvidenceControl(kind="tick", partition=partition).to_json()
    return value, tick_headers(stage.source, partition, now_ms)


def ticker(producer: Producer, control_key: str, watch: ProgressWatch) -> Callable[[Runner], Coroutine[Any, Any, None]]:
    async def run(runner: Runner) -> None:
        while True:
            if runner.quiet_s() <= QUIET_S or await runner.stirred(QUIET_LOOK_S):
                await asyncio.sleep(LOOK_S)
            producer.poll(0)
            now = time.monotonic()
            watch.look(runner.partitions.values())
            for partition in list(runner.partitions.values()):
                if due_for_tick(partition, now):
                    partition.last_tick = now
                    tp = partition.tp
                    value, headers = make_tick(partition.stage, tp.partition, control_key, int(time.time() * 1000))
                    producer.produce(tp.topic, value, b"tick", tp.partition, headers=sendable(headers))

    return run
