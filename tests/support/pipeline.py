"""The pipeline's processes under a test's own topic prefix: real topics, real subprocesses, stopped at the end."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from hmx_pipeline.kafka.clients import Cluster, read_partition
from hmx_pipeline.kafka.topic_files import apply, connect, load_topics, read_cluster
from hmx_pipeline.kafka.topic_plan import plan, sized
from hmx_pipeline.local.ports import free_ports
from hmx_pipeline.local.process import answers_ok
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS
from tests.support import forked
from tests.support.forked import PROGRAM, Forked

READY_S = 180.0
STOP_S = 60.0
PARTITIONS = 2
"""Of each topic, where a test says nothing else: each one more costs the worker and the broker."""
COMMANDS: Mapping[str, str] = {"worker": "worker", "materialiser": "materialise", "service": "serve"}


def new_settings(kafka: str, redis_url: str = "", **changes: object) -> Settings:
    """A name space of the test's own on the shared servers, with free ports and a control key."""
    service, worker, materialiser = free_ports(3)
    made = Settings(
        state=Path(os.environ["HMX_STATE"]),
        kafka_bootstrap=kafka,
        redis_url=redis_url,
        topic_prefix=f"t{uuid.uuid4().hex[:8]}.",
        control_key=uuid.uuid4().hex,
        service_port=service,
        worker_port=worker,
        materialiser_port=materialiser,
        processes=f"worker=http://127.0.0.1:{worker},materialiser=http://127.0.0.1:{materialiser}",
        service_url=f"http://127.0.0.1:{service}",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def create_topics(settings: Settings, partitions: int | None = PARTITIONS) -> None:
    """As the topic files say, but for the number of partitions; with None that too."""
    admin = connect(settings.require_kafka())
    specs = load_topics(prefix=settings.topic_prefix)
    if partitions is not None:
        specs = tuple(spec.model_copy(update={"partitions": partitions}) for spec in specs)
    cluster = read_cluster(admin, [spec.topic for spec in specs])
    apply(admin, plan(sized(specs, cluster), cluster))


def logged(settings: Settings, session: str | None = None) -> list[dict[str, Any]]:
    """The events of a session, or all, as they stand in the log, whose topic has one partition."""
    topic, kafka = settings.topic_prefix + EVENTS, settings.require_kafka()
    with closing(Cluster(kafka)) as cluster:
        marks = cluster.watermarks(topic, 0)
    found = [orjson.loads(message.value() or b"") for message in read_partition(kafka, topic, 0, marks)]
    return [event for event in found if session in (None, event["session_id"])]


def environment(settings: Settings) -> dict[str, str]:
    """What a process needs to be part of this pipeline; nothing of the caller's own settings."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HMX_")}
    given = {
        f"HMX_{name.upper()}": str(value)
        for name in settings.__slots__
        if (value := getattr(settings, name)) != "" and name not in ("service_url", "kafka_properties")
    }
    given |= {f"HMX_KAFKA_{name.upper().replace('.', '_')}": value for name, value in settings.kafka_properties}
    return {**inherited, **given, "PYTHONUNBUFFERED": "1"}


class Pipeline:
    """Processes by name: `worker`, `materialiser`, `service`; a second worker is `worker-2`."""

    def __init__(self, settings: Settings, logs: Path) -> None:
        self.settings = settings
        self._logs = logs
        self.processes: dict[str, subprocess.Popen[bytes] | Forked] = {}
        self._starts: Counter[str] = Counter()

    def start(
        self,
        name: str,
        *options: str,
        ready: bool = True,
        program: Sequence[str] = PROGRAM,
        **changes: object,
    ) -> subprocess.Popen[bytes] | Forked:
        """`options` of its command; `changes` are settings of this process alone, such as `worker_id` or a port;
        `program` what Python runs."""
        settings = replace(self.settings, **changes)  # type: ignore[arg-type]
        kind = name.partition("-")[0]
        log, given = self._logs / f"{settings.topic_prefix}{name}.log", environment(settings)
        if program == PROGRAM and sys.platform == "linux" and "LD_PRELOAD" not in given:  # only a start loads it
            seed = self._starts[kind] % forked.SEEDS  # what depends on the order of a set shows after a restart
            self._starts[kind] += 1
            process = self.processes[name] = forked.start([COMMANDS[kind], *options], given, log, seed)
        else:
            with log.open("ab") as output:
                process = self.processes[name] = subprocess.Popen(
                    [sys.executable, *program, COMMANDS[kind], *options],
                    env=given,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        if ready:
            self.await_ready(name, getattr(settings, f"{kind}_port"))
        return process

    def await_ready(self, name: str, port: int) -> None:
        probe, deadline = answers_ok(port), time.monotonic() + READY_S
        while not probe():
            code = self.processes[name].poll()
            if code is not None or time.monotonic() > deadline:
                raise AssertionError(f"{name} is not ready (exit code {code}):\n{self.log(name)}")
            time.sleep(0.1)

    def kill(self, name: str) -> None:
        """As if the machine had lost it: no clean-up of any kind."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def pause(self, name: str) -> None:
        self.processes[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self.processes[name].send_signal(signal.SIGCONT)

    def stop(self, name: str) -> int:
        """Asks it to end; its exit code."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            return process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def log(self, name: str, lines: int = 40) -> str:
        text = (self._logs / f"{self.settings.topic_prefix}{name}.log").read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def fallen(self) -> dict[str, int]:
        """The exit codes of those that ended by themselves by a signal, as after a segmentation fault."""
        codes = {name: process.poll() for name, process in self.processes.items()}
        return {name: code for name, code in codes.items() if code is not None and code < 0}

    def stop_all(self) -> None:
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for name in list(self.processes):
            self.stop(name)


@contextmanager
def running(settings: Settings, logs: Path, *names: str, partitions: int | None = PARTITIONS) -> Iterator[Pipeline]:
    """Topics created, the named processes started and ready; all of them stopped at the end."""
    create_topics(settings, partitions)
    pipeline = Pipeline(settings, logs)
    try:
        for name in names:
            pipeline.start(name, ready=False)
        for name in names:
            pipeline.await_ready(name, getattr(settings, f"{name.partition('-')[0]}_port"))
        yield pipeline
    finally:
        fallen = pipeline.fallen()
        pipeline.stop_all()
        assert not fallen, "ended by a signal"
