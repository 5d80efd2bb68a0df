"""`make act`: does memory let an agent act? The benchmark's agent does tasks with packs of the whole pipeline.

The benchmark lies outside the project (HMX_ACT). SEEDS, FAMILIES and BUDGET choose its worlds and the size of packs,
OVER=mcp asks for them over MCP.
Leaves tables, build/act.json and the exit code 1 where a bar is missed. With `--quick` the same in seconds, without
Kafka and HTTP, for development:

    python -m tests.act --quick --world spedition-1 --show sendung_umbuchen-3
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from hmx_pipeline.cli.stack import end_as_by_interrupt
from tests.act import report
from tests.act.benchmark import FOLDER, ROOT, Benchmark, MissingError, UnplayedError, World

_BUILD = ROOT / "build"
_SEEDS, _BUDGET = "1 2 3 4 5", "600"


def main(arguments: Sequence[str]) -> int:
    asked = _asked(arguments)
    console, errors = Console(width=report.WIDTH, highlight=False), Console(stderr=True, highlight=False)
    started = time.monotonic()
    try:
        benchmark = Benchmark(asked.act, _BUILD / "act_worlds")
        worlds = _worlds(benchmark, asked)
        results = _played(benchmark, worlds, asked, errors)
    except (MissingError, UnplayedError) as error:
        errors.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
        return 2
    for wanted in asked.show:
        if not report.task(results, wanted, console):
            console.print(f"no task {wanted!r}; there are, for one: {' '.join(worlds[0].tasks())}\n")
    if asked.failures:
        report.failures(results, console)
    met = report.show(results, console)
    console.print(f"[dim]{len(worlds)} worlds, {time.monotonic() - started:.0f} s, {asked.json}[/]")
    return 0 if met else 1


def _asked(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.act", description="does memory let an agent act?")
    named = os.environ.get
    parser.add_argument("--act", type=Path, default=FOLDER, help="the folder of the benchmark (HMX_ACT)")
    parser.add_argument(
        "--families",
        default=named("FAMILIES", ""),
        help="all of the benchmark's unless named; `own`: the project's (FAMILIES)",
    )
    parser.add_argument("--seeds", type=_numbers, default=named("SEEDS") or _SEEDS, help=f"{_SEEDS} unless given")
    parser.add_argument("--budget", type=int, default=named("BUDGET") or _BUDGET, help="tokens of a pack (BUDGET)")
    parser.add_argument(
        "--over", choices=("http", "mcp"), default=named("OVER") or "http", help="the door of packs (OVER)"
    )
    parser.add_argument("--world", nargs="+", default=[], help="only these: spedition, spedition-1, the whole name")
    parser.add_argument("--json", type=Path, help="where all results go: build/act.json, build/act_quick.json")
    parser.add_argument("--quick", action="store_true", help="in process, without Kafka and HTTP")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes of --quick")
    parser.add_argument("--show", nargs="+", default=[], metavar="TASK", help="the packs and steps of these tasks")
    parser.add_argument("--failures", action="store_true", help="a line for each task that failed")
    asked = parser.parse_args(arguments)
    os.environ["OVER"] = asked.over  # for the benchmark's process
    asked.json = asked.json or _BUILD / ("act_quick.json" if asked.quick else "act.json")
    return asked


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.replace(",", " ").split()]


def _worlds(benchmark: Benchmark, asked: argparse.Namespace) -> list[World]:
    own = asked.families == "own"
    families = benchmark.families(own) if own or not asked.families else asked.families.replace(",", " ").split()
    worlds = benchmark.worlds(families, asked.seeds)
    chosen = [world for world in worlds if not asked.world or any(map(world.is_called, asked.world))]
    if not chosen:
        raise MissingError(f"no such world; there are {' '.join(world.name for world in worlds)}")
    return chosen


def _played(benchmark: Benchmark, worlds: Sequence[World], asked: argparse.Namespace, errors: Console) -> Any:
    """What is written down too. Either way to play is imported where it is taken: the one knows no Kafka."""
    end_as_by_interrupt()
    if asked.quick:
        from tests.act import quick

        results = quick.play(benchmark, worlds, asked.budget, asked.jobs)
    else:
        from tests.act import whole

        results = whole.play(
            benchmark, worlds, asked.budget, _BUILD / "act_logs", lambda said: errors.print(said, style="dim")
        )
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps(results, ensure_ascii=False, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return results


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
