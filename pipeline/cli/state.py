"""`hmx state rebuild`: a partition's state anew from the log."""

from enum import StrEnum
from typing import Annotated, Final

import typer

from pipeline.cli.console import OUT, fail, plain, print_json, progress_bar
from pipeline.settings import Settings
from pipeline.topology import PATTERNS, SESSIONS, STAGES

group: Final = typer.Typer(
    name="state",
    help="Mends the state of a stage that can't be read.",
    no_args_is_help=True,
    add_completion=False,
)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="state")


class StageName(StrEnum):
    SESSIONS = SESSIONS.name
    PATTERNS = PATTERNS.name


@group.callback()
def _group() -> None:
    """`rebuild` stays a word of its own while it is the only command."""


@group.command()
def rebuild(
    partition: Annotated[int, typer.Argument(min=0, help="Of the events topic, or of the evidence topic.")],
    stage: Annotated[StageName, typer.Option(help="Whose state; /readyz and `hmx status` say which.")],
    force: Annotated[
        bool, typer.Option("--force", help="Rebuild state that can be read, or that the log does not give any more.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Folds a partition of the log anew and replaces its state. It writes no output; the worker goes on by itself.

    Workers may run. One that still processes this partition, which --force allows, ends and is started again by its
    supervisor. HMX_ORDERING and HMX_WINDOW_MS have to be the worker's.

    Exit code: 0 rebuilt, 1 refused or failed: nothing was changed. Example: hmx state rebuild 3 --stage sessions
    """
    from pipeline.audit.state_rebuild import RebuildError, rebuild_state

    chosen = next(each for each in STAGES if each.name == stage)
    try:
        with progress_bar() as on_progress:
            done = rebuild_state(Settings.load(), chosen, partition, force=force, on_progress=on_progress)
    except RebuildError as error:
        fail(str(error))
    if as_json:
        return print_json(done._asdict())
    for note in done.notes:
        OUT.print(f"[yellow]forced[/]: {plain(note)}", soft_wrap=True)
    OUT.print(
        f"[bold green]rebuilt[/]: stage {done.stage}, partition {done.partition}: {done.folded:,} records folded,"
        f" {done.records:,} state records, of which {done.written:,} written, {done.removed:,} removed; the stage goes"
        f" on at offset {done.position:,}",
        soft_wrap=True,
    )
    return None
