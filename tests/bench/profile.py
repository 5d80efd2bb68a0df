"""`python -m tests.bench.profile`: where each microsecond of an event goes, and what is the least that some steps cost.

In process, without Kafka: the worker's fold over the bench's events in batches, up to encoded state, then the produce
calls of what comes out, on a client without a broker. The time of a pass is measured with nothing in its way; a second
pass is sampled by the kernel's CPU timer, and each sample counts for the innermost line of its stack that a step owns.
A line that only moves values about counts for the next call.
"""

import argparse
import gc
import linecache
import os
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any, Final

import orjson
import xxhash
from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

import hmx_pipeline
from hmx_pipeline.contracts.envelope import read_envelope
from hmx_pipeline.contracts.keys import partition_of
from hmx_pipeline.contracts.limits import BATCH_RECORDS
from hmx_pipeline.contracts.timestamps import parse_instant
from hmx_pipeline.kafka.clients import producer_config
from hmx_pipeline.kafka.publisher import key_of
from hmx_pipeline.observe.allocator import collect_seldom
from hmx_pipeline.stages.executor import Effects, Executor
from hmx_pipeline.stages.fold import Record
from hmx_pipeline.topology import SESSION_STATE
from tests.bench import workload
from tests.support.inprocess import sessions_fold
from tests.support.records import START_MS

PARTITIONS: Final = 8
SAMPLE_S: Final = 0.001
LINES: Final = 24
README: Final = Path(__file__).with_name("README.md")
FIGURES: Final = "<!-- figures: python -m tests.bench.profile --write -->"
END: Final = "<!-- end -->"
ROOT: Final = str(Path(hmx_pipeline.__file__).parent)
STEPS: Final = (
    ("state_tx.py:changes", "state: encode"),
    ("intake/steps.py", "step: what mining sees"),
    ("intake/", "decode: validate, secrets, digest"),
    ("ordering/", "order"),
    ("contracts/episode.py", "episode: write"),
    ("segments/", "segment, mine"),
    ("compiler/", "segment, mine"),
    ("stages/segmenting.py", "segment, mine"),
    ("stages/session_state.py", "state: keep"),
    ("stages/append_log.py", "state: keep"),
    ("stages/state_tx.py", "state: keep"),
    ("stages/executor.py", "executor: clock, timers, overlay"),
    ("stages/", "sessions: the stage itself"),
)
"""The first that the innermost frames match; other files, such as contracts/keys.py, count for whoever calls them."""


class Sampler:
    def __init__(self) -> None:
        self.steps: Counter[str] = Counter()
        self.lines: Counter[tuple[str, int]] = Counter()

    def __enter__(self) -> "Sampler":
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, SAMPLE_S, SAMPLE_S)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)

    def _sample(self, _: int, frame: FrameType | None) -> None:
        ours = [place for place in _places(frame) if place[0].startswith(ROOT)]
        encoding = any(f"{Path(file).name}:{function}" == STEPS[0][0] for file, function, _ in ours)
        step = STEPS[0][1] if encoding else next(filter(None, (_step(file) for file, _, _ in ours)), "")
        if step:
            self.steps[step] += 1
            self.lines[ours[0][0], ours[0][2]] += 1


def _places(frame: FrameType | None) -> Iterator[tuple[str, str, int]]:
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno or 0
        frame = frame.f_back


def _step(file: str) -> str:
    inside = file[len(ROOT) + 1 :]
    return next((step for place, step in STEPS if inside.startswith(place)), "")


class Pass:
    """The same events through fresh folds, once."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._logs: dict[int, list[Record]] = defaultdict(list)
        for number, line in enumerate(lines):
            key = key_of(line) or b""
            partition = partition_of(key.decode(), PARTITIONS)
            log = self._logs[partition]
            log.append(Record(partition, len(log), START_MS + number, key, line, ()))

    def run(self, take: Callable[[Effects], None] = lambda _: None) -> float:
        """CPU seconds of this thread; `take` is given what each batch does, and its time is not counted."""
        spent = 0.0
        for partition, records in self._logs.items():
            executor = Executor(sessions_fold(PARTITIONS, PARTITIONS), partition)
            for start in range(0, len(records), BATCH_RECORDS):
                batch = records[start : start + BATCH_RECORDS]
                started = time.thread_time()
                effects = executor.run(batch)
                spent += time.thread_time() - started
                take(effects)
        return spent


class Sink:
    """Hands what batches do to a client that has no broker."""

    def __init__(self) -> None:
        self._producer = _client()
        self.records = 0
        self.spent = 0.0
        """CPU seconds of the calling thread."""

    def take(self, effects: Effects) -> None:
        state = [(key.encode(), value) for key, value in effects.changes.items()]
        started = time.thread_time()
        for output in effects.outputs:
            headers: Any = output.headers
            self._producer.produce(output.topic, output.value, output.key, output.partition, headers=headers)
        for key, value in state:
            self._producer.produce(SESSION_STATE, value, key, 0)
        self.spent += time.thread_time() - started
        self.records += len(effects.outputs) + len(state)
        self._producer.purge()
        self._producer.poll(0)


class Collector:
    """CPU seconds that Python's garbage collector takes."""

    def __init__(self) -> None:
        self.spent = 0.0
        gc.callbacks.append(self._called)

    def _called(self, phase: str, _: object) -> None:
        self.spent += time.thread_time() if phase == "stop" else -time.thread_time()


