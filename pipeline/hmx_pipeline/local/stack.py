"""Local stack on one machine: Kafka, Redis and optionally the pipeline, in this process or detached.

Enters: a state folder. Leaves: a running stack, as `Stack` (demo and tests) or detached (`up`, `down`, `status`).
`stack.json` in the folder holds its addresses. HMX_KAFKA_BOOTSTRAP and HMX_REDIS_URL select existing servers. Raises
StackError.
"""

import dataclasses
import datetime as dt
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hmx_pipeline.kafka_profile import securing
from hmx_pipeline.local import jars
from hmx_pipeline.local.kafka import SMALL_SLACK_S, kafka
from hmx_pipeline.local.ports import same_ports
from hmx_pipeline.local.process import Component, PortTakenError, Process, StackError, State, answers_ok
from hmx_pipeline.local.redis import redis
from hmx_pipeline.local.state import (
    CONTROL_KEY,
    StateLock,
    control_key,
    holder,
    make_folder,
    remove_stack,
    status,
    write_stack,
)
from hmx_pipeline.local.supervisor import Supervisor
from hmx_pipeline.settings import Settings, SettingsError

Progress = Callable[[str], None]
DATA, LOGS = ("kafka", "redis"), "logs"
START_ATTEMPTS = 3
SMALL_PARTITIONS = 2  # each costs an idle worker a transactional producer, which wakes five times a second
_IS_UP = "`hmx status` shows it, `hmx down` stops it"
STOP_SECONDS = 60.0  # longer than the sum of all grace periods
POLL_SECONDS = 0.1
NOT_STARTED = 3  # exit code of a supervisor that has said why


class AlreadyUpError(StackError):
    """A stack already runs in this state folder; it was left alone."""


