"""`hmx table sessions`, `hmx table patterns`: stage state, read from the state topics.

Enters: the state topics, and which tenant, order and number of rows. Leaves: rows with totals, as a table or JSON.
"""

import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import typer

from hmx_pipeline.cli.console import OUT, AsJson, print_json, saying, table
from hmx_pipeline.runtime.state_topics import state_records
from hmx_pipeline.settings import Settings
from hmx_pipeline.stages.state_tables import (
    PatternRow,
    PatternSort,
    R,
    SessionRow,
    SessionSort,
    in_order,
    pattern_rows,
    pattern_totals,
    session_rows,
    session_totals,
)
from hmx_pipeline.topology import PATTERNS, SESSIONS

SHOWN: Final = 20
TENANT: Final = 12
NAME: Final = 24
TITLE: Final = 32

group: Final = typer.Typer(no_args_is_help=True)
Tenant = Annotated[str | None, typer.Option(help="Only this tenant.")]
Limit = Annotated[int | None, typer.Option(min=1, help=f"Rows to show; default: {SHOWN}, with --json all.")]


@group.command()
def sessions(
    tenant: Tenant = None,
    limit: Limit = None,
    sort: Annotated[SessionSort, typer.Option(help="Sort column; numbers and times descend.")] = SessionSort.CHANGED,
    as_json: AsJson = False,
) -> None:
    """Shows the sessions in state: events released, waiting behind a gap, and in the open segment.

    Exit code: 0 shown. Example: hmx table sessions --sort waiting
    """
    with saying("reading", in_terminal=True) as say:
        rows = in_order(session_rows(state_records(Settings.load(), SESSIONS, tenant, on_progress=say), tenant), sort)
    columns = ("tenant", "session", "released", "next", "waiting", "segment", "changed")
    _show(rows, session_totals(rows), limit, as_json, columns, _session)


@group.command()
def patterns(
    tenant: Tenant = None,
    limit: Limit = None,
    sort: Annotated[
        PatternSort, typer.Option(help="Sort column; numbers and times descend.")
    ] = PatternSort.CONTRIBUTIONS,
    as_json: AsJson = False,
) -> None:
    """Shows the patterns: contributions, sessions, and the artifact compiled from them.

    Exit code: 0 shown. Example: hmx table patterns --tenant acme --sort confidence
    """
    with saying("reading", in_terminal=True) as say:
        rows = in_order(pattern_rows(state_records(Settings.load(), PATTERNS, tenant, on_progress=say), tenant), sort)
    columns = ("tenant", "type", "pattern", "contrib.", "sessions", "status", "conf.")
    _show(rows, pattern_totals(rows), limit, as_json, columns, _pattern)


def _show(
    rows: Sequence[R],
    totals: dict[str, int],
    limit: int | None,
    as_json: bool,
    columns: Sequence[str],
    cells: Callable[[R], Sequence[Any]],
) -> None:
    if as_json:
        print_json({"totals": totals, "rows": [row.as_json() for row in rows[:limit]]})
        return
    shown = rows[: limit or SHOWN]
    if shown:
        OUT.print(table("", columns, [cells(row) for row in shown]))
    said = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in totals.items())
    OUT.print(f"[bold]all[/]  {said}")
    if len(shown) < len(rows):
        OUT.print(f"[dim]{len(rows) - len(shown):,} more: raise --limit, or use --json for all[/]")


def _session(row: SessionRow) -> Sequence[Any]:
    name = _short(row.tenant, TENANT), _short(row.session, NAME)
    return (*name, row.released, "-" if row.next is None else row.next, row.waiting, row.segment, _ago(row.changed))


def _pattern(row: PatternRow) -> Sequence[Any]:
    name = _short(row.tenant, TENANT), row.type, _short(row.title or row.key, TITLE)
    said = f"{row.status} {row.version}".strip() if row.status else "-"
    confidence = f"{row.confidence:.2f}" if row.status else "-"
    return (*name, row.contributions, row.sessions, f"{said} *" if row.pending else said, confidence)


def _short(text: str, most: int) -> str:
    """Shortens text in the middle, since ids differ mostly at their ends."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[: most // 2]}…{flat[-(most - most // 2 - 1) :]}"


def _ago(at_ms: int) -> str:
    seconds = max(0.0, time.time() - at_ms / 1000)
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"
