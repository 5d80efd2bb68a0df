"""What the lines share: rounds, a broker, topics of their own, processes that take notes.

`Bench` is one run. Fails: AssertionError where a stage did not do what it is measured at; then no figure is worth
anything.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, TopicPartition

from hmx_pipeline.kafka.clients import consumer_config
from hmx_pipeline.kafka.topic_files import connect, load_topics
from hmx_pipeline.local.process import answers_ok
from hmx_pipeline.local.stack import Stack
from hmx_pipeline.local.state import read_stack
from hmx_pipeline.settings import Settings
from tests.support.pipeline import create_topics, environment, new_settings

ROOT: Final = Path(__file__).parents[2]

PATIENCE_S: Final = 300.0
READY_S: Final = 60.0
LOOK_S: Final = 0.05


class Bench:
    """One run. The broker is started when the first line asks for it."""

    def __init__(
        self, folder: Path, events: int, many: int, rounds: int, on_round: Callable[[], None], closing: ExitStack
    ) -> None:
        self.folder = folder
        self.events = events
        self.many = many
        """Sessions and patterns where the question is what many of them cost."""
        self.few = max(8, many // 100)
        self.round_count = rounds
        self._on_round = on_round
        self._closing = closing

    @cached_property
    def stack(self) -> Stack:
        return self._closing.enter_context(Stack(self.folder / "state", keep=False))

    def server_cpu(self, name: str) -> float:
        """CPU seconds so far of the broker (`kafka`) or of Redis (`redis`), where they are this run's own."""
        processes = (read_stack(self.stack.state) or {}).get("components", {})
        pids = [process["pid"] for component, process in processes.items() if component.startswith(name)]
        return sum(cpu_seconds(Path(f"/proc/{pid}/stat")) for pid in pids)

    def rounds(self) -> Iterator[int]:
        for number in range(self.round_count):
            yield number
            self._on_round()

    @contextmanager
    def topics(self) -> Iterator[Settings]:
        """New topics under a prefix of their own; deleted at the end."""
        os.environ["HMX_STATE"] = str(self.folder)
        settings = new_settings(self.stack.kafka_bootstrap, self.stack.redis_url)
        create_topics(settings, partitions=None)
        try:
            yield settings
        finally:
            admin = connect(settings.kafka_bootstrap)
            for deleted in admin.delete_topics(
                [spec.topic for spec in load_topics(prefix=settings.topic_prefix)]
            ).values():
                deleted.result()

    def child(self, module: str, *arguments: object, settings: Settings | None = None) -> dict[str, Any]:
        """Runs a module of this package in a fresh process; the JSON object that is its last line."""
        argv = [sys.executable, "-m", f"tests.bench.{module}", *map(str, arguments)]
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=PATIENCE_S, cwd=self.folder, env=_path(settings)
        )
        assert done.returncode == 0, f"{module}: {done.stderr}"
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer


def _path(settings: Settings | None = None) -> dict[str, str]:
    """Whatever a process leaves where it stands stays out of the checkout; this package is found all the same."""
    inherited = environment(settings) if settings is not None else dict(os.environ)
    return {**inherited, "PYTHONPATH": f"{ROOT / 'pipeline'}{os.pathsep}{ROOT}"}


class Batch(NamedTuple):
    """A note of a worker about a batch that it has committed."""

    stage: str
    records: int
    until: float
    """Monotonic clock, the same for all processes of a machine."""
    cpu: float
    """CPU seconds of the process so far."""


class Notes(NamedTuple):
    started: float
    started_cpu: float
    batches: list[Batch]

    def records(self, stage: str) -> int:
        return sum(batch.records for batch in self.batches if batch.stage == stage)

    @property
    def cpu(self) -> float:
        """CPU seconds from the word to the end of the last batch."""
        return max(batch.cpu for batch in self.batches) - self.started_cpu if self.batches else 0.0

    @property
    def until(self) -> float:
        return max((batch.until for batch in self.batches), default=self.started)


