"""One supervised child process: its start, readiness probe, restarts with backoff, and state.

Enters: a `Component` (command and readiness probe). Leaves: a `Process` with its state. Raises StackError.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO

SHIM = Path(__file__).with_name("child_shim.py")
BACKOFF_FIRST, BACKOFF_MOST = 0.5, 30.0
STEADY_SECONDS = 30.0  # an exit after being ready this long starts the backoff anew
TAIL_LINES = 15
PORT_TAKEN = b"address already in use"  # as printed by Kafka, Redis and uvicorn

Probe = Callable[[], bool]


class StackError(Exception):
    """The local stack cannot do what was asked; the message is for the user."""


class PortTakenError(StackError):
    """A chosen port was taken before it was used; a retry with other ports may succeed."""


class State(StrEnum):
    WAITING = "waiting"  # not started yet, or its restart is due later
    STARTING = "starting"
    READY = "ready"
    DONE = "done"  # a `once` component that succeeded
    STOPPED = "stopped"


@dataclass(frozen=True)
class Component:
    """A command to run. `once`: it must end before the next stage starts. `grace`: seconds from SIGTERM to SIGKILL."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    without: frozenset[str] = frozenset()
    """Variables that it does not inherit."""
    ready: Probe = lambda: True
    slack_s: float = 0.0
    """By how much its timers may be late once it is ready (Linux): it then wakes less often while nothing happens."""
    once: bool = False
    start_timeout: float = 90.0
    grace: float = 10.0


@dataclass
class Process:
    component: Component
    log: Path
    state: State = State.WAITING
    pid: int | None = None
    restarts: int = 0
    failures: int = 0  # consecutive exits, for the backoff
    due: float = 0.0  # time of the next start while waiting
    _since: float = 0.0
    _popen: subprocess.Popen[bytes] | None = None
    _log_from: int = 0  # log offset of its last start

    @property
    def name(self) -> str:
        return self.component.name

    @property
    def settled(self) -> bool:
        return self.state in (State.READY, State.DONE)

    def step(self, now: float) -> bool:
        """Starts it if due, detects an exit, probes readiness. Returns whether its state changed."""
        before = (self.state, self.pid)
        if self.state is State.WAITING and now >= self.due:
            self._spawn(now)
        elif self.state in (State.STARTING, State.READY) and self._popen is not None:
            code = self._popen.poll()
            if code is not None:
                self._exited(code, now)
            elif self.state is State.STARTING and not self.component.once and self.component.ready():
                _wait_loosely(self._popen.pid, self.component.slack_s)
                self.state, self._since = State.READY, now
            elif self.state is State.READY and now - self._since > STEADY_SECONDS:
                self.failures = 0
        return before != (self.state, self.pid)

    def terminate(self) -> None:
        if self._popen is not None and self._popen.poll() is None:
            self._popen.send_signal(signal.SIGTERM)

    def wait_or_kill(self, deadline: float) -> None:
        if self._popen is not None:
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(max(0.0, deadline - time.monotonic()))
            self._kill_group(self._popen.pid)
            self._popen.wait()
        self.state, self.pid, self._popen = State.STOPPED, None, None

    def found_its_port_taken(self) -> bool:
        """Returns whether it ended because its port was taken."""
        if not self.failures or not self.log.exists():
            return False
        return PORT_TAKEN in self.log.read_bytes()[self._log_from :].lower()

    def tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(f"  {line}" for line in lines[-TAIL_LINES:])

    def _spawn(self, now: float) -> None:
        inherited = {name: value for name, value in os.environ.items() if name not in self.component.without}
        with _appending(self.log) as log:
            self._log_from = log.tell()
            self._popen = subprocess.Popen(
                [sys.executable, "-S", "-E", str(SHIM), str(os.getpid()), *self.component.argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**inherited, **self.component.env},
                start_new_session=True,  # Ctrl-C in the terminal is handled by the supervisor
            )
        self.pid, self.state, self._since = self._popen.pid, State.STARTING, now

    def _exited(self, code: int, now: float) -> None:
        if self._popen is not None:
            self._kill_group(self._popen.pid)
        self.pid, self._popen = None, None
        if self.component.once and code == 0:
            self.state = State.DONE
            return
        self.due = now + min(BACKOFF_MOST, BACKOFF_FIRST * 2**self.failures)
        self.failures += 1
        self.restarts += 1
        self.state = State.WAITING
        with _appending(self.log) as log:
            log.write(f"--- {self.name} ended with exit code {code}\n".encode())

    @staticmethod
    def _kill_group(leader: int) -> None:
        """Kills the whole process group, including children left behind."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)


def _wait_loosely(pid: int, seconds: float) -> None:
    """Lets all timers of a process be late by this much. What comes in wakes it as fast as before."""
    for task in Path(f"/proc/{pid}/task").glob("*") if seconds else ():  # none but on Linux
        with suppress(OSError):  # it has ended
            Path(f"/proc/{task.name}/timerslack_ns").write_text(f"{seconds * 1e9:.0f}")


def _appending(path: Path) -> IO[bytes]:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("ab")


def listening(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def answers_ok(port: int, path: str = "/startupz") -> Probe:
    """Returns a probe: ready when an HTTP GET answers 200. It ignores lag, which may take long to catch up."""

    import http.client

    def probe() -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    return probe
