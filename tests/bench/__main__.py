"""`make bench`: what an event costs, as a ratio to an empty Faust agent on the same topic, in one run.

Counted is the process's CPU time from the first to the last of the same events. Rounds alternate; the table gives the
median ratio and its spread.
"""

import gzip
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import orjson
from rich.console import Console
from rich.progress import track
from rich.table import Table

from pipeline.contracts.evidence import Step
from pipeline.contracts.keys import partition_of
from pipeline.contracts.limits import BATCH_RECORDS
from pipeline.kafka.publisher import key_of, publish
from pipeline.local.samples import sample_events
from pipeline.local.stack import Stack
from pipeline.settings import Settings
from pipeline.stages.executor import Executor
from pipeline.stages.fold import Tx
from pipeline.stages.segmenting import Segmenting
from pipeline.stages.session_state import Session
from pipeline.topology import EVENTS
from tests.support.data import FOLDER
from tests.support.inprocess import sessions_fold
from tests.support.pipeline import Pipeline, create_topics, new_settings
from tests.support.records import START_MS, LogRecord

EVENTS_WANTED = int(os.environ.get("EVENTS", "40000"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
PATIENCE_S = 300.0
TICKS = os.sysconf("SC_CLK_TCK")
OUT = Console(highlight=False)


def events() -> list[bytes]:
    """Real sessions where the open data is, else the samples; repeated under other session names up to the count."""

    file = FOLDER / "tau.ndjson.gz"
    lines = gzip.decompress(file.read_bytes()).splitlines() if file.exists() else _valid(sample_events())
    made: list[bytes] = []
    for copy in range(EVENTS_WANTED // len(lines) + 1):
        for line in lines:
            event = orjson.loads(line)
            event["session_id"] += f"-{copy}"
            made.append(orjson.dumps(event))
    return made[:EVENTS_WANTED]


def _valid(lines: Iterable[bytes]) -> list[bytes]:
    from pipeline.intake.decode import Accepted, decode

    return [line for line in lines if isinstance(decode(line), Accepted)]


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def folded(port: int) -> float:
    """Records of the events topic that the worker has committed."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    found = [line for line in lines if line.startswith('hmx_stage_records_total{stage="sessions"}')]
    return float(found[0].split()[-1]) if found else 0.0


def empty_agent(settings: Settings, lines: list[bytes]) -> float:
    """CPU microseconds an event."""
    argv = [sys.executable, "-m", "tests.bench.empty_agent"]
    argv += [settings.kafka_bootstrap, settings.topic_prefix + EVENTS, str(len(lines))]
    publish(lines, settings)
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    return float(done.stdout.splitlines()[-1]) / len(lines) * 1e6


def whole_worker(settings: Settings, lines: list[bytes], logs: Path) -> float:
    """Both stages with everything they do, exactly once: CPU microseconds an event of the process."""
    pipeline = Pipeline(settings, logs)
    worker = pipeline.start("worker")
    try:
        time.sleep(2)
        before = cpu_seconds(worker.pid)
        publish(lines, settings)
        deadline = time.monotonic() + PATIENCE_S
        while folded(settings.worker_port) < len(lines):
            assert time.monotonic() < deadline, "the worker does not come to the end"
            time.sleep(0.5)  # answering costs the worker a millisecond or two
        return (cpu_seconds(worker.pid) - before) / len(lines) * 1e6
    finally:
        pipeline.stop_all()


class NoSegments(Segmenting):
    """Released events join no segment: what is left is validation, duplicates, ordering and the episodes."""

    def add(self, tx: Tx, name: str, session: Session, step: Step, agent_id: str) -> Session:
        return session


def validation_and_ordering(lines: list[bytes]) -> float:
    """The same fold on the same bytes, in process and without mining: CPU microseconds an event."""
    partitions = 8
    logs: dict[int, list[LogRecord]] = defaultdict(list)
    for number, line in enumerate(lines):
        key = (key_of(line) or b"").decode()
        log = logs[partition_of(key, partitions)]
        log.append(LogRecord(partition_of(key, partitions), len(log), START_MS + number, key.encode(), line))
    started = time.process_time()
    for partition, records in logs.items():
        fold = sessions_fold(partitions, partitions)
        fold._segmenting = NoSegments(partitions)
        executor = Executor(fold, partition)
        for start in range(0, len(records), BATCH_RECORDS):
            executor.run(records[start : start + BATCH_RECORDS])
    return (time.process_time() - started) / len(lines) * 1e6


def main() -> None:
    lines = events()
    empty: list[float] = []
    whole: list[float] = []
    path: list[float] = []
    with tempfile.TemporaryDirectory() as folder, Stack(Path(folder) / "state", keep=False) as stack:
        os.environ["HMX_STATE"] = folder
        for _ in track(range(ROUNDS), "rounds", console=Console(stderr=True)):
            settings = new_settings(stack.kafka_bootstrap)
            create_topics(settings)
            empty.append(empty_agent(settings, lines))
            settings = new_settings(stack.kafka_bootstrap)
            create_topics(settings)
            whole.append(whole_worker(settings, lines, Path(folder)))
            path.append(validation_and_ordering(lines))
    table = Table(title=f"CPU per event, {len(lines):,} events, {ROUNDS} rounds", title_justify="left", box=None)
    for column in ("what", "median", "least", "most"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for what, figures, form in (
        ("empty Faust agent, µs", empty, "{:.1f}"),
        ("validation and ordering, in process, µs", path, "{:.1f}"),
        ("    its ratio", ratios(path, empty), "{:.2f}"),
        ("worker, both stages, exactly once, µs", whole, "{:.1f}"),
        ("    its ratio", ratios(whole, empty), "{:.2f}"),
    ):
        shown = (statistics.median(figures), min(figures), max(figures))
        table.add_row(what, *(form.format(figure) for figure in shown))
    OUT.print(table)


def ratios(ours: list[float], theirs: list[float]) -> list[float]:
    """Round by round."""
    return [mine / empty for mine, empty in zip(ours, theirs, strict=True)]


if __name__ == "__main__":
    main()
