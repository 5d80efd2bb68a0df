"""Results as tables: worlds, kinds, reasons, bars; and single tasks as they were played. Nothing fails."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.act.bars import GOOD_STEPS, PACKS, REPLAY, Bar, bars, kind_means

WIDTH: Final = 150
_FIGURES: Final = ("success", "clean", "replay", "harm", "replay's", "ratio", "tokens")


def show(results: Mapping[str, Any], console: Console) -> bool:
    """Whether all bars are met."""
    console.print(_worlds(results))
    console.print(_reasons(results))
    found = list(bars(results))
    console.print(_bars(found, len(results)))
    missed = [bar for bar in found if not bar.met]
    console.print(f"{len(found) - len(missed)} of {len(found)} bars met\n")
    return not missed


def _worlds(results: Mapping[str, Any]) -> Table:
    worlds = {name: result["agents"] for name, result in results.items()}
    means, usual = kind_means(results), kind_means(results, GOOD_STEPS)
    table = _table("world", *_FIGURES, *means)
    for name, own in worlds.items():
        packs = own[PACKS]
        ratio = "-" if packs["ratio"] is None else f"{packs['ratio']:.2f}"
        table.add_row(
            name,
            *(f"{packs['success']:.3f}", f"[bold]{packs['clean']:.3f}[/]", f"[dim]{own[GOOD_STEPS]['clean']:.3f}[/]"),
            *(f"{packs['harm']}", f"[dim]{own[REPLAY]['harm']}[/]", ratio, f"{packs['tokens']}"),
            *(f"{packs['by_kind'][kind]:.2f}" for kind in means),
        )
    table.add_section()
    table.add_row("all", *_totals(list(worlds.values())), *(f"[bold]{mean:.2f}[/]" for mean in means.values()))
    table.add_row("[dim]replay, good steps", *[""] * len(_FIGURES), *(f"[dim]{usual[kind]:.2f}[/]" for kind in means))
    return table


def _totals(worlds: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Of all worlds, in the order of the columns."""

    def mean(agent: str, figure: str) -> float:
        values = [own[agent][figure] for own in worlds if own[agent][figure] is not None]
        return float(sum(values) / len(values)) if values else 0.0

    yield f"{mean(PACKS, 'success'):.3f}"
    yield f"[bold]{mean(PACKS, 'clean'):.3f}[/]"
    yield f"[dim]{mean(GOOD_STEPS, 'clean'):.3f}[/]"
    yield f"{sum(own[PACKS]['harm'] for own in worlds)}"
    yield f"[dim]{sum(own[REPLAY]['harm'] for own in worlds)}[/]"
    yield f"{mean(PACKS, 'ratio'):.2f}"
    yield f"{mean(PACKS, 'tokens'):.0f}"


def _reasons(results: Mapping[str, Any]) -> Table:
    """Of failures, by kind of rule."""
    counted = Counter((run["reason"], run["kind"]) for one in results.values() for run in one["runs"] if run["reason"])
    reasons = Counter({reason: 0 for reason, _ in counted})
    for (reason, _), count in counted.items():
        reasons[reason] += count
    kinds = list(kind_means(results))
    table = _table("reason of failure", "tasks", *kinds)
    for reason, count in sorted(reasons.items(), key=lambda one: (-one[1], one[0])):
        table.add_row(reason, f"[bold]{count}[/]", *(str(counted[reason, kind] or "") for kind in kinds))
    return table


def _bars(found: Sequence[Bar], worlds: int) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("bar", "met", "worst"):
        table.add_column(column, no_wrap=True)
    for bar in found:
        met = "[green]passed[/]" if bar.met else "[bold red]MISSED[/]"
        among = f", missed in {bar.missed_in} of {worlds}" if bar.missed_in else ""
        table.add_row(bar.what, met, bar.found + among)
    return table


def _table(first: str, *columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def failures(results: Mapping[str, Any], console: Console) -> None:
    """A line for each."""
    for name, result in results.items():
        for run in result["runs"]:
            if run["reason"]:
                console.print(f"{name} {run['id']}: [bold]{run['reason']}[/]: {escape(run['goal'])}", soft_wrap=True)


def task(results: Mapping[str, Any], wanted: str, console: Console) -> int:
    """All that the agent read and did in a task, by its id, or in all tasks of a type; how many there were."""
    shown = 0
    for name, result in results.items():
        for run in result["runs"]:
            if wanted in (run["id"], run["id"].rpartition("-")[0]):
                _played(name, run, console)
                shown += 1
    return shown


def _played(world: str, run: Mapping[str, Any], console: Console) -> None:
    outcome = "[green]clean[/]" if run["clean"] else f"[bold red]{run['reason']}[/]"
    console.rule(f"[bold]{world} {run['id']}[/] ({run['kind']}): {outcome}", align="left")
    for pack in run["packs"]:
        console.print(f"[bold cyan]? {escape(pack['query'])}[/]", soft_wrap=True)
        for entry in pack["entries"]:
            console.print(entry, markup=False, highlight=False, soft_wrap=True)
    for step in run["trail"]:
        mark = "[green]ok[/]  " if step["ok"] else "[red]no[/]  "
        note = f" [yellow]({step['note']})[/]" if step["note"] else ""
        console.print(f"{mark}{escape(step['action'])}{note} → {escape(step['said'])}", highlight=False, soft_wrap=True)
    done = "done" if run["done"] else "not done"
    console.print(f"{outcome}: {done}, harm {run['harm']}, ratio {run['ratio']}, tokens {run['tokens']}\n")
