"""Line reader: the lines of the files given to a command, plain or gzip, and a progress bar over their bytes.

Enters: paths, and `-` for standard input. Leaves: lines as bytes, each with the file that it is from.
"""

import gzip
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO, Final
from urllib.parse import quote

import typer

from hmx_pipeline.cli.console import ERR, fail

STDIN = Path("-")
Files = Annotated[list[Path], typer.Argument(metavar="FILE", help="NDJSON files, plain or .gz; - is standard input.")]
_KEYS: Final = "SELECT key FROM cursorDiskKV WHERE key >= ? AND key < ? ORDER BY key"
_VALUES: Final = (
    "SELECT key, value FROM cursorDiskKV WHERE key >= CAST(? AS TEXT) AND key <= CAST(? AS TEXT) ORDER BY key"
)
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
        """Yields the lines without line ends; of Cursor's database its rows."""
        for file in self._files:
            self.file = file
            if file == STDIN:
                yield from _lines(sys.stdin.buffer)
                continue
            with file.open("rb") as raw:
                self._raw = raw
                if file.suffix == ".vscdb":
                    yield from _rows(file)
                    raw.seek(0, 2)
                elif file.suffix == ".gz":
                    with gzip.open(raw) as unpacked:
                        yield from _lines(unpacked)
                else:
                    yield from _lines(raw)
                self._done += raw.tell()
                self._raw = None


def _lines(stream: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
    for line in stream:
        yield line.removesuffix(b"\n")


def _rows(file: Path) -> Iterator[bytes]:
    """Yields `key<TAB>value` of each chat in Cursor's database, and of its messages after it. A row without a tab says
    why the rest can't be read."""
    import sqlite3

    try:
        with closing(sqlite3.connect(f"file:{quote(str(file.absolute()))}?mode=ro", uri=True)) as database:
            database.text_factory = bytes
            for (chat,) in database.execute(_KEYS, ("composerData:", "composerData;")).fetchall():
                name = chat.partition(b":")[2]
                for begin, end in ((chat, chat), (b"bubbleId:%s:" % name, b"bubbleId:%s;" % name)):
                    for key, value in database.execute(_VALUES, (begin, end)):
                        yield key + b"\t" + (value if isinstance(value, bytes) else b"null")
    except sqlite3.Error as error:
        yield f"no readable database ({error})".encode()


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