class Worker:
    """A worker process of some stages (see tests.bench.worker): it begins at `go`."""

    def __init__(self, bench: Bench, settings: Settings, name: str, *stages: str, **changes: object) -> None:
        """`changes` are settings of this process alone, such as a port."""
        self._settings = settings = replace(settings, **changes)  # type: ignore[arg-type]
        self._word = bench.folder / f"{settings.topic_prefix}{name}.go"
        self._file = bench.folder / f"{settings.topic_prefix}{name}.notes"
        self._log = bench.folder / f"{settings.topic_prefix}{name}.log"
        argv = [sys.executable, "-m", "tests.bench.worker", str(self._word), str(self._file), *stages]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                argv, cwd=bench.folder, env=_path(settings), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def await_ready(self) -> None:
        probe, deadline = answers_ok(self._settings.worker_port), time.monotonic() + READY_S
        while not probe():
            self.check(deadline)
            time.sleep(LOOK_S)

    def check(self, deadline: float) -> None:
        if self.process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"the worker does not come to the end:\n{self._log.read_text()[-2000:]}")

    def go(self) -> None:
        self._word.touch()

    def threads(self) -> dict[str, tuple[str, float]]:
        """CPU seconds so far of each thread, and its kind: `event loop`, `consumer`, `folds` or `librdkafka`."""
        found = {}
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            with suppress(OSError):
                name = (task / "comm").read_text().strip()
                found[task.name] = "librdkafka" if name.startswith("rdk:") else name, cpu_seconds(task / "stat")
        return found

    def notes(self) -> Notes:
        """What it has noted so far."""
        lines = self._file.read_text().splitlines() if self._file.exists() else []
        if not lines:
            return Notes(0.0, 0.0, [])
        started, *batches = (json.loads(line) for line in lines)
        return Notes(*started, [Batch(*batch) for batch in batches])

    def await_records(self, stage: str, count: int) -> Notes:
        deadline = time.monotonic() + PATIENCE_S
        while (notes := self.notes()).records(stage) < count:
            self.check(deadline)
            time.sleep(LOOK_S)
        return notes

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def cpu_seconds(stat: Path) -> float:
    """Of a process or a thread."""
    user, system = stat.read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def bare_read(settings: Settings, *topics: str) -> tuple[int, float]:
    """Records that a read_committed consumer finds on all partitions of topics, and the seconds that it takes."""
    consumer = Consumer(consumer_config(settings.kafka_bootstrap, **{"queued.min.messages": 100_000}))
    places = []
    for topic in (settings.topic_prefix + name for name in topics):
        for number in consumer.list_topics(topic).topics[topic].partitions:
            low, _ = consumer.get_watermark_offsets(TopicPartition(topic, number))
            places.append(TopicPartition(topic, number, low))
    started, records, ended = time.monotonic(), 0, 0
    consumer.assign(places)
    while ended < len(places):
        for message in consumer.consume(10_000, LOOK_S):
            error = message.error()
            assert error is None or error.code() == KafkaError._PARTITION_EOF, error
            records += error is None
            ended += error is not None
    seconds = time.monotonic() - started
    consumer.close()
    return records, seconds


def committed(settings: Settings, topic: str) -> int:
    return bare_read(settings, topic)[0]


def quantile(figures: Iterable[float], percent: int) -> float:
    ordered = sorted(figures)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


class Child:
    """A module of this package as a process that goes on: an answer when ready, and one to each question."""

    def __init__(self, bench: Bench, module: str, *arguments: object) -> None:
        self._log = bench.folder / f"{module}-{'-'.join(map(str, arguments))}.log".replace("/", "")
        argv = [sys.executable, "-m", f"tests.bench.{module}", *map(str, arguments)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                argv,
                cwd=bench.folder,
                env=_path(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"ended without an answer:\n{self._log.read_text()[-2000:]}"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def say(self, word: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def ask(self, question: object = "") -> dict[str, Any]:
        self.say(question)
        return self.answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
