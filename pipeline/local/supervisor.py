"""Keeps components running: starts them stage by stage, restarts with backoff what exits, stops them in reverse order.

Enters: stages of components; those of one stage start together, the next stage when all of them are ready. Leaves:
their processes. `start` fails with StackError when a component can't be brought to readiness; everything started is
stopped then.
"""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pipeline.local.process import Component, PortTakenError, Process, StackError

TICK_SECONDS = 0.05
EXITS_BEFORE_READY = 3  # so many exits of a component that was never ready, and starting is given up

Stages = Sequence[Sequence[Component]]


class Supervisor:
    """One thread starts, watches and stops every process: Linux ties a child's life to the thread that started it."""

    def __init__(self, stages: Stages, logs: Path, on_change: Callable[[list[Process]], None] = lambda _: None) -> None:
        self._stages = [[Process(component, logs / f"{component.name}.log") for component in stage] for stage in stages]
        self.processes = [process for stage in self._stages for process in stage]
        self._on_change = on_change
        self._stop = threading.Event()
        self._settled = threading.Event()  # started, or given up
        # Waited for instead of joining: before Python 3.13 a join that a signal interrupts takes the thread for ended.
        self._ended = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    def start(self) -> None:
        """Start everything and return when all of it is ready."""
        self._thread.start()
        try:
            while not self._settled.wait(1.0):
                pass
        except BaseException:  # ^C too leaves nothing behind
            self.stop()
            raise
        if self._error is not None:
            self._ended.wait()
            raise self._error

    def stop(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._ended.wait()

    def watch(self) -> None:
        """Block until the supervising ends; raise what ended it, if that was not `stop`."""
        while not self._ended.wait(1.0):
            pass
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            for reached, stage in enumerate(self._stages, start=1):
                watched = [process for stage in self._stages[:reached] for process in stage]
                if not self._bring_up(stage, watched):
                    return
            self._settled.set()
            while not self._stop.wait(TICK_SECONDS):
                self._step(self.processes)
        except Exception as error:  # noqa: BLE001 - carried to whoever called start
            self._error = error
        finally:
            try:
                self._stop_all()
            finally:
                self._settled.set()
                self._ended.set()

    def _bring_up(self, stage: list[Process], watched: list[Process]) -> bool:
        started = time.monotonic()
        while not all(process.settled for process in stage):
            if self._stop.wait(TICK_SECONDS):
                return False
            self._step(watched)
            for process in stage:
                if not process.settled:
                    self._check(process, time.monotonic() - started)
        return True

    def _check(self, process: Process, elapsed: float) -> None:
        if process.found_its_port_taken():
            raise PortTakenError(f"{process.name} does not start, for its port is taken; see {process.log}")
        most = 1 if process.component.once else EXITS_BEFORE_READY
        if process.failures >= most:
            raise StackError(f"{process.name} does not start; the end of {process.log}:\n{process.tail()}")
        if elapsed > process.component.start_timeout:
            raise StackError(
                f"{process.name} is not ready yet after {elapsed:.0f} s; the end of its log:\n{process.tail()}"
            )

    def _step(self, processes: list[Process]) -> None:
        now = time.monotonic()
        changed = [process.step(now) for process in processes]
        if any(changed):
            self._on_change(self.processes)

    def _stop_all(self) -> None:
        for stage in reversed(self._stages):
            for process in stage:
                process.terminate()
            for process in stage:
                process.wait_or_kill(time.monotonic() + process.component.grace)
        self._on_change(self.processes)
