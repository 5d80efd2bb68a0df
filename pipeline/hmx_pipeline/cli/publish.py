"""`hmx publish`: appends files of events to the events topic, unchanged."""

import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hmx_pipeline.cli.console import ERR, OUT, AsJson, as_typed, fail, many, plain, print_json, saying, table
from hmx_pipeline.cli.home import outcomes, since
from hmx_pipeline.cli.lines import Files, LineReader, Unreadable, bar
from hmx_pipeline.cli.wait import counts, until_in_memory
from hmx_pipeline.settings import Settings

if TYPE_CHECKING:
    from hmx_pipeline.kafka.publisher import PublishReport


def publish(
    files: Files,
    wait: Annotated[bool, typer.Option("--wait", help="Wait, and tell what became of the events.")] = False,
    as_json: AsJson = False,
) -> None:
    """Appends events to Kafka as they are, one record per line, including invalid lines.

    Exit code: 0 all sent, 1 some were not, 130 interrupted. Example: hmx publish sessions.ndjson.gz --wait
    """
    from hmx_pipeline.kafka import publisher

    reader = LineReader(files)
    settings, stopped = Settings.load(), list[bool]()
    before = counts(settings) if wait else {}
    try:
        with bar("publishing", reader) as show:
            done = publisher.publish(_until_interrupted(reader.lines(), stopped), settings, show)
    except Unreadable as error:
        fail(f"{reader.file} can't be read: {error}. Lines before the error were sent. Repair the file, then repeat")
    became = None
    if wait and not stopped:
        with saying("waiting", in_terminal=True) as say:
            until_in_memory(settings, "all of it", 120.0, say)
        became = since(before, counts(settings))
    _show(done, became, as_json)
    if stopped:
        ERR.print("[bold]interrupted[/]: publish the file again to send the rest; what was sent is recognised")
        raise typer.Exit(130)
    if not done.complete:
        raise typer.Exit(1)


def _until_interrupted(lines: Iterable[bytes], stopped: list[bool]) -> Iterator[bytes]:
    """Ends at Ctrl-C, so that what was sent is acknowledged and counted. A second one ends the command."""

    def stop(*_: Any) -> None:
        stopped.append(True)
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield from takewhile(lambda _: not stopped, lines)
    finally:
        signal.signal(signal.SIGINT, before)


def _show(done: "PublishReport", became: Mapping[str, Sequence[Any]] | None, as_json: bool) -> None:
    rate = done.events / max(done.seconds, 1e-3)
    if as_json:
        told = {} if became is None else {name: became[name] for name in ("outcomes", "rejections")}
        print_json({**done._asdict(), "events_per_second": round(rate), **told})
    else:
        rows = [(done.events, done.bytes, f"{done.seconds:.1f}", round(rate))]
        OUT.print(table("Published", ("events", "bytes", "seconds", "events/s"), rows))
        if became is None:
            OUT.print(as_typed("`hmx wait` tells what became of all events so far."), soft_wrap=True)
        else:
            OUT.print(f"events: {plain(outcomes(became, 'since then'))}", soft_wrap=True)
            if became["rejections"]:
                OUT.print(as_typed("`hmx dlq` says why events were rejected, and what to do."), soft_wrap=True)
    if done.too_large:
        ERR.print(
            f"[bold red]not sent[/]: {many(done.too_large, 'line')} above the record limit of the events topic (2 MB)"
        )
    for reason, count in done.failed.items():
        ERR.print(f"[bold red]not sent[/]: {many(count, 'record')}: {plain(reason)}")
