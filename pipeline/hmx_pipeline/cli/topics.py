"""`hmx topics`: compares the topic files with the cluster, and applies the difference.

Exit codes: 0 no difference or all applied; 2 changes pending; 1 refused, declined, Kafka unreachable or a bad file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from confluent_kafka.admin import AdminClient

from hmx_pipeline.cli.console import OUT, fail, plain, print_json, table
from hmx_pipeline.kafka.topic_files import KafkaUnreachableError, apply, connect, load_topics, read_cluster
from hmx_pipeline.kafka.topic_plan import PlanVerdict, SettingChange, TopicPlan, plan
from hmx_pipeline.settings import Settings

PENDING = 2
FAILED = 1
_HEADLINE = ("cleanup.policy", "retention.ms", "max.message.bytes", "message.timestamp.type")
_ENDLESS = ("-1", str(2**63 - 1))
_UNITS: Mapping[str, Sequence[tuple[int, str]]] = {
    ".ms": ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")),
    ".bytes": ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")),
}

group = typer.Typer(no_args_is_help=True, help="Compares topics/*.yaml with the cluster, and applies the difference.")
Bootstrap = Annotated[
    str | None, typer.Option(help="host:port[,host:port…]; default: HMX_KAFKA_BOOTSTRAP, then the local stack.")
]
AllowShrink = Annotated[bool, typer.Option("--allow-shrink", help="Allow shorter retention, which deletes records.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Apply without asking.")]


@group.command("plan")
def plan_command(bootstrap: Bootstrap = None, allow_shrink: AllowShrink = False, as_json: AsJson = False) -> None:
    """Shows the difference between topic files and cluster; changes nothing.

    Exit code: 0 no difference, 2 changes pending, 1 a change is refused, or it failed.

    Example: hmx topics plan --bootstrap localhost:9092
    """
    _, found = _compare(bootstrap, allow_shrink)
    _show(found, as_json)
    raise typer.Exit({PlanVerdict.CLEAN: 0, PlanVerdict.PENDING: PENDING, PlanVerdict.REFUSED: FAILED}[found.verdict])


@group.command("apply")
def apply_command(
    bootstrap: Bootstrap = None, allow_shrink: AllowShrink = False, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Shows the difference, asks, and changes the cluster to match the topic files.

    If any change is refused, none is applied. Exit code: 0 the cluster matches the files, 1 refused, declined or
    failed.

    Example: hmx topics apply --yes
    """
    admin, found = _compare(bootstrap, allow_shrink)
    _show(found, as_json)
    if found.verdict is PlanVerdict.REFUSED:
        raise typer.Exit(FAILED)
    if found.verdict is PlanVerdict.CLEAN:
        return
    if not yes:
        typer.confirm(f"Apply to {len(found.topics)} topics?", abort=True, err=True)
    apply(admin, found)
    if not as_json:
        OUT.print(f"[green]applied[/] to {len(found.topics)} topics")


def _compare(bootstrap: str | None, allow_shrink: bool) -> tuple[AdminClient, TopicPlan]:
    settings = Settings.load()
    specs = load_topics(prefix=settings.topic_prefix)
    address = settings.require_kafka(bootstrap or "")
    admin = connect(address)
    try:
        cluster = read_cluster(admin, [spec.topic for spec in specs])
    except KafkaUnreachableError as error:
        fail(f"no Kafka answers at {address} ({error}): start one with `hmx up`, or check HMX_KAFKA_BOOTSTRAP")
    return admin, plan(specs, cluster, allow_shrink=allow_shrink)


def _show(found: TopicPlan, as_json: bool) -> None:
    """Prints a plan within 80 columns."""
    if as_json:
        lists = {
            name: list(map(asdict, getattr(found, name))) for name in ("creations", "changes", "refusals", "notes")
        }
        print_json({"verdict": found.verdict, **lists})
        return
    if found.verdict is PlanVerdict.CLEAN:
        OUT.print("[green]no difference[/]: the cluster matches the topic files")
    if found.creations:
        columns = ("create", "partitions", "policy", "kept", "record", "time")
        rows = [
            (
                new.topic,
                f"{new.partitions} × {new.replicas}",
                *(humanised(name, new.config[name]) for name in _HEADLINE),
            )
            for new in found.creations
        ]
        OUT.print(table("", columns, rows))
    refused = [refusal.change for refusal in found.refusals]
    for title, changes in (("change", found.changes), ("[red]refused[/]", refused)):
        if changes:
            OUT.print(table("", (title, "setting", "now", "then"), list(map(_cells, changes))))
    for refusal in found.refusals:
        where = f"{refusal.change.topic} {refusal.change.setting}"
        OUT.print(f"[red]refused[/] {plain(where)}: {plain(refusal.reason)}")
    for note in found.notes:
        OUT.print(f"[yellow]note[/] {plain(note.topic)} {plain(note.text)}")


def _cells(change: SettingChange) -> tuple[str, str, str, str]:
    then = "default" if change.new is None else humanised(change.setting, change.new)
    return change.topic, change.setting, humanised(change.setting, change.old), then


def humanised(setting: str, value: str) -> str:
    """Formats 2592000000 as `30 d` and 2097152 as `2 MB`, if that is exact."""
    units = next((units for ending, units in _UNITS.items() if setting.endswith(ending)), ())
    if units and value in _ENDLESS:
        return "no limit"
    for size, unit in units:
        if int(value) and int(value) % size == 0:
            return f"{int(value) // size} {unit}"
    return value
