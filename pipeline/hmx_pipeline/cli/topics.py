"""`hmx topics`: compares topic files with the cluster, applies the difference, copies the log into more partitions.

Enters: `topics/*.yaml` and the cluster. Leaves: the difference as tables or JSON; with consent, topics created and
changed, or copied. Exit codes: 0 no difference or all applied; 2 changes pending; 1 refused, declined, Kafka
unreachable or a bad file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from hmx_pipeline.cli.console import OUT, fail, many, plain, print_json, progress_bar, table
from hmx_pipeline.kafka.preflight import reaching
from hmx_pipeline.kafka.topic_files import TopicsError, apply, connect, load_topics, read_cluster
from hmx_pipeline.kafka.topic_plan import PlanVerdict, SettingChange, TopicPlan, plan, sized
from hmx_pipeline.settings import Settings

if TYPE_CHECKING:
    from hmx_pipeline.audit.grow import Growth

PENDING = 2
FAILED = 1
COPIED_A_MINUTE = 200_000
_HEADLINE = ("cleanup.policy", "retention.ms", "max.message.bytes", "message.timestamp.type")
_ENDLESS = ("-1", str(2**63 - 1))
_UNITS: Mapping[str, Sequence[tuple[int, str]]] = {
    ".ms": ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")),
    ".bytes": ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")),
}

group = typer.Typer(no_args_is_help=True)
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
    bootstrap: Bootstrap = None,
    allow_shrink: AllowShrink = False,
    yes: Yes = False,
    as_json: AsJson = False,
    partitions: Annotated[int, typer.Option(min=0, help="Of topics that are new; default: as the files say.")] = 0,
) -> None:
    """Shows the difference, asks, and changes the cluster to match the topic files.

    If any change is refused, none is applied. Exit code: 0 the cluster matches the files, 1 refused, declined or
    failed.

    Example: hmx topics apply --yes
    """
    admin, found = _compare(bootstrap, allow_shrink, partitions)
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


@group.command("grow")
def grow_command(
    partitions: Annotated[int, typer.Option(help="Of each topic; a multiple of what there is.")],
    to: Annotated[str, typer.Option(help="The new generation's HMX_TOPIC_PREFIX, with its dot: g2.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Create the topics and copy.")] = False,
    as_json: AsJson = False,
) -> None:
    """Copies the log into a new generation of topics, under another prefix, with more partitions.

    Without --yes it changes nothing and shows what it would do. The pipeline may run meanwhile: run this again for what
    has come since, at last when nothing is sent any more. Then workers, materialiser and service of the new prefix take
    over. A run that was interrupted goes on where it was. docs/how-to/grow.md leads through it.

    Exit code: 0 the copy is whole, or nothing was to be done yet; 2 run it again; 1 refused or failed.

    Example: hmx topics grow --partitions 16 --to g2. --yes
    """
    from hmx_pipeline.audit.grow import GrowthError, grow

    try:
        with progress_bar() as on_progress:
            found = grow(Settings.load(), to, partitions, on_progress, apply_it=yes)
    except (GrowthError, TopicsError, TimeoutError) as error:
        fail(str(error))
    except KafkaException as error:
        fail(f"Kafka: {error.args[0].str()}")
    if as_json:
        print_json(asdict(found))
    else:
        _show_growth(found, to, done=yes)
    if yes and found.behind:
        raise typer.Exit(PENDING)


def _show_growth(found: "Growth", to: str, *, done: bool) -> None:
    before, after = found.partitions
    OUT.print(f"{plain(to)}hmx.…: {found.topics} topics, partitions {before} → {after}")
    if to[-1:].isalnum():
        OUT.print(f"[yellow]note[/]: the prefix ends without a dot: --to {plain(to)}. would give {plain(to)}.hmx.…")
    if not done:
        size, minutes = found.size / 2**20, found.offsets / COPIED_A_MINUTE
        OUT.print(f"to copy: {many(found.offsets, 'record')} at most, about {size:,.0f} MB, {minutes:,.0f} min")
    else:
        left = ", ".join(f"{count:,} {plain(what)}" for what, count in sorted(found.left_out.items()))
        OUT.print(f"copied: {many(found.copied, 'record')}" + (f"; left out: {left}" if left else ""), soft_wrap=True)
    if found.behind:
        said = "[yellow]note[/]: {:,} offsets more are there, or wait for the old workers: run this again{}"
        OUT.print(said.format(found.behind, " for them" if done else ""), soft_wrap=True)
    elif done:
        OUT.print("[bold green]whole[/]: the new generation has all that the old log holds")
    if found.without_retention:
        said = "is off, because it would delete records before they are read. Later: hmx topics apply --allow-shrink"
        OUT.print(f"[yellow]note[/]: retention of {plain(found.without_retention)} {said}", soft_wrap=True)
    if not done:
        OUT.print("nothing was changed: add --yes")


def _compare(bootstrap: str | None, allow_shrink: bool, partitions: int = 0) -> tuple[AdminClient, TopicPlan]:
    settings = Settings.load()
    specs = load_topics(prefix=settings.topic_prefix)
    address = settings.require_kafka(bootstrap or "")
    admin = connect(address)
    with reaching(address):
        cluster = read_cluster(admin, [spec.topic for spec in specs])
    return admin, plan(sized(specs, cluster, partitions), cluster, allow_shrink=allow_shrink)


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