class Stack:
    """A stack that ends with this process. With `keep=False` its data is deleted, and servers get no grace period."""

    def __init__(
        self,
        state: Path,
        *,
        nodes: int = 1,
        pipeline: bool = False,
        small: bool = False,
        fresh: bool = False,
        keep: bool = True,
        redis_server: str | None = None,
        progress: Progress = lambda _: None,
    ) -> None:
        self.state = state.resolve()
        self._nodes, self._pipeline, self._small, self._fresh, self._keep = nodes, pipeline, small, fresh, keep
        self._redis_server = redis_server
        self._progress = progress
        self._lock = StateLock(self.state)
        self._describing = threading.Lock()  # the supervisor's thread and this one both write stack.json
        self._started_at = ""
        self._ready = False
        self._supervisor: Supervisor | None = None
        self.environment: dict[str, str] = {}
        """Environment variables that point a process at this stack: HMX_KAFKA_BOOTSTRAP and others."""

    @property
    def kafka_bootstrap(self) -> str:
        return self.environment["HMX_KAFKA_BOOTSTRAP"]

    @property
    def redis_url(self) -> str:
        return self.environment["HMX_REDIS_URL"]

    @property
    def service_url(self) -> str | None:
        return f"http://127.0.0.1:{self.environment['HMX_SERVICE_PORT']}" if self._pipeline else None

    def start(self) -> None:
        """Returns when everything is ready. After a failure or Ctrl-C nothing is left running."""
        if not self._lock.acquire():
            raise AlreadyUpError(f"a stack already runs in {self.state}: {_IS_UP}")
        try:
            if self._fresh:
                self._wipe()
            self._started_at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
            self._ready_on_free_ports()
        except BaseException:
            self.stop()
            raise

    def _ready_on_free_ports(self) -> None:
        """Starts the components; tries again with other ports if one was taken meanwhile."""
        for left in reversed(range(START_ATTEMPTS)):
            self._supervisor = Supervisor(self._prepare(), self.state / LOGS, self._changed)
            try:
                self._supervisor.start()
            except PortTakenError:
                if not left:
                    raise
            else:
                self._ready = True
                self._changed(self._supervisor.processes)
                return

    def stop(self) -> None:
        if self._supervisor is not None:
            self._supervisor.stop()
        self._ready = False
        remove_stack(self.state)
        if not self._keep:
            self._wipe()
        self._lock.release()

    def watch(self) -> None:
        """Blocks while the stack runs."""
        if self._supervisor is not None:
            self._supervisor.watch()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _wipe(self) -> None:
        for name in (*DATA, LOGS):
            shutil.rmtree(self.state / name, ignore_errors=True)

    def _prepare(self) -> list[list[Component]]:
        servers: list[Component] = []
        without = settings_elsewhere(os.environ)
        given = {name: value for name, value in os.environ.items() if name not in without}
        try:
            settings = Settings.load({**given, "HMX_STATE": str(self.state)}, running=False)
        except SettingsError as error:
            raise StackError(str(error)) from None
        if not (bootstrap := settings.kafka_bootstrap):
            brokers = kafka(self.state / "kafka", self._nodes, self._progress, small=self._small)
            bootstrap = brokers.bootstrap
            servers += brokers.components
        if not (url := settings.redis_url):
            memory = redis(self.state / "redis", self._redis_server)
            url = memory.url
            servers.append(memory.component)
        elif len(url.split()) > 1 and self._pipeline:
            raise StackError(
                "HMX_REDIS_URL names several servers, but a local stack has one materialiser: start each process by"
                " itself, as docs/how-to/redis-servers.md says"
            )
        key = control_key(self.state)
        ports = dict(zip(("SERVICE", "WORKER", "MATERIALISER"), map(str, same_ports(self.state, 3)), strict=True))
        self.environment = {
            "HMX_STATE": str(self.state),
            "HMX_KAFKA_BOOTSTRAP": bootstrap,
            "HMX_REDIS_URL": url,
            "HMX_CONTROL_KEY": settings.control_key or key,
            "HMX_SEMANTIC": str(Path(settings.semantic).resolve()) if settings.semantic else "",
            "HMX_WORKER_ID": f"local-{hashlib.sha256(key.encode()).hexdigest()[:8]}",
            **{f"HMX_{name}_PORT": os.environ.get(f"HMX_{name}_PORT", port) for name, port in ports.items()},
        }
        seen = {name: address for name, address in self._health().items() if name != "service"}
        self.environment["HMX_PROCESSES"] = ",".join(f"{name}={address}" for name, address in seen.items())
        if not self._keep:
            servers = [dataclasses.replace(server, grace=0.0) for server in servers]
        without |= {"HMX_REDIS_URL_FILE", "HMX_CONTROL_KEY_FILE"}  # both were read here
        partitions = SMALL_PARTITIONS if self._small and not settings.kafka_bootstrap else 0
        slack_s = SMALL_SLACK_S if self._small else 0.0
        stages = pipeline_stages(self.environment, frozenset(without), partitions, slack_s) if self._pipeline else ()
        return [servers, *stages]

    def _changed(self, processes: list[Process]) -> None:
        with self._describing:
            write_stack(self.state, self._describe(processes))
        pending = [process.name for process in processes if process.state is State.STARTING]
        if pending and not self._ready:
            self._progress(f"starting {', '.join(pending)}")

    def _health(self) -> dict[str, str]:
        """Returns the health address of each pipeline process."""
        ports = {name: self.environment[f"HMX_{name.upper()}_PORT"] for name in ("worker", "materialiser", "service")}
        return {name: f"http://127.0.0.1:{port}" for name, port in ports.items()} if self._pipeline else {}

    def _describe(self, processes: list[Process]) -> dict[str, Any]:
        return {
            "kafka_bootstrap": self.kafka_bootstrap,
            "redis_url": self.redis_url,
            "service_url": self.service_url,
            "semantic": self.environment["HMX_SEMANTIC"],
            "pid": os.getpid(),
            "started_at": self._started_at,
            "ready": self._ready,
            "control_key": str(self.state / CONTROL_KEY),
            "health": self._health(),
            "components": {
                process.name: {
                    "pid": process.pid,
                    "state": process.state,
                    "restarts": process.restarts,
                    "log": str(process.log),
                }
                for process in processes
            },
        }


