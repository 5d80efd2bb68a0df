"""`make quality`: is what is compiled any good? Every figure on held-out real sessions or planted truth, beside a
baseline of the same run.

Tasks are chosen by name (`python -m tests.quality procedures`, or TASKS="procedures"); HMX_DATA names the folder of the
open data. Leaves a table and build/quality.json, the same bytes on every run. A bar that is not met is said, and is no
failure: this is a report. A task whose data is missing is left out, and that is said too.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from tests.quality import (
    calibration,
    corrections,
    facts,
    needles,
    procedures,
    reading,
    recall,
    served,
    statements,
    truth,
    updates,
)
from tests.quality.figures import Figure
from tests.quality.report import WIDTH, show, write
from tests.quality.sessions import FOLDER, MissingError, Sessions

Task = Callable[[Sessions], Iterable[Figure]]

TASKS: Mapping[str, Task] = {
    "procedures": procedures.task,
    "served": served.task,
    "recall": recall.task,
    "semantic": recall.semantic,
    "calibration": calibration.task,
    "needles": needles.task,
    "corrections": corrections.task,
    "facts": facts.task,
    "updates": updates.task,
    "statements": statements.task,
    "reading": reading.task,
    "planted": truth.task,
    "permuted": truth.control,
}
"""In the order of the report."""


def main(arguments: Sequence[str]) -> None:
    asked = _asked(arguments)
    progress = Console(stderr=True)
    sessions = Sessions(asked.data)
    figures: list[Figure] = []
    for name in asked.tasks:
        progress.print(f"{name} …", highlight=False)
        try:
            figures += TASKS[name](sessions)
        except MissingError as missing:
            progress.print(f"{name} is left out: {missing}", highlight=False)
        write(figures, asked.out)
    show(figures, Console(width=WIDTH, highlight=False))


def _asked(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.quality", description="whether what is compiled is any good")
    chosen = os.environ.get("TASKS", "").replace(",", " ").split()
    parser.add_argument("tasks", nargs="*", default=chosen, help=f"of {', '.join(TASKS)}; all unless named")
    parser.add_argument("--data", type=Path, default=FOLDER)
    parser.add_argument("--out", type=Path, default=Path("build/quality.json"))
    asked = parser.parse_args(arguments)
    if unknown := set(asked.tasks) - set(TASKS):
        parser.error(f"no such task: {', '.join(sorted(unknown))}; there are {', '.join(TASKS)}")
    asked.tasks = [name for name in TASKS if name in asked.tasks or not asked.tasks]
    return asked


if __name__ == "__main__":
    main(sys.argv[1:])
