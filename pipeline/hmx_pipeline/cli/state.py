"""`hmx state rebuild`: rebuilds the state of one partition from the log."""

from enum import StrEnum
from typing import Annotated, Final

import typer

from hmx_pipeline.cli.console import OUT, AsJson, fail, plain, print_json, progress_bar
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import PATTERNS, SESSIONS, STAGES

group: Final = typer.Typer(no_args_is_help=True)


class StageName(StrEnum):
    SESSIONS = SESSIONS.name
    PATTERNS = PATTERNS.name


@group.callback()
def _group() -> None:
    """Keeps `rebuild` a subcommand although it is the only one."""


@group.command()
def rebuild(
    partition: Annotated[int, typer.Argument(min=0, help="Partition of the events topic or evidence topic.")],
    stage: Annotated[StageName, typer.Option(help="The stage, as shown by /readyz and `hmx status`.")],
    force: Annotated[
        bool, typer.Option("--force", help="Rebuild readable state too, or state whose log is incomplete.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Folds one partition of the log again and replaces its state. It publishes no output; the worker then resumes by
    itself.

    Workers may keep running. With --force, a worker that still processes the partition ends and is restarted by its
    supervisor. HMX_ORDERING and HMX_WINDOW_MS must have the worker's values.

    Exit code: 0 rebuilt, 1 refused or failed with nothing changed. Example: hmx state rebuild 3 --stage sessions
    """
    from hmx_pipeline.audit.state_rebuild import RebuildError, rebuild_state

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
        f" {done.records:,} state records, {done.written:,} written, {done.removed:,} removed; the stage continues"
        f" at offset {done.position:,}",
        soft_wrap=True,
    )
    return None
