"""The pipeline's processes as forks of one that has imported all of it: a start costs no imports.

`python -m tests.support.forked SOCKET` imports, then forks for each line of JSON that it is sent: `log`, `environment`
and `words` of the command line. It answers with the pid, and with the exit code once the fork has ended. It kills its
forks when its standard input ends.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path

PROGRAM = ("-m", "hmx_pipeline.cli")
SEEDS = 2
"""Of Python's hashes: forks of one process would all have the same."""
_IMPORTED = (
    "hmx_pipeline.cli.app", "hmx_pipeline.cli.run", "hmx_pipeline.worker.main", "hmx_pipeline.store.materialiser",
    "hmx_pipeline.service.main", "hmx_pipeline.service.mem0_routes", "faust.transport.drivers.aiokafka",
)  # fmt: skip


class Forked:
    """What tests ask of a process."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._said = connection.makefile()
        self.pid = int(self._said.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(["hmx"], timeout or 0)
            self.returncode = int(self._said.readline() or -signal.SIGKILL)
            self._said.close()
            self._connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(words: Sequence[str], environment: Mapping[str, str], log: Path, seed: int = 0) -> Forked:
    """`hmx` with these words, in a session of its own."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(120)
    connection.connect(_forking(seed))
    asked = {"words": list(words), "environment": dict(environment), "log": str(log)}
    connection.sendall(json.dumps(asked).encode() + b"\n")
    return Forked(connection)


@cache
def _forking(seed: int) -> str:
    """Where the process with this seed listens that forks for this one."""
    folder = tempfile.TemporaryDirectory(prefix="hmx")
    path = str(Path(folder.name) / "forking")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HMX_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.forked", path],
        env={**clean, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUNBUFFERED": "1"}
        | {"OPENBLAS_NUM_THREADS": "1"}  # a process with threads cannot be forked
        | {"PYTHONHASHSEED": str(seed)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"listens\n"

    @atexit.register
    def end() -> None:
        process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)
        folder.cleanup()

    return path


def forks(path: str) -> None:
    """Returns in each fork, and never here."""
    for name in _IMPORTED:
        import_module(name)
    gc.collect()
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(16)
    woken, waking = socket.socketpair()
    waking.setblocking(False)
    signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    print("listens")
    running: dict[int, socket.socket] = {}
    while True:
        ready = select.select([listener, woken, sys.stdin], [], [])[0]
        if listener in ready:
            connection = listener.accept()[0]
            asked = json.loads(connection.makefile().readline())
            pid = os.fork()
            if not pid:
                return _become(**asked)
            running[pid] = connection
            connection.sendall(f"{pid}\n".encode())
        if woken in ready:
            woken.recv(4_096)
        while running and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            with running.pop(ended[0]) as connection, suppress(OSError):
                connection.sendall(f"{os.waitstatus_to_exitcode(ended[1])}\n".encode())
        if sys.stdin in ready:
            for pid in running:
                os.kill(pid, signal.SIGKILL)
            os._exit(0)


def _become(words: list[str], environment: dict[str, str], log: str) -> None:
    """This process is as if it had been started with these words."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for output in (1, 2):
        os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644), output)
    os.closerange(3, 4_096)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["hmx", *words]
    sys.orig_argv = [sys.executable, *PROGRAM, *words]


if __name__ == "__main__":
    forks(sys.argv[1])
    from hmx_pipeline.cli.app import main

    main()
