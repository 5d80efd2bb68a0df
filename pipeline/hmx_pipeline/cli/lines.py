"""Line reader: the lines of the files given to a command, and a progress bar over their bytes."""

import gzip
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from hmx_pipeline.cli.console import ERR, fail

STDIN = Path("-")
Files = Annotated[list[Path], typer.Argument(metavar="FILE", help="NDJSON files, plain or .gz; - is standard input.")]
Unreadable = (EOFError, gzip.BadGzipFile)
"""Exceptions of a damaged .gz file."""


class LineReader:
    """Reads the lines of several files in order, and tracks its position in bytes."""

    def __init__(self, files: list[Path]) -> None:
        """Exits with an error if a file does not exist."""
        for file in files:
            if file != STDIN and not file.is_file():
                fail(f"{file} does not exist or is not a file")
        self._files = files
        self._done = 0
        self._raw: BinaryIO | None = None
        self.file = files[0]
        self.total = None if STDIN in files else sum(file.stat().st_size for file in files)
        """Bytes of all files; None for standard input."""

    @property
    def position(self) -> int:
        return self._done + (self._raw.tell() if self._raw is not None else 0)

    def lines(self) -> Iterator[bytes]:
        """Yields the lines without line ends."""
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


@contextmanager
def bar(doing: str, reader: LineReader) -> Iterator[Callable[[int, int], None] | None]:
    """Shows bytes read and events per second; yields None if standard error is not a terminal.

    The yielded function takes the number of lines and of bytes so far.
    """
    if not ERR.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn(doing),
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[rate]:,.0f} events/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=ERR, transient=True) as progress:
        task = progress.add_task("", total=reader.total, rate=0.0)
        started = time.monotonic()

        def show(events: int, size: int) -> None:
            done = size if reader.total is None else reader.position
            rate = events / max(time.monotonic() - started, 1e-3)
            progress.update(task, completed=done, rate=rate)

        yield show
