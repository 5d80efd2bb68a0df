"""Terminal output of all commands: results on standard output, everything else on standard error.

Enters: results, messages, and texts that others wrote. Leaves: tables, JSON, progress; `fail` prints one line and ends
the process, with exit code 1 unless told otherwise. Text written by others passes through `plain` in markup,
`on_one_line` in messages, or a table cell. So it can neither change colours nor move the cursor.
"""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import orjson
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from hmx_pipeline.contracts.safe_text import in_json, on_one_line
from hmx_pipeline.intake.json_paths import path_of

if TYPE_CHECKING:
    from pydantic import ValidationError

    from hmx_pipeline.audit.replay_fold import Progress

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Timeout = Annotated[float, typer.Option(min=0.1, help="Longest wait until memory shows it, in seconds.")]
OUT: Final = Console(highlight=False, emoji=False)
ERR: Final = Console(stderr=True, highlight=False, emoji=False)


def fail(message: str, code: int = 1) -> NoReturn:
    """Prints an error and exits. Text written by others must pass through `on_one_line`."""
    told = "\n".join(map(on_one_line, as_typed(message).split("\n")))
    ERR.print(Text.assemble(("error", "bold red"), f": {told}"), soft_wrap=True)
    sys.exit(code)


def as_typed(text: str) -> str:
    """Returns a text whose commands, between backticks or at its start, can be typed as this one was: `.venv/bin/hmx
    wait`."""
    return re.sub(r"(^|`)hmx(?= [a-z-])", lambda found: f"{found[1]}{command()}", text)


@cache
def command() -> str:
    """Returns the words by which this program was called."""
    called = Path(sys.argv[0])
    if called.parts[-3:] == ("hmx_pipeline", "cli", "__main__.py"):
        return f"{_path(Path(sys.executable))} -m hmx_pipeline.cli"
    found = shutil.which("hmx")
    if called.name != "hmx" or (found is not None and os.path.realpath(found) == os.path.realpath(called)):
        return "hmx"
    return _path(called)


def _path(file: Path) -> str:
    here = Path.cwd()
    return shlex.quote(str(file.relative_to(here) if file.is_relative_to(here) else file))


def first_wrong(error: "ValidationError") -> str:
    """Returns where a value is not valid, and why."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{path_of(first['loc'])}: {first['msg']}"


@contextmanager
def saying(first: str, *, in_terminal: bool = False) -> Iterator[Callable[[str], None]]:
    """Says what is being done: one line that changes in a terminal; elsewhere a line for each thing, or nothing."""
    if ERR.is_terminal:
        with ERR.status(first) as line:
            yield line.update
    elif in_terminal:
        yield lambda _: None
    else:
        last = ""

        def on_change(said: str) -> None:
            nonlocal last
            if said != last:
                ERR.print(said)
            last = said

        yield on_change


@contextmanager
def progress_bar() -> Iterator["Progress"]:
    """Shows a progress bar in records; nothing if standard error is no terminal."""
    if not ERR.is_terminal:
        yield lambda *_: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=ERR, transient=True) as bar:
        task = bar.add_task("reading positions", total=None)
        said = ""

        def show(what: str, done: int, total: int) -> None:
            nonlocal said
            if what != said:
                said = what
                bar.reset(task, description=what, total=total)
            bar.update(task, completed=done)

        yield show


def plain(text: str) -> str:
    """Escapes foreign text for use within one line of markup."""
    shown = on_one_line(text)
    kept = shown.rstrip("\\")
    return escape(kept) + "\\" * 2 * (len(shown) - len(kept))


def many(count: int, one: str, more: str = "") -> str:
    """Formats a number with its word: 1 event, 1,200 events."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def print_json(value: Any) -> None:
    sys.stdout.buffer.write(in_json(orjson.dumps(value, option=orjson.OPT_INDENT_2)) + b"\n")
    sys.stdout.flush()


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Builds a table that folds to 80 columns, numbers right-aligned. Cells are escaped; title and columns
    are markup."""
    named = Text.from_markup(title, style="bold")
    if named.cell_len <= OUT.width:
        named.overflow = "ignore"  # else it is folded to the width of a narrow table
    made = Table(title=named or None, title_justify="left", header_style="dim", box=None, pad_edge=False)
    for index, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        made.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        made.add_row(*map(_cell, row))
    return made


def _cell(value: Any) -> Text:
    if isinstance(value, Text):
        return value
    return Text(f"{value:,}" if isinstance(value, int) else on_one_line(str(value)))
