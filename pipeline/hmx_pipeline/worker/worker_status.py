"""Worker status: health checks and gauges of a worker, computed when they are asked for.

Enters: the runner's partitions. Leaves: live, started and ready, each with its reason, for `observe/health_server`;
gauges of lag, position and backlog by partition. Reads what the event loop writes from another thread, so numbers may
be slightly old. Never raises.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from faust.types import TP

from hmx_pipeline.observe.freshness import Behind, behind, verdict
from hmx_pipeline.observe.health_server import Answer
from hmx_pipeline.observe.metrics import METRICS, replace
from hmx_pipeline.topology import SESSIONS
from hmx_pipeline.worker.partition import OwnedPartition
from hmx_pipeline.worker.runner import Runner

STUCK_S: Final = 60.0


@dataclass
class _Seen:
    place: tuple[int, int]
    """Position and epoch."""
    moved: float
    """Monotonic time when it last advanced or was idle."""
    caught_up_ms: int = 0
    """Time when its log was last read to the end (ms)."""


class ProgressWatch:
    """Observes partitions from the event loop: when each last advanced, and when it was caught up."""

    def __init__(self) -> None:
        self._seen: dict[TP, _Seen] = {}

    def look(self, partitions: Iterable[OwnedPartition]) -> None:
        now, now_ms, before = time.monotonic(), _now_ms(), self._seen
        found: dict[TP, _Seen] = {}
        for partition in partitions:
            place = (partition.position, partition.epoch)
            seen = before.get(partition.tp) or _Seen(place, now)
            at_end = caught_up(partition)
            if seen.place[1] != partition.epoch:  # restored: the known log end is outdated
                seen.caught_up_ms = 0
            # Fencing and restoring have their own time limits.
            if at_end or not partition.ready or seen.place != place:
                seen.place, seen.moved = place, now
            if at_end:
                seen.caught_up_ms = now_ms
            found[partition.tp] = seen
        self._seen = found

    def stuck_s(self, tp: TP) -> float:
        """Returns for how long the partition has had work without advancing."""
        seen = self._seen.get(tp)
        return time.monotonic() - seen.moved if seen is not None else 0.0

    def behind(self, partition: OwnedPartition) -> Behind:
        """Returns the consumer lag of a restored partition."""
        end, seen = partition.end, self._seen.get(partition.tp)
        since = [partition.executor.clock, seen.caught_up_ms if seen is not None else 0]
        if partition.busy is None and partition.queue:
            since.append(partition.queue[0].records[0].timestamp)
        high = partition.position if end is None or caught_up(partition) else end.high
        return behind(_name(partition), partition.position, high, since, _now_ms())


def caught_up(partition: OwnedPartition) -> bool:
    """Returns whether all is committed and fetched. Compares fetch positions, since markers at the end are no
    records."""
    end = partition.end
    at_end = end is not None and end.position >= end.high
    return partition.ready and at_end and not partition.queued and not partition.queue and partition.busy is None


class WorkerHealth:
    """Health checks of the worker; `runner` is set once Kafka has answered. `silent` returns why Kafka does not."""

    def __init__(self, most_behind_s: float, silent: Callable[[], str | None]) -> None:
        self._most_behind_s = most_behind_s
        self._silent = silent
        self.watch = ProgressWatch()
        self.runner: Runner | None = None

    def live(self) -> Answer:
        if self.runner is None:
            return True, "waiting for Kafka"
        idle = time.monotonic() - self.runner.last_progress
        if idle > STUCK_S:
            return False, f"the fetch loop has not run for {idle:.0f} s"
        stuck = [
            f"{_name(partition)}: no progress for {seconds:.0f} s at offset {partition.position}"
            for partition in self._partitions()
            if (seconds := self.watch.stuck_s(partition.tp)) > STUCK_S
        ]
        return not stuck, "\n".join(stuck) or f"the fetch loop last ran {idle:.1f} s ago"

    def started(self) -> Answer:
        if self.runner is None:
            return False, "waiting for Kafka and its topics: the log says why"
        if not self.runner.was_assigned:
            return False, "Kafka has not assigned any partitions yet"
        partitions = self._partitions()
        restoring = [f"{_name(p)}: restoring" for p in partitions if not p.ready and p.set_aside is None]
        return not restoring, "\n".join(restoring) or f"{len(partitions)} partitions owned and restored"

    def ready(self) -> Answer:
        if silent := self._silent():
            return False, silent
        started, why = self.started()
        if not started:
            return False, why
        if aside := [f"{_name(p)}: {p.set_aside}" for p in self._partitions() if p.set_aside is not None]:
            return False, "\n".join(aside)
        unknown = [f"{_name(p)}: the end of its log is not known yet" for p in self._partitions() if p.end is None]
        if unknown:
            return False, "\n".join(unknown)
        fresh, how = verdict([self.watch.behind(partition) for partition in self._partitions()], self._most_behind_s)
        return fresh, f"{why}\n{how}" if fresh else how

    def refresh(self) -> None:
        self._silent()
        if self.runner is None:
            return
        METRICS.loop_idle_seconds.set(time.monotonic() - self.runner.last_progress)
        owned = {(p.stage.name, str(p.tp.partition)): p for p in self._partitions()}
        restored = {place: p for place, p in owned.items() if p.ready}
        lags = {place: self.watch.behind(p) for place, p in restored.items()}
        backlogs = {place: p.executor.fold.backlog for place, p in restored.items()}
        replace(METRICS.ready, {place: float(p.ready) for place, p in owned.items()})
        replace(METRICS.set_aside, {place: float(p.set_aside is not None) for place, p in owned.items()})
        replace(METRICS.position, {place: lag.position for place, lag in lags.items()})
        replace(METRICS.lag_records, {place: lag.records for place, lag in lags.items()})
        replace(METRICS.lag_seconds, {place: lag.seconds for place, lag in lags.items()})
        replace(METRICS.batches_queued, {place: p.queued for place, p in restored.items()})
        replace(METRICS.state_records, {place: p.executor.records for place, p in restored.items()})
        replace(METRICS.waiting, {place: backlog.waiting for place, backlog in backlogs.items()})
        sessions = {place: backlog.sessions for place, backlog in backlogs.items() if place[0] == SESSIONS.name}
        replace(METRICS.waiting_sessions, sessions)

    def _partitions(self) -> list[OwnedPartition]:
        return list(self.runner.partitions.values()) if self.runner is not None else []


def _name(partition: OwnedPartition) -> str:
    return f"{partition.tp.topic}/{partition.tp.partition}"


def _now_ms() -> int:
    return int(time.time() * 1000)
