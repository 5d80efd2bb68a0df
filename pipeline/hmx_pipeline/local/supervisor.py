"""Supervisor: starts components stage by stage, restarts those that exit with backoff, stops them in reverse.

Enters: `Component`s by stage (of starting, not of the pipeline), and a folder for logs. Leaves: running `Process`es,
whose changes `on_change` is told. Components of one stage start together; the next stage starts when all are ready.
`start` raises StackError if a component does not become ready, after stopping everything.
"""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hmx_pipeline.local.process import Component, PortTakenError, Process, StackError

TICK_SECONDS, SETTLED_SECONDS = 0.05, 0.5
EXITS_BEFORE_READY = 3  # exits before a first readiness that end the attempt

Stages = Sequence[Sequence[Component]]


class Supervisor:
    """Runs all processes from one thread, because Linux ties a child's life to the thread that started it."""

    def __init__(self, stages: Stages, logs: Path, on_change: Callable[[list[Process]], None] = lambda _: None) -> None:
        self._stages = [[Process(component, logs / f"{component.name}.log") for component in stage] for stage in stages]
        self.processes = [process for stage in self._stages for process in stage]
        self._on_change = on_change
        self._stop = threading.Event()
        self._settled = threading.Event()  # all started, or given up
        # Replaces join: before Python 3.13 a join interrupted by a signal considers the thread ended.
        self._ended = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    def start(self) -> None:
        """Starts everything and returns when all is ready."""
        self._thread.start()
        try:
            while not self._settled.wait(1.0):
                pass
        except BaseException:  # Ctrl-C must leave nothing running either
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
        """Blocks until supervision ends; raises its error, if any."""
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
            while not self._stop.wait(self._tick_s()):
                self._step(self.processes)
        except Exception as error:  # noqa: BLE001  raised again in `start`
            self._error = error
        finally:
            try:
                self._stop_all()
            finally:
                self._settled.set()
                self._ended.set()

    def _tick_s(self) -> float:
        return SETTLED_SECONDS if all(process.settled for process in self.processes) else TICK_SECONDS

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
            raise PortTakenError(f"{process.name} does not start because its port is taken: read {process.log}")
        most = 1 if process.component.once else EXITS_BEFORE_READY
        if process.failures >= most:
            raise StackError(f"{process.name} does not start. The end of {process.log}:\n{process.tail()}")
        if elapsed > process.component.start_timeout:
            raise StackError(
                f"{process.name} is not ready after {elapsed:.0f} s. The end of its log:\n{process.tail()}"
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
