"""`hmx replay`: rebuilds everything from the log into shadow topics, and compares."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from hmx_pipeline.cli.console import OUT, AsJson, fail, many, plain, print_json, progress_bar, table
from hmx_pipeline.settings import Settings, SettingsError

if TYPE_CHECKING:
    from hmx_pipeline.audit.replay_artifacts import ArtifactChange
    from hmx_pipeline.audit.replay_comparison import ReplayReport
    from hmx_pipeline.audit.replay_streams import DifferenceExample, StreamReport

SHOWN: Final = 20
OF_EACH_TOPIC: Final = 4
CANNOT_COMPARE: Final = 2
_COLOURS: Final = {"added": "green", "removed": "red", "changed": "yellow"}


def replay(
    from_start: Annotated[  # noqa: ARG001  it says what happens; no other beginning is known yet
        bool, typer.Option("--from-start", help="Start at the first retained record, as every replay does.")
    ] = True,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare with the pipeline's topics; otherwise only rebuild.")
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the shadow topics; implied without --compare.")] = False,
    as_json: AsJson = False,
) -> None:
    """Rebuilds everything from the log into shadow topics; compares records byte by byte, then artifacts.

    Run a new version beside a running old one to see which artifacts would change. HMX_ORDERING and HMX_WINDOW_MS must
    have the worker's values.

    Exit code: 0 identical, 1 different, 2 nothing to compare, or Kafka cannot be read.

    Example: hmx replay --from-start --compare
    """
    from confluent_kafka import KafkaException

    from hmx_pipeline.audit.replay import replay as rebuilt
    from hmx_pipeline.kafka.topic_files import TopicsError

    try:
        with progress_bar() as on_progress:
            report = rebuilt(Settings.load(), compare=compare, keep=keep or not compare, on_progress=on_progress)
    except (SettingsError, TopicsError, ConnectionError, TimeoutError) as error:
        fail(str(error), CANNOT_COMPARE)
    except KafkaException as error:
        fail(f"Kafka: {error.args[0].str()}", CANNOT_COMPARE)
    if as_json:
        print_json(report.as_json())
    else:
        _show(report, compare, keep)
    if compare and not (report.identical and report.compared):
        raise typer.Exit(1 if report.compared else CANNOT_COMPARE)


def _show(report: "ReplayReport", compare: bool, keep: bool) -> None:
    OUT.print(f"folded {many(report.events, 'record')} of events and {report.evidence:,} of evidence")
    if compare:
        _show_streams(report)
        _show_artifacts(report)
    for note in report.notes:
        OUT.print(f"[yellow]note[/]: {plain(note)}", soft_wrap=True)
    if keep or not compare:
        OUT.print(f"shadow topics kept: {report.shadow}hmx.…", soft_wrap=True)
    if not compare:
        return
    if not report.compared:
        OUT.print("[bold yellow]nothing to compare[/]: nothing was processed yet, or retention has deleted it")
    elif report.identical:
        same = sum(stream.same for stream in report.streams)
        OUT.print(
            f"[bold green]identical[/]: {many(same, 'record')} byte for byte, {many(report.patterns, 'artifact')}"
        )
    else:
        found = [f"{many(n, 'record')} {what}" for what, n in report.differences.most_common()]
        found += [f"{many(n, 'artifact')} {what}" for what, n in report.changes.most_common()]
        OUT.print(f"[bold red]differs[/]: {', '.join(found)}")


def _show_streams(report: "ReplayReport") -> None:
    rows: list[list[object]] = []
    for topic in dict.fromkeys(stream.topic for stream in report.streams):
        ours = [stream for stream in report.streams if stream.topic == topic]
        differ: Counter[str] = sum((stream.differences for stream in ours), Counter())
        apart = Counter(
            later=sum(stream.later for stream in ours),
            compacted=sum(stream.replaced for stream in ours),
            expired=sum(stream.taken for stream in ours),
        )
        skipped = Counter(stream.not_compared for stream in ours if stream.not_compared)
        said = [f"{n:,} {name}" for name, n in (differ + apart).items()]
        said += [f"{n} partitions not compared: {why}" for why, n in skipped.items()]
        rows.append([topic, sum(stream.same for stream in ours), differ.total(), ", ".join(said)])
    OUT.print()
    OUT.print(table("Records", ("topic", "same", "differ", "of which, besides"), rows))
    for topic, stream, example in _examples(report):
        where = f"{topic} {stream.partition}:{'–' if example.offset is None else example.offset}"
        origin = f" from {example.origin[0]}:{example.origin[1]}" if example.origin else ""
        OUT.print(f"[bold red]{example.difference}[/] {plain(where + origin)} {plain(example.key)}", soft_wrap=True)
        if example.detail:
            OUT.print(f"    {plain(example.detail)}", soft_wrap=True)
    OUT.print()


def _examples(report: "ReplayReport") -> Iterator[tuple[str, "StreamReport", "DifferenceExample"]]:
    """Yields the first examples of each topic."""
    shown: Counter[str] = Counter()
    for stream in report.streams:
        for example in stream.examples:
            shown[stream.topic] += 1
            if shown[stream.topic] <= OF_EACH_TOPIC:
                yield stream.topic, stream, example


def _show_artifacts(report: "ReplayReport") -> None:
    counts = {
        "same": report.patterns,
        **{name: report.changes[name] for name in _COLOURS},
        "in progress": report.moving,
        "set aside": report.set_aside,
    }
    there_are = [f"{count:,} {name}" for name, count in counts.items() if count or name == "same"]
    OUT.print(f"[bold]Artifacts[/]: {', '.join(there_are)}")
    for change in report.artifacts[:SHOWN]:
        _show_change(change)
    if len(report.artifacts) > SHOWN:
        OUT.print(f"… and {len(report.artifacts) - SHOWN:,} more: --json lists up to 1,000")
    OUT.print()


def _show_change(change: "ArtifactChange") -> None:
    artifact = change.newest
    head = f"[bold {_COLOURS[change.change]}]{change.change}[/]"
    OUT.print(
        f"\n{head} {plain(change.tenant_id)} [bold]{plain(artifact['artifact_type'])}[/] {plain(artifact['title'])}",
        soft_wrap=True,
    )
    if change.change != "changed":
        said = f"{artifact['status']}, confidence {artifact['confidence']}, seen {artifact.get('observed_count')} times"
        OUT.print(f"    [dim]{plain(said)}[/]")
    for path, old, new in change.paths:
        OUT.print(f"    [dim]{plain(path)}[/]: {plain(old)} → {plain(new)}", soft_wrap=True)
