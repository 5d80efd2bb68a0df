"""Figures as a table and as build/quality.json. Enters: figures in the order of their tasks. Nothing fails."""

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.quality.figures import Figure

WIDTH: Final = 100


def write(figures: Sequence[Figure], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps([f.as_json() for f in figures], indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def show(figures: Sequence[Figure], console: Console) -> None:
    """A group for each set of a task, a line for each metric. Below: how many bars are met, which are not, and what
    figures have to say of themselves."""
    table = Table(box=None, width=WIDTH, pad_edge=False)
    table.add_column("", no_wrap=True, ratio=1)
    for column in ("value", "baseline", "difference, 95 %", "bar", "met"):
        table.add_column(column, justify="right", no_wrap=True)
    for (task, of), group in groupby(figures, lambda figure: (figure.task, figure.set)):
        table.add_row(f"[bold]{task}: {of}[/]")
        for figure in group:
            table.add_row(*_row(figure))
    console.print(table)
    barred = [figure for figure in figures if figure.met is not None]
    missed = [figure for figure in barred if not figure.met]
    console.print(f"\n{len(barred) - len(missed)} of {len(barred)} bars met")
    for figure in missed:
        console.print(f"not met: {figure.task} {figure.set} {figure.metric}")
    for note in dict.fromkeys(f"{figure.task} {figure.set}: {figure.note}" for figure in figures if figure.note):
        console.print(note)


def _row(figure: Figure) -> tuple[str, ...]:
    baseline = "" if figure.baseline is None else f"{figure.baseline:.3f}"
    spread = ""
    if figure.low is not None and figure.high is not None:
        sign = "" if figure.baseline is None else "+"
        spread = f"{figure.low:{sign}.3f} … {figure.high:{sign}.3f}"
    met = {None: "", True: "[green]yes[/]", False: "[bold red]NO[/]"}[figure.met]
    return f"  {figure.metric}", f"{figure.value:.3f}", baseline, spread, str(figure.bar or ""), met
