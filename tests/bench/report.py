"""Figures of a run as lines: medians, spread, the bar and whether it is met; as a table and as build/bench.json.

Enters: per line one figure a round, and where there is one the baseline's figure of the same round. Nothing fails.
"""

import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

WIDTH: Final = 100
PACKAGES: Final = ("faust-streaming", "aiokafka", "confluent-kafka", "orjson", "msgspec", "pydantic", "redis")


@dataclass(frozen=True)
class Bar:
    """What a line must reach, by its ratio to the baseline or by its own value."""

    sign: str
    """≤ or ≥"""
    limit: float
    ratio: bool = True

    def met(self, figure: float) -> bool:
        return figure <= self.limit if self.sign == "≤" else figure >= self.limit

    def __str__(self) -> str:
        return f"{self.sign} {self.limit:,g}{' ×' if self.ratio else ''}"


@dataclass(frozen=True)
class Line:
    name: str
    unit: str
    values: Sequence[float]
    """One a round."""
    baseline: str = ""
    """What `baselines` are the figures of."""
    baselines: Sequence[float] = ()
    bar: Bar | None = None
    instead: str = ""
    """Why the bar counts as met although it may not be; lines of their own show it."""
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def ratios(self) -> list[float]:
        """Round by round."""
        if not self.baselines:
            return []
        return [value / base if base else float("inf") for value, base in zip(self.values, self.baselines, strict=True)]

    @property
    def judged(self) -> Sequence[float]:
        """The figures that the bar is about: those whose spread is shown."""
        return self.ratios if self.ratios and (self.bar is None or self.bar.ratio) else self.values

    @property
    def met(self) -> bool | None:
        return None if self.bar is None else bool(self.instead) or self.bar.met(statistics.median(self.judged))

    def as_json(self) -> dict[str, Any]:
        return {
            "line": self.name,
            "value": round(statistics.median(self.values), 4),
            "unit": self.unit,
            "baseline": round(statistics.median(self.baselines), 4) if self.baselines else None,
            "baseline_is": self.baseline or None,
            "ratio": round(statistics.median(self.ratios), 4) if self.ratios else None,
            "bar": str(self.bar) if self.bar else None,
            "met": self.met,
            "low": round(min(self.judged), 4),
            "high": round(max(self.judged), 4),
            **({"instead": self.instead} if self.instead else {}),
            **self.notes,
        }


def machine() -> dict[str, Any]:
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "cold_page_us": _cold_page_us(),
        "load_before": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
        "commit": _commit(),
        **{package: version(package) for package in PACKAGES},
    }


def _cold_page_us() -> float:
    """CPU microseconds for a page of memory that was not touched for a second. Some virtual machines take a hundred
    times as long as for one that was: an idle process costs there what it touches, however little it does."""
    block, page = memoryview(bytearray(16 * 2**20)), os.sysconf("SC_PAGE_SIZE")
    bytes(block[::page])
    time.sleep(1.0)
    began = time.thread_time()
    pages = len(bytes(block[::page]))
    return round((time.thread_time() - began) / pages * 1e6, 2)


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _commit() -> str:
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip()


def write(lines: Sequence[Line], about: dict[str, Any], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({**about, "lines": [line.as_json() for line in lines]}, indent=1, ensure_ascii=False))


def show(lines: Sequence[Line], title: str, console: Console) -> None:
    """Fits 100 columns. Below the table: how many bars are met, and which are not."""
    table = Table(title=title, title_justify="left", box=None, width=WIDTH, pad_edge=False)
    table.add_column("what", ratio=1)
    for column in ("median", "baseline", "ratio", "least–most", "bar", "met"):
        table.add_column(column, justify="right", no_wrap=True)
    for line in lines:
        base = number(statistics.median(line.baselines)) if line.baselines else ""
        ratio = number(statistics.median(line.ratios)) if line.ratios else ""
        spread = f"{number(min(line.judged))}–{number(max(line.judged))}"
        met = {None: "", True: "[green]yes[/]", False: "[bold red]NO[/]"}[line.met]
        row = (f"{line.name}, {line.unit}", number(statistics.median(line.values)), base, ratio, spread)
        table.add_row(*row, str(line.bar or ""), met)
    console.print(table)
    barred = [line for line in lines if line.met is not None]
    missed = [f"{line.name}, {line.unit}" for line in barred if not line.met]
    console.print(f"\n{len(barred) - len(missed)} of {len(barred)} bars met")
    for name in missed:
        console.print(f"not met: {name}")
    for line in barred:
        if line.instead:
            console.print(f"met otherwise: {line.name}, {line.unit}: {line.instead}")


def number(figure: float) -> str:
    """Three digits that matter."""
    if figure >= 100:
        return f"{figure:,.0f}"
    return f"{figure:.1f}" if figure >= 10 else f"{figure:.2f}"
