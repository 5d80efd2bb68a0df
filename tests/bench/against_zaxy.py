"""A pack beside a query of zaxy-memory, which keeps agents' memory on one machine: equal turns, equal questions."""

import json
import subprocess
from pathlib import Path
from typing import Any, Final, Self

from tests.bench import memories
from tests.bench.elsewhere import python_with
from tests.bench.kit import Bench, quantile
from tests.bench.packs import memory_of, timed
from tests.bench.report import Bar, Line

PACKAGE: Final = "zaxy-memory==3.2.0"
ITEMS: Final = 10_000
QUESTIONS: Final = 20
"""A round; it takes its time."""


def zaxy(bench: Bench) -> list[Line]:
    if (python := python_with(PACKAGE)) is None:
        return []
    turns = [{"role": said.actor, "content": said.text} for _, said in memories.documents(ITEMS, _WORDS)]
    ours: list[float] = []
    theirs: dict[str, list[float]] = {"query": [], "assemble_context": []}
    with memory_of(bench) as (_, memory), _Zaxy(python, bench.folder / "zaxy") as other:
        memories.fill(memory, "items", ITEMS)
        stored = other.ask(turns)["seconds"]
        for number in bench.rounds():
            first, *questions = memories.queries(1 + QUESTIONS, ITEMS, number)
            timed(memory.store, "items", [first])
            other.ask([first])
            ours.append(quantile(timed(memory.store, "items", questions), 50))
            answered = other.ask(questions)
            for call, figures in theirs.items():
                figures.append(quantile(answered[call], 50))
    name = f"pack, {ITEMS:,} memories, p50"
    return [
        Line(f"{name}; {call}", "ms", ours, f"{PACKAGE} {call}", figures, bar, notes={"stored_s": stored})
        for (call, figures), bar in zip(theirs.items(), (Bar("≤", 0.02), None), strict=True)
    ]


_WORDS: Final = memories.vocabulary(ITEMS)


class _Zaxy:
    """Its process."""

    def __init__(self, python: Path, folder: Path) -> None:
        folder.mkdir()
        child = Path(__file__).with_name("zaxy_child.py")
        self._log = (folder / "log").open("w+b")
        self._process = subprocess.Popen(
            [str(python), str(child), str(folder)],
            cwd=folder,
            env={"PATH": str(python.parent), "HOME": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def ask(self, said: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(said) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            raise AssertionError(f"it ended without an answer:\n{self._log.read()[-2000:].decode()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()
