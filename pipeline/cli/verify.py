"""`hmx verify`: law 1 from the topics alone."""

from typing import Annotated

import typer

from pipeline.audit.verify import Report
from pipeline.audit.verify import verify as audit
from pipeline.cli.console import ERR, OUT, print_json, table
from pipeline.contracts.outcomes import Outcome
from pipeline.settings import Settings

SHOWN = 20
_HEADS = {Outcome.RELEASED_LATE: "late", Outcome.LOST_TO_RETENTION: "lost"}


def register(app: typer.Typer) -> None:
    app.command()(verify)


def verify(as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False) -> None:
    """Recomputes from the topics, offset by offset, that every event has exactly one outcome.

    Exit code: 0 conserved, 1 not: every violation is named. Example: hmx wait && hmx verify
    """
    settings = Settings.load()
    if ERR.is_terminal:
        with ERR.status("reading") as line:
            report = audit(settings, lambda what: line.update(f"reading {what}"))
    else:
        report = audit(settings)
    if as_json:
        print_json(report.as_json())
    else:
        _show(report)
    if not report.conserved:
        raise typer.Exit(1)


def _show(report: Report) -> None:
    columns = ["partition", *(_HEADS.get(outcome, outcome.value) for outcome in Outcome), "pending"]
    rows: list[list[object]] = [
        [str(part.partition), *(part.outcomes[outcome] for outcome in Outcome), part.pending]
        for part in report.partitions
    ]
    totals, pending = report.outcomes, sum(part.pending for part in report.partitions)
    rows.append(["all", *(totals[outcome] for outcome in Outcome), pending])
    OUT.print(table("Outcomes", columns, rows))
    if report.rejections:
        OUT.print(table("Rejections", ("reason", "records"), report.rejections.most_common()))
    OUT.print(table("Evidence", ("kind", "records"), report.evidence.most_common()))
    unverified = sum(part.unverified for part in report.partitions)
    if unverified:
        OUT.print(f"{unverified:,} records can't be verified: retention may have taken their outputs or originals")
    if report.conserved:
        OUT.print(f"[bold green]conserved[/]: {totals.total():,} records, each with exactly one outcome")
        return
    rows = [[v.fault, f"{v.topic} {v.partition}:{v.offset}", v.detail] for v in report.violations[:SHOWN]]
    OUT.print(table("Violations", ("what", "where", "detail"), rows))
    faults = ", ".join(f"{count:,} {fault}" for fault, count in report.faults.most_common())
    OUT.print(f"[bold red]not conserved[/]: {faults}")