def _client() -> Producer:
    return Producer(producer_config("127.0.0.1:1", **{"queue.buffering.max.messages": 10_000_000, "log_level": 0}))


def floor(lines: Sequence[bytes]) -> dict[str, float]:
    """CPU microseconds an event of single calls that no variant of the steps does without."""
    parsed = [orjson.loads(line) for line in lines]
    dumps = [orjson.dumps(fields, option=orjson.OPT_SORT_KEYS) for fields in parsed]
    stamps = [fields["timestamp"] for fields in parsed]
    producer = _client()
    found = {
        "parse: orjson.loads": _each(orjson.loads, lines),
        "envelope, parts as bytes: msgspec": _each(read_envelope, lines),
        "sorted dump: orjson.dumps": _each(lambda fields: orjson.dumps(fields, option=orjson.OPT_SORT_KEYS), parsed),
        "digest: xxh3_128": _each(xxhash.xxh3_128_digest, dumps),
        "instant of the timestamp": _each(parse_instant, stamps),
        "a produce call": _each(lambda line: producer.produce("t", line, b"acme/session-1", 0), lines),
    }
    producer.purge()
    return found


def _each(call: Callable[[Any], Any], items: Sequence[Any]) -> float:
    started = time.thread_time()
    for item in items:
        call(item)
    return (time.thread_time() - started) / len(items) * 1e6


def main(events: int, passes: int) -> str:
    """What is shown."""
    collect_seldom()
    lines = workload.compact(events)
    once, sink = Pass(lines), Sink()
    once.run(sink.take)
    gc.collect()
    gc.freeze()  # as the worker does once it has restored
    collector = Collector()
    total = median(once.run() for _ in range(passes)) / events * 1e6
    collected = collector.spent / passes / events * 1e6
    with Sampler() as sampler:
        for _ in range(passes):
            once.run()
    out = Console(width=100, highlight=False, record=True)
    load = f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
    out.print(f"In process, {events:,} events ({workload.source()}), {load}, CPU µs an event")
    show_steps(out, total, sampler, {
        "(of it garbage collection)": collected,
        f"produce calls, {sink.records / events:.2f} records an event": sink.spent / events * 1e6,
    })  # fmt: skip
    show_lines(out, total, sampler)
    calls = _table("single calls", "µs")
    for call, spent in floor(lines).items():
        calls.add_row(call, f"{spent:.2f}")
    out.print("", calls)
    return "\n".join(line.rstrip() for line in out.export_text().splitlines())


def show_steps(out: Console, total: float, sampler: Sampler, more: dict[str, float]) -> None:
    table, samples = _table("step", "µs", "share"), sampler.steps.total()
    for step, count in sampler.steps.most_common():
        table.add_row(step, f"{total * count / samples:.2f}", f"{count / samples:.0%}")
    table.add_row("[bold]the fold", f"[bold]{total:.2f}", "100%")
    for name, spent in more.items():
        table.add_row(name, f"{spent:.2f}", "")
    out.print(table)


def show_lines(out: Console, total: float, sampler: Sampler) -> None:
    lines, samples = _table("the dearest lines", "µs"), sampler.steps.total()
    for (file, number), count in sampler.lines.most_common(LINES):
        text = linecache.getline(file, number).strip()[:58]
        lines.add_row(f"{file[len(ROOT) + 1 :]}:{number}  [dim]{_plain(text)}[/]", f"{total * count / samples:.2f}")
    out.print("", lines)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    return table


def _plain(text: str) -> str:
    return text.replace("[", r"\[")


def write(text: str) -> None:
    """Into the page beside this module, in place of what an earlier run said there."""
    page = README.read_text()
    before, mark, rest = page.partition(FIGURES)
    assert mark, f"{README} has no place for figures"
    after = rest.partition(END)[2]
    README.write_text(f"{before}{mark}\n```\n{text.strip()}\n```\n{END}{after}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m tests.bench.profile", description="where each microsecond goes")
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put what is shown into tests/bench/README.md")
    asked = parser.parse_args()
    shown = main(asked.events, asked.passes)
    if asked.write:
        write(shown)