def settings_elsewhere(environ: Mapping[str, str]) -> set[str]:
    """The variables that do not hold for what is started here: it speaks plain text, and so do the probes."""
    found = {"HMX_TLS_CERTIFICATE", "HMX_TLS_KEY"}
    if not environ.get("HMX_KAFKA_BOOTSTRAP"):
        found |= securing(environ)
    if not (environ.get("HMX_REDIS_URL") or environ.get("HMX_REDIS_URL_FILE")):
        found |= {"HMX_REDIS_PASSWORD", "HMX_REDIS_PASSWORD_FILE", "HMX_REDIS_CA"}
    return found


def pipeline_stages(
    environment: dict[str, str],
    without: frozenset[str] = frozenset(),
    partitions: int = 0,
    materialiser_slack_s: float = 0.0,
) -> list[list[Component]]:
    """Returns the stages to start: topics first, then the processes that use them. `partitions`: of new topics; 0 as
    their files say."""

    def command(name: str, *words: str, port: str | None = None, slack_s: float = 0.0) -> Component:
        return Component(
            name=name,
            argv=(sys.executable, "-m", "hmx_pipeline.cli", *words),
            env={**environment, "PYTHONUNBUFFERED": "1"},
            without=without,
            ready=answers_ok(int(environment[port])) if port else lambda: True,
            slack_s=slack_s,
            once=port is None,
        )

    return [
        [command("topics", "topics", "apply", "--yes", *([f"--partitions={partitions}"] if partitions else []))],
        [
            command("worker", "worker", port="HMX_WORKER_PORT"),
            command("materialiser", "materialise", port="HMX_MATERIALISER_PORT", slack_s=materialiser_slack_s),
            command("service", "serve", port="HMX_SERVICE_PORT"),
        ],
    ]


def up(
    state: Path,
    *,
    nodes: int = 1,
    pipeline: bool = True,
    small: bool = False,
    fresh: bool = False,
    progress: Progress = lambda _: None,
) -> dict[str, Any]:
    """Starts a detached stack; returns its status when everything is ready."""
    if holder(state) is not None:
        raise AlreadyUpError(f"a stack already runs in {state.resolve()}: {_IS_UP}")
    if not os.environ.get("HMX_KAFKA_BOOTSTRAP"):
        jars.classpath(progress)
    make_folder(state / LOGS, "HMX_STATE")
    wanted = {"--pipeline": pipeline, "--small": small, "--fresh": fresh}
    flags = [f"--nodes={nodes}", *(flag for flag, given in wanted.items() if given)]
    with (state / "supervisor.log").open("ab") as log:
        began = log.tell()
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "hmx_pipeline.local", str(state.resolve()), *flags],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # it outlives this process and its terminal
        )
    return _await_ready(supervisor, state, began, progress)


def _await_ready(supervisor: "subprocess.Popen[bytes]", state: Path, began: int, progress: Progress) -> dict[str, Any]:
    """Follows `stack.json` until the stack is ready or its supervisor, whose log began at `began`, has ended."""
    try:
        while (code := supervisor.poll()) is None:
            running = status(state)
            if running is not None and running["ready"]:
                supervisor.returncode = 0  # it goes on alone: nobody waits for it, or warns that it still runs
                return running
            components = running["components"] if running is not None else {}
            pending = [name for name, each in components.items() if each["state"] == State.STARTING]
            progress(f"starting {', '.join(pending)}" if pending else "starting")
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        supervisor.terminate()
        supervisor.wait()  # nothing may keep running after Ctrl-C
        raise
    log = state / "supervisor.log"
    if code == NOT_STARTED:
        raise StackError(log.read_bytes()[began:].decode(errors="replace").strip())
    raise StackError(f"the supervisor ended before the stack was ready: read {log}")


def down(state: Path) -> bool:
    """Stops the stack of this folder with all its processes; returns False if none runs."""
    pid = holder(state)
    if pid is None:
        remove_stack(state)  # left by a supervisor killed with SIGKILL; its children ended with it
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while holder(state) == pid:
        if time.monotonic() > deadline:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    remove_stack(state)
    return True
