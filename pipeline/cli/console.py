"""What all commands print with: results to standard output, the rest to standard error."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn

import orjson
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from pipeline.audit.replay_rebuild import Progress

OUT: Final = Console(highlight=False)
ERR: Final = Console(stderr=True, highlight=False)


def fail(message: str, code: int = 1) -> NoReturn:
    """One line that says what is wrong and what to do, then the end."""
    ERR.print(f"[bold red]error[/]: {escape(message)}", soft_wrap=True)
    sys.exit(code)


@contextmanager
def saying(first: str) -> Iterator[Callable[[str], None]]:
    """Says what is being done: one line that changes in a terminal, elsewhere a line each time."""
    if ERR.is_terminal:
        with ERR.status(first) as line:
            yield line.update
    else:
        yield ERR.print


@contextmanager
def progress_bar() -> Iterator["Progress"]:
    """What is being done, and how far it is in records; nothing where standard error is no terminal."""
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
    """What others wrote neither colours the terminal nor moves its cursor."""
    return escape("".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text))


def print_json(value: Any) -> None:
    sys.stdout.buffer.write(orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n")
    sys.stdout.flush()


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Numbers to the right, the rest to the left; fits 80 columns by folding."""
    made = Table(title=title, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False)
    for index, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        made.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        made.add_row(*(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row))
    return made
