"""Parallel audit: partitions are checked for conservation in several processes.

Enters: settings, the state and size of each partition. Leaves: one report per partition. Raises what the audit of a
partition raises, and RuntimeError if a process is killed. Only misrouted records need a join across partitions.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from typing import IO, Any, Final

from hmx_pipeline.audit.audited_log import AuditedState, opened
from hmx_pipeline.audit.partition_report import PartitionReport
from hmx_pipeline.observe.allocator import collect_seldom
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS

LOOK_S: Final = 0.2


def audited(
    settings: Settings,
    stood: Sequence[AuditedState],
    sizes: Sequence[int],
    processes: int,
    on_done: Callable[[int], None],
) -> list[PartitionReport]:
    """Audits all partitions. `on_done` receives the number of offsets read so far."""
    done = [0] * processes
    started: list[subprocess.Popen[bytes]] = []
    with ThreadPoolExecutor(processes) as threads:
        asked = [
            threads.submit(_ask, settings, {n: stood[n] for n in share}, started, done, place)
            for place, share in enumerate(shares(sizes, processes))
        ]
        left = set(asked)
        try:
            while left:
                _, left = wait(left, LOOK_S)
                on_done(sum(done))
        except BaseException:  # the caller stops waiting, by Ctrl-C or another error
            for process in started:
                process.terminate()
            raise
    reports = {n: report for one in asked for n, report in one.result().items()}
    return [reports[n] for n in range(len(stood))]


def shares(sizes: Sequence[int], processes: int) -> list[list[int]]:
    """Assigns each partition, the largest first, to the process with the fewest offsets."""
    shares: list[list[int]] = [[] for _ in range(processes)]
    for n in sorted(range(len(sizes)), key=lambda n: -sizes[n]):
        min(shares, key=lambda share: sum(sizes[other] for other in share)).append(n)
    return shares


def _ask(
    settings: Settings,
    stood: Mapping[int, AuditedState],
    started: list[subprocess.Popen[bytes]],
    done: list[int],
    place: int,
) -> dict[int, PartitionReport]:
    # A Kafka client does not survive a fork, and this process has imported more than an audit needs.
    command = [sys.executable, "-m", "hmx_pipeline.audit.parallel_audit"]
    small = {**os.environ, "MALLOC_ARENA_MAX": "2"}  # else glibc doubles the memory for client threads
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=small) as process:
        started.append(process)
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError), process.stdin:  # if the process has already ended, its missing answer says so
            pickle.dump((settings, stood), process.stdin)
        while True:
            try:
                said: Any = pickle.load(process.stdout)  # noqa: S301  our own process
            except (EOFError, pickle.UnpicklingError):
                raise RuntimeError(f"an audit process ended with code {process.wait()}; run it again") from None
            if isinstance(said, Exception):
                raise said
            if not isinstance(said, int):
                return dict(said)
            done[place] = said


def _answer(source: IO[bytes], answers: IO[bytes]) -> None:
    """Audits the requested partitions and reports progress."""

    def say(said: Any) -> None:
        pickle.dump(said, answers)
        answers.flush()

    def say_done(before: int, done: int) -> None:
        say(before + done)

    settings, stood = pickle.load(source)  # noqa: S301  our own process
    reports: dict[int, PartitionReport] = {}
    before = 0
    try:
        with opened(settings) as log:
            for n, each in stood.items():
                reports[n] = log.conserved(n, each, on_done=partial(say_done, before))
                low, high = log.marks(EVENTS, n)
                before += high - low
    except Exception as error:  # noqa: BLE001  raised again in the parent process
        say(error)
    else:
        say(reports)


if __name__ == "__main__":
    collect_seldom()
    with suppress(KeyboardInterrupt, BrokenPipeError):  # the parent process is gone
        _answer(sys.stdin.buffer, sys.stdout.buffer)
