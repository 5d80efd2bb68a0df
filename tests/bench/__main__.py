"""`make bench`: what the pipeline costs, every figure beside a baseline of the same run.

Lines are chosen by name (`python -m tests.bench sessions live`, or LINES="sessions live"); EVENTS and ROUNDS say how
much and how often. Leaves a table and build/bench.json. A bar that is not met is said, and is no failure: this is a
report. Fails where a stage does not do what it is measured at.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from tests.bench import (
    against_empty,
    against_streams,
    against_zaxy,
    doors,
    freshness,
    in_process,
    learning,
    packs,
    processes,
    recovery,
    workload,
)
from tests.bench.kit import Bench
from tests.bench.report import WIDTH, Line, machine, show, write

FAMILIES: Mapping[str, Callable[[Bench], list[Line]]] = {
    "sessions": against_empty.sessions,
    "spaces": against_empty.spaces,
    "invalid": against_empty.invalid,
    "streams": against_streams.streams,
    "live": in_process.live,
    "patterns": in_process.patterns,
    "processes": processes.processes,
    "freshness": freshness.freshness,
    "learning": learning.learning,
    "memory": in_process.memory,
    "restore": recovery.restore,
    "rebuild": recovery.rebuild,
    "packs": packs.packs,
    "doors": doors.doors,
    "zaxy": against_zaxy.zaxy,
}


def main(arguments: Sequence[str]) -> None:
    asked = _asked(arguments)
    here = machine()
    about = {
        "machine": here,
        "events": asked.events,
        "many": asked.many,
        "rounds": asked.rounds,
        "workload": workload.source(),
    }
    lines: list[Line] = []
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with tempfile.TemporaryDirectory() as folder, ExitStack() as closing:
        os.environ["TMPDIR"] = folder
        progress = closing.enter_context(Progress(*columns, console=Console(stderr=True)))
        task = progress.add_task("starting", total=len(asked.lines) * asked.rounds)
        bench = Bench(Path(folder), asked.events, asked.many, asked.rounds, lambda: progress.advance(task), closing)
        for name in asked.lines:
            progress.update(task, description=name)
            lines += FAMILIES[name](bench)
            write(lines, about, asked.out)
    title = f"{asked.events:,} events ({workload.source()}), {asked.rounds} rounds"
    cold = f"{here['cold_page_us']} µs a page of memory that nobody touched for a second"
    show(lines, f"{title}; {cold}", Console(width=WIDTH, highlight=False))


def _asked(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.bench", description="what the pipeline costs")
    chosen = os.environ.get("LINES", "").replace(",", " ").split()
    if set(chosen) - set(FAMILIES):  # a shell may export LINES as its window's height
        chosen = []
    parser.add_argument("lines", nargs="*", default=chosen, help=f"of {', '.join(FAMILIES)}; all unless named")
    parser.add_argument("--events", type=int, default=int(os.environ.get("EVENTS") or 60_000))
    parser.add_argument("--rounds", type=int, default=int(os.environ.get("ROUNDS") or 5))
    parser.add_argument("--many", type=int, default=100_000, help="sessions and patterns, against a hundredth of them")
    parser.add_argument("--out", type=Path, default=Path("build/bench.json"))
    asked = parser.parse_args(arguments)
    if unknown := set(asked.lines) - set(FAMILIES):
        parser.error(f"no such line: {', '.join(sorted(unknown))}; there are {', '.join(FAMILIES)}")
    asked.lines = [name for name in FAMILIES if name in asked.lines or not asked.lines]
    return asked


if __name__ == "__main__":
    main(sys.argv[1:])
