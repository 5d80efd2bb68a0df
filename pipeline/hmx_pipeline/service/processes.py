"""Several service processes on one port: `hmx serve --processes N`.

Enters: settings, and how many. Leaves: child processes, and at the end the exit code: 1 if a child can't run. Raises
SettingsError if a port can't be had. The parent listens and answers nobody: its children inherit the socket, and
whoever has time takes the next connection. Child n also listens on HMX_SERVICE_PORT + n, where Prometheus finds its own
metrics, and where a proxy may send each tenant to the same process always, so that only that one keeps the tenant's
view. Children end with their parent.
"""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Final

from hmx_pipeline.observe.logs import configure_logs
from hmx_pipeline.observe.shutdown import stop_event
from hmx_pipeline.settings import Settings, SettingsError

LOG: Final = logging.getLogger("hmx")
LOOK_S: Final = 0.2
BRIEF_S: Final = 60.0
"""A child that ends by itself sooner can't run at all: then all end. Any other starts again. On a busy machine a child
takes long until it finds out."""
AGAIN_S: Final = 5.0
"""From one start of a child to its next."""
BACKLOG: Final = 2_048
HIGHEST_PORT: Final = 65_535


@dataclass(frozen=True)
class ServiceProcess:
    process: subprocess.Popen[bytes]
    since: float


def run_processes(settings: Settings, count: int) -> int:
    """Runs until SIGTERM or SIGINT, or until a child can't run; returns the exit code, 1 in the latter case. Raises
    SettingsError if a port can't be had."""
    if not 0 < settings.service_port <= HIGHEST_PORT - count:
        wanted = f"{count} processes need one from 1 to {HIGHEST_PORT - count}, and those above it"
        raise SettingsError(f"HMX_SERVICE_PORT={settings.service_port} is invalid: {wanted}")
    children: dict[int, ServiceProcess] = {}
    runs = True
    with listen(settings.host, settings.service_port) as listening:
        for n in range(1, count + 1):  # what a child can't have is better said at once
            listen(settings.host, settings.service_port + n).close()
        configure_logs(settings.log_level, settings.log)
        stop = stop_event()
        try:
            while runs and not stop.wait(LOOK_S):
                runs = all(keep(children, n, settings, listening.fileno()) for n in range(1, count + 1))
        finally:
            for child in children.values():
                child.process.terminate()
            for child in children.values():
                child.process.wait()
    return 0 if runs else 1


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise SettingsError(f"HMX_SERVICE_PORT: the service can't listen on port {port} of {host}: {error}") from None


def keep(children: dict[int, ServiceProcess], number: int, settings: Settings, listening: int) -> bool:
    """Starts a child that is not there, unless it has only just been started; returns False if it can't run."""
    if (known := children.get(number)) is not None:
        code = known.process.poll()
        if code is None:
            return True
        if code > 0 and time.monotonic() - known.since < BRIEF_S:
            LOG.error("process %d ended with exit code %d as soon as it had started: all end", number, code)
            return False
        if time.monotonic() - known.since < AGAIN_S:
            return True
        LOG.warning("process %d ended with exit code %d: it starts again", number, code)
    words = [sys.executable, "-m", "hmx_pipeline.cli", "serve", "--socket", str(listening)]
    own = {**os.environ, "HMX_SERVICE_PORT": str(settings.service_port + number)}
    process = subprocess.Popen(words, env=own, stdin=subprocess.PIPE, pass_fds=[listening])
    children[number] = ServiceProcess(process, time.monotonic())
    return True


def inherited(listening: int) -> socket.socket:
    """Returns the parent's socket in a child, which from now on ends with its parent. The number stays open, for a
    child that starts anew in its own place."""

    def end_with_parent() -> None:
        # Nothing is ever written: it returns when the parent is gone. Not by sys.stdin: a thread that waits in it makes
        # Python abort at exit.
        os.read(0, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_parent, daemon=True).start()
    return socket.socket(fileno=os.dup(listening))
