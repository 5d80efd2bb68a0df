"""The lines of files that a command is given, and a bar that shows how far it is in them."""

import gzip
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from pipeline.cli.console import ERR, fail

STDIN = Path("-")
Files = Annotated[list[Path], typer.Argument(metavar="FILE", help="NDJSON, also .gz; - for standard input.")]
Unreadable = (EOFError, gzip.BadGzipFile)
"""What reading a broken .gz raises."""


class Reader:
    """The lines of several files, one after the other, and how far it is in their bytes."""

    def __init__(self, files: list[Path]) -> None:
        """Ends the program where one of them is no file."""
        for file in files:
            if file != STDIN and not file.is_file():
                fail(f"{file} is no file")
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


@contextmanager
def bar(doing: str, reader: Reader) -> Iterator[Callable[[int, int], None] | None]:
    """Bytes of the files and events a second, on standard error; None where that is no terminal.

    What it yields is called with the lines and the bytes taken so far.
    """
    if not ERR.is_terminal:
        yield None
        return
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
