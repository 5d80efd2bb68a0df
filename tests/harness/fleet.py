"""Child processes that are killed, frozen, told to stop and started again, each by its own pid.

Enters: components. Leaves: running processes. What ends is started again half a second later, as a supervisor would,
unless it is kept down or was told to stop. Nothing outlives the fleet, however that ends.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from hmx_pipeline.local.process import SHIM, Component
from tests.support import forked
from tests.support.forked import PROGRAM, Forked

LOOK_S = 0.05
BACKOFF_S = 0.5
READY_S = 90.0
FOREVER = float("inf")


class HarnessError(Exception):
    """The harness itself, or what it needs, does not work; the message says what to look at."""


class Child:
    def __init__(self, component: Component, log: Path, *, forks: bool = False) -> None:
        self.component = component
        self.log = log
        self._forks = forks and component.argv[: 1 + len(PROGRAM)] == (sys.executable, *PROGRAM)
        self.popen: subprocess.Popen[bytes] | Forked | None = None
        self.due = 0.0
        """When it starts next; infinity keeps it down."""
        self.asked = False
        """Whoever ended it was the harness."""
        self.kill_at = FOREVER
        """Told to stop, it has until then."""

    def step(self, now: float) -> int | None:
        """Starts what is due; the exit code of what has ended."""
        if self.popen is None:
            if now >= self.due:
                self._spawn()
            return None
        code = self.popen.poll()
        if code is None and now >= self.kill_at:
            self.popen.kill()
        if code is not None:
            self.popen = None
            self.due = max(self.due, now + BACKOFF_S)
        return code

    def send(self, number: int) -> None:
        if self.popen is not None and self.popen.poll() is None:
            self.popen.send_signal(number)

    def _spawn(self) -> None:
        given = {**os.environ, **self.component.env}
        with self.log.open("ab") as log:
            log.write(f"--- started at {time.strftime('%X')}\n".encode())
            log.flush()
            if self._forks:
                self.popen = forked.start(self.component.argv[1 + len(PROGRAM) :], given, self.log)
            else:
                self.popen = subprocess.Popen(
                    [sys.executable, "-S", "-E", str(SHIM), str(os.getpid()), *self.component.argv],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=given,
                    start_new_session=True,  # ^C is the harness's to handle
                )
        self.asked, self.due, self.kill_at = False, 0.0, FOREVER


class Fleet:
    """One thread starts and watches: Linux ties a child's life to the thread that started it."""

    def __init__(self, logs: Path, *, forks: bool = False) -> None:
        """`forks`: the pipeline's processes start without their imports."""
        self._logs, self._forks = logs, forks
        self._children: dict[str, Child] = {}
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fleet", daemon=True)
        self.exits: Counter[tuple[str, int]] = Counter()
        """(name, exit code) of what ended by itself."""
        self._thread.start()

    def start(self, components: Iterable[Component]) -> None:
        with self._lock:
            for component in components:
                self._children[component.name] = Child(
                    component, self._logs / f"{component.name}.log", forks=self._forks
                )

    def names(self, kind: str) -> list[str]:
        """`worker` finds `worker-1` and `worker-2`."""
        return sorted(name for name in self._children if name.rpartition("-")[0] == kind)

    @property
    def all(self) -> list[str]:
        return list(self._children)

    def ready(self, name: str) -> bool:
        return self.running(name) and self._children[name].component.ready()

    def await_ready(self, names: Iterable[str] | None = None, seconds: float = READY_S) -> None:
        """Raises HarnessError for what is not ready by then."""
        deadline = time.monotonic() + seconds
        for name in self.all if names is None else names:
            while not self.ready(name):
                if time.monotonic() > deadline:
                    raise HarnessError(f"{name} is not ready after {seconds:.0f} s; see {self._children[name].log}")
                time.sleep(LOOK_S)

    def running(self, name: str) -> bool:
        return self._children[name].popen is not None

    def kill(self, *names: str, back_after: float = BACKOFF_S) -> None:
        """As if the machine had lost them: no clean-up of any kind."""
        self._end(names, signal.SIGKILL, back_after)

    def terminate(self, *names: str, back_after: float = BACKOFF_S) -> None:
        self._end(names, signal.SIGTERM, back_after)

    def _end(self, names: Iterable[str], number: int, back_after: float) -> None:
        with self._lock:
            for name in names:
                child = self._children[name]
                now = time.monotonic()
                child.asked, child.due, child.kill_at = True, now + back_after, now + child.component.grace
                child.send(number)

    def freeze(self, name: str) -> None:
        self._children[name].send(signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        self._children[name].send(signal.SIGCONT)

    def remove(self, name: str, seconds: float = 20.0) -> None:
        """Told to stop, and not started again. Raises HarnessError where it does not stop."""
        self._end([name], signal.SIGTERM, FOREVER)
        self._until(lambda: not self.running(name), f"{name} does not stop", seconds)
        with self._lock:
            del self._children[name]

    def stop(self) -> None:
        """At once: nothing that they hold is needed any more."""
        with self._lock:
            children = list(self._children.values())
            for child in children:
                child.asked, child.due = True, FOREVER
                child.send(signal.SIGKILL)
        self._until(lambda: all(child.popen is None for child in children), "something outlives SIGKILL", 10.0)
        self._stop.set()
        self._thread.join()

    def _until(self, done: Callable[[], bool], failure: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline:
                raise HarnessError(failure)
            time.sleep(LOOK_S)

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S):
            with self._lock:
                for name, child in self._children.items():
                    code = child.step(time.monotonic())
                    if code is not None and not child.asked:
                        self.exits[name, code] += 1
