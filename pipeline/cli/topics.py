"""`hmx topics`: the difference between the topic files and the cluster, shown, and applied.

Enters: options and settings. Leaves: a table, or JSON, and an exit code: 0 no difference or all applied, 2 changes
pending, 1 a refusal, an unreachable Kafka, a bad file, or a "no" at the question.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from confluent_kafka.admin import AdminClient
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipeline.cli.console import OUT, fail, print_json
from pipeline.kafka.plan import Change, Creation, Plan, Verdict, plan
from pipeline.kafka.topics import KafkaUnreachableError, apply, connect, load_topics, read_cluster
from pipeline.settings import Settings

PENDING = 2
FAILED = 1
_HEADLINE = ("cleanup.policy", "retention.ms", "max.message.bytes", "message.timestamp.type")
_ENDLESS = ("-1", str(2**63 - 1))
_UNITS: Mapping[str, Sequence[tuple[int, str]]] = {
    ".ms": ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")),
    ".bytes": ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")),
}

group = typer.Typer(no_args_is_help=True, help="Topics as code: topics/*.yaml against the cluster.")
Bootstrap = Annotated[
    str | None, typer.Option(help="host:port[,host:port…]; else HMX_KAFKA_BOOTSTRAP, else the local stack.")
]
AllowShrink = Annotated[bool, typer.Option("--allow-shrink", help="Let retention get shorter, which deletes records.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Apply without asking.")]


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="topics")


@group.command("plan")
def plan_command(bootstrap: Bootstrap = None, allow_shrink: AllowShrink = False, as_json: AsJson = False) -> None:
    """Show what differs between the topic files and the cluster; change nothing.

    Exit code: 0 no difference, 2 changes pending, 1 something is refused or failed.

    Example: hmx topics plan --bootstrap localhost:9092
    """
    _, found = _compare(bootstrap, allow_shrink)
    _show(found, as_json)
    raise typer.Exit({Verdict.CLEAN: 0, Verdict.PENDING: PENDING, Verdict.REFUSED: FAILED}[found.verdict])


@group.command("apply")
def apply_command(
    bootstrap: Bootstrap = None, allow_shrink: AllowShrink = False, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Show the difference, ask, and make the cluster like the topic files.

    Applies nothing if anything is refused. Exit code: 0 the cluster is like the files, 1 refused, declined or failed.

    Example: hmx topics apply --yes
    """
    admin, found = _compare(bootstrap, allow_shrink)
    _show(found, as_json)
    if found.verdict is Verdict.REFUSED:
        raise typer.Exit(FAILED)
    if found.verdict is Verdict.CLEAN:
        return
    if not yes:
        typer.confirm(f"Apply to {len(found.topics)} topics?", abort=True, err=True)
    apply(admin, found)
    if not as_json:
        OUT.print(f"[green]applied[/] to {len(found.topics)} topics")


def _compare(bootstrap: str | None, allow_shrink: bool) -> tuple[AdminClient, Plan]:
    settings = Settings.load()
    specs = load_topics(prefix=settings.topic_prefix)
    address = bootstrap or settings.require_kafka()
    admin = connect(address)
    try:
        cluster = read_cluster(admin, [spec.topic for spec in specs])
    except KafkaUnreachableError as error:
        fail(f"no Kafka answers at {address} ({error}): start one with `hmx up`, or check HMX_KAFKA_BOOTSTRAP")
    return admin, plan(specs, cluster, allow_shrink=allow_shrink)


def _show(found: Plan, as_json: bool) -> None:
    if as_json:
        print_json({"verdict": found.verdict, **asdict(found)})
    else:
        show_plan(found, OUT)


def show_plan(found: Plan, console: Console) -> None:
    """Fits 80 columns."""
    if found.verdict is Verdict.CLEAN:
        console.print("[green]no difference[/]: the cluster is like the topic files")
    if found.creations:
        console.print(_creations(found.creations))
    if found.changes:
        console.print(_changes("change", found.changes))
    if found.refusals:
        console.print(_changes("[red]refused[/]", [refusal.change for refusal in found.refusals]))
    for refusal in found.refusals:
        where = f"{refusal.change.topic} {refusal.change.setting}"
        console.print(f"[red]refused[/] {escape(where)}: {escape(refusal.reason)}", highlight=False)
    for note in found.notes:
        console.print(f"[yellow]note[/] {escape(note.topic)} {escape(note.text)}", highlight=False)


def _creations(creations: Iterable[Creation]) -> Table:
    """`8 × 3`: eight partitions of three replicas."""
    table = _table("create", "partitions", "policy", "kept", "record", "time")
    for item in creations:
        values = (humanised(setting, item.config[setting]) for setting in _HEADLINE)
        table.add_row(escape(item.topic), f"{item.partitions} × {item.replicas}", *values)
    return table


def _changes(title: str, changes: Iterable[Change]) -> Table:
    table = _table(title, "setting", "now", "then")
    for change in changes:
        new = "default" if change.new is None else humanised(change.setting, change.new)
        table.add_row(escape(change.topic), change.setting, humanised(change.setting, change.old), new)
    return table


def _table(*columns: str) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def humanised(setting: str, value: str) -> str:
    """2592000000 as `30 d`, 2097152 as `2 MB`, where that is exact."""
    units = next((units for ending, units in _UNITS.items() if setting.endswith(ending)), ())
    if units and value in _ENDLESS:
        return "no limit"
    for size, unit in units:
        if int(value) and int(value) % size == 0:
            return f"{int(value) // size} {unit}"
    return value
