"""Parallel audit: partitions are checked for conservation in several processes.

Enters: settings, the state and size of each partition. Leaves: one report per partition. Raises what the audit of a
partition raises, and BrokenProcessPool if a process is killed. Only misrouted records need a join across partitions.
"""

import multiprocessing
import signal
from collections.abc import Callable, MutableSequence, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from typing import Final

from hmx_pipeline.audit.audited_log import AuditedState, opened
from hmx_pipeline.audit.partition_conservation import PartitionReport
from hmx_pipeline.observe.allocator import keep_little
from hmx_pipeline.settings import Settings

LOOK_S: Final = 0.2
_done: MutableSequence[int]
"""In a process of the audit: offsets read so far, by partition."""


def audited(
    settings: Settings,
    stood: Sequence[AuditedState],
    sizes: Sequence[int],
    processes: int,
    on_done: Callable[[int], None],
) -> list[PartitionReport]:
    """Audits all partitions, the largest first. `on_done` receives the number of offsets read so far."""
    spawning = multiprocessing.get_context("spawn")  # a Kafka client does not survive a fork
    done = spawning.Array("q", len(sizes), lock=False)
    with ProcessPoolExecutor(processes, spawning, _begin, (done,)) as pool:
        largest_first = sorted(range(len(sizes)), key=lambda n: -sizes[n])
        reports = {n: pool.submit(_audited, settings, n, stood[n]) for n in largest_first}
        left = set(reports.values())
        try:
            while left:
                _, left = wait(left, LOOK_S)
                on_done(sum(done))
        except BaseException:  # the caller stops waiting, by Ctrl-C or another error
            for process in multiprocessing.active_children():
                process.terminate()
            raise
    return [reports[n].result() for n in range(len(sizes))]


def _begin(done: MutableSequence[int]) -> None:
    global _done  # noqa: PLW0603  a process gets shared memory only when it starts
    _done = done
    keep_little()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller ends its processes


def _audited(settings: Settings, partition: int, stood: AuditedState) -> PartitionReport:
    def on_done(count: int) -> None:
        _done[partition] = count

    with opened(settings) as log:
        return log.conserved(partition, stood, on_done=on_done)
