"""`hmx schemas`: the JSON Schemas of the topics, registered for the tools of others.

Enters: the topic files, and HMX_SCHEMA_REGISTRY_URL. Leaves: the difference as a table or JSON, and after consent the
registered subjects, none if one is incompatible; exit code 2 if changes are pending.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from hmx_pipeline.cli.console import OUT, AsJson, fail, plain, print_json, table
from hmx_pipeline.cli.topics import FAILED, PENDING, Yes
from hmx_pipeline.kafka.schema_registry import (
    RegistryError,
    SchemaRegistry,
    SubjectPlan,
    plan_subjects,
    register_subject,
)
from hmx_pipeline.kafka.topic_files import load_topics
from hmx_pipeline.settings import Settings

group = typer.Typer(no_args_is_help=True)
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]


@group.command("register")
def register_command(dry_run: DryRun = False, yes: Yes = False, as_json: AsJson = False) -> None:
    """Shows which subjects differ from the schemas of this release, asks, and registers them.

    The registry is HMX_SCHEMA_REGISTRY_URL, a subject is a topic's name and `-value`. If any schema is incompatible,
    none is registered. Exit code: 0 nothing differs or all are registered, 2 changes pending (--dry-run), 1 refused,
    declined or failed.

    Example: hmx schemas register --dry-run
    """
    settings = Settings.load()
    try:
        registry = SchemaRegistry(*settings.require_schema_registry())
        found = plan_subjects(registry, load_topics(prefix=settings.topic_prefix))
        pending = [each for each in found if each.pending]
        _show(registry, found, as_json)
        if any(each.clash for each in found):
            raise typer.Exit(FAILED)
        if pending and dry_run:
            raise typer.Exit(PENDING)
        if pending and not yes:
            typer.confirm(f"Register {len(pending)} subjects?", abort=True, err=True)
        for each in pending:
            register_subject(registry, each)
    except RegistryError as error:
        fail(str(error))
    if pending and not as_json:
        OUT.print(f"[green]registered[/] {len(pending)} subjects")


def _show(registry: SchemaRegistry, found: Sequence[SubjectPlan], as_json: bool) -> None:
    if as_json:
        print_json([{**asdict(each), "pending": each.pending} for each in found])
        return
    rows = [
        (
            each.subject,
            f"version {each.version}" if each.version else "new version" if each.latest else "new subject",
            each.rule if each.level == each.rule else f"{each.level or 'the default'} → {each.rule}",
        )
        for each in found
    ]
    OUT.print(table("", ("subject", "schema", "compatibility"), rows))
    for each in found:
        if each.clash:
            said = f"differs from version {each.latest} incompatibly, so nothing is registered: {each.clash}. If that"
            mend = f"version is not HMX's, remove it: curl -X DELETE {registry.url}/subjects/{each.subject}"
            OUT.print(f"[red]refused[/] {plain(each.subject)} {plain(said)} {plain(mend)}", soft_wrap=True)
    if not any(each.pending for each in found):
        OUT.print("[green]no difference[/]: the registry has the schemas of this release")
