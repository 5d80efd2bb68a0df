"""`hmx publish`: files of events onto the events topic, as they are written."""

import gzip
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from pipeline.cli.console import ERR, OUT, fail, print_json, table
from pipeline.kafka.publisher import Published
from pipeline.settings import Settings

STDIN = Path("-")


def register(app: typer.Typer) -> None:
    app.command()(publish)


def publish(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="NDJSON, also .gz; - for standard input.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Appends events to Kafka as they are written, one record a line, invalid lines too.

    Exit code: 0 all sent, 1 something was not. Example: hmx publish sessions.ndjson.gz
    """
    from pipeline.kafka import publisher

    for file in files:
        if file != STDIN and not file.is_file():
            fail(f"{file} is no file")
    settings = Settings.load()
    reader = Reader(files)
    try:
        if ERR.is_terminal:
            with _bar(reader) as show:
                done = publisher.publish(reader.lines(), settings, show)
        else:
            done = publisher.publish(reader.lines(), settings)
    except (EOFError, gzip.BadGzipFile) as error:
        fail(f"{reader.file} can't be read: {error}. The lines before that were sent.")
    _show(done, as_json)
    if not done.complete:
        raise typer.Exit(1)


class Reader:
    """The lines of several files, one after the other, and how far it is in their bytes."""

    def __init__(self, files: list[Path]) -> None:
        self._files = files
        self._done = 0
        self._raw: BinaryIO | None = None
        self.file = files[0]
        self.total = None if STDIN in files else sum(file.stat().st_size for file in files)
        """Bytes of all files; unknown for standard input."""

    @property
    def position(self) -> int:
        return self._done + (self._raw.tell() if self._raw is not None else 0)

    def lines(self) -> Iterator[bytes]:
        """Without their line ends."""
        for file in self._files:
            self.file = file
            if file == STDIN:
                yield from _lines(sys.stdin.buffer)
                continue
            with file.open("rb") as raw:
                self._raw = raw
                if file.suffix == ".gz":
                    with gzip.open(raw) as unpacked:
                        yield from _lines(unpacked)
                else:
                    yield from _lines(raw)
                self._done += raw.tell()
                self._raw = None


def _lines(stream: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
    for line in stream:
        yield line.removesuffix(b"\n")


class _bar:  # noqa: N801  a context manager that reads like a function
    """Bytes of the files and events a second, on standard error."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._progress = Progress(
            TextColumn("publishing"),
            BarColumn(),
            DownloadColumn(),
            TextColumn("{task.fields[rate]:,.0f} events/s"),
            TimeRemainingColumn(),
            console=ERR,
            transient=True,
        )

    def __enter__(self) -> Callable[[int, int], None]:
        self._progress.start()
        task = self._progress.add_task("", total=self._reader.total, rate=0.0)
        started = time.monotonic()

        def show(events: int, size: int) -> None:
            done = size if self._reader.total is None else self._reader.position
            rate = events / max(time.monotonic() - started, 1e-3)
            self._progress.update(task, completed=done, rate=rate)

        return show

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


def _show(done: Published, as_json: bool) -> None:
    rate = done.events / max(done.seconds, 1e-3)
    if as_json:
        print_json({**done._asdict(), "events_per_second": round(rate)})
    else:
        rows = [(done.events, done.bytes, f"{done.seconds:.1f}", round(rate))]
        OUT.print(table("Published", ("events", "bytes", "seconds", "events/s"), rows))
    if done.too_large:
        ERR.print(f"[bold red]not sent[/]: {done.too_large:,} lines are larger than the events topic takes (2 MB)")
    for reason, count in done.failed.items():
        ERR.print(f"[bold red]not sent[/]: {count:,} records: {reason}")
