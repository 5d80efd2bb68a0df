"""Figures as a table and as build/quality.json. Enters: figures in the order of their tasks. Nothing fails."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.quality.figures import Figure

WIDTH: Final = 110


def write(figures: Sequence[Figure], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps([f.as_json() for f in figures], indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def show(figures: Sequence[Figure], console: Console) -> None:
    """Below the table: how many bars are met, which are not, and what figures have to say of themselves."""
    table = Table(box=None, width=WIDTH, pad_edge=False)
    table.add_column("task", no_wrap=True)
    table.add_column("set", no_wrap=True)
    table.add_column("metric", ratio=1)
    for column in ("value", "baseline", "difference, 95 %", "bar", "met"):
        table.add_column(column, justify="right", no_wrap=True)
    for figure in figures:
        baseline = "" if figure.baseline is None else f"{figure.baseline:.3f}"
        spread = ""
        if figure.low is not None and figure.high is not None:
            sign = "" if figure.baseline is None else "+"
            spread = f"{figure.low:{sign}.3f} … {figure.high:{sign}.3f}"
        met = {None: "", True: "[green]yes[/]", False: "[bold red]NO[/]"}[figure.met]
        row = (figure.task, figure.set, figure.metric, f"{figure.value:.3f}", baseline, spread)
        table.add_row(*row, str(figure.bar or ""), met)
    console.print(table)
    barred = [figure for figure in figures if figure.met is not None]
    missed = [figure for figure in barred if not figure.met]
    console.print(f"\n{len(barred) - len(missed)} of {len(barred)} bars met")
    for figure in missed:
        console.print(f"not met: {figure.task} {figure.set} {figure.metric}")
    for note in dict.fromkeys(f"{figure.task} {figure.set}: {figure.note}" for figure in figures if figure.note):
        console.print(note)
