"""Which test proves which row of the requirements. `make conformance` prints it.

Enters: the suite, collected and not run, and the outcomes of the last runs. Leaves: a table, and exit code 0 where
every row has a proof and none of the proofs failed when it last ran, else 1.
"""

import contextlib
import io
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import pytest
from rich.console import Console

from tests.support.requirements import GROUPS, REQUIREMENTS

MARKER: Final = "requirement"
PASSED: Final = "[green]✓[/]"
NOT_RUN: Final = "[green]·[/]"
FAILED: Final = "[red]✗[/]"
OPEN: Final = "[yellow]○[/]"
LEGEND: Final = "✓ proven, passed when last run   · proven, not run here   ✗ failed   ○ open"
OUTCOMES: Final = "conformance/outcomes"
"""Key in pytest's cache: node id → passed, failed or skipped."""


class Collected:
    """A pytest plugin: the node ids that each row is marked on, and what became of them when they last ran."""

    def __init__(self) -> None:
        self.proofs: dict[str, list[str]] = defaultdict(list)
        self.outcomes: dict[str, str] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            for row in rows_of(item):
                self.proofs[row].append(item.nodeid)
        cache: pytest.Cache | None = getattr(session.config, "cache", None)  # none under `-p no:cacheprovider`
        if cache is not None:
            self.outcomes = cache.get(OUTCOMES, {})


def rows_of(item: pytest.Item) -> list[str]:
    """Each row that an item is marked with, once."""
    return list(dict.fromkeys(str(row) for marker in item.iter_markers(MARKER) for row in marker.args))


@dataclass
class Proof:
    """One test function with all its parameters."""

    file: str
    sentence: str
    runs: int = 0
    outcomes: set[str] = field(default_factory=set)

    @property
    def failed(self) -> bool:
        return "failed" in self.outcomes

    @property
    def passed(self) -> bool:
        return self.outcomes == {"passed"}


def proofs_of(nodes: Iterable[str], outcomes: Mapping[str, str]) -> list[Proof]:
    found: dict[str, Proof] = {}
    for node in nodes:
        function = node.partition("[")[0]
        file, _, name = function.partition("::")
        group, _, test = name.rpartition("::")
        sentence = f"{group.removeprefix('Test')} {test.removeprefix('test_')}".replace("_", " ").strip().lower()
        proof = found.setdefault(function, Proof(file.removeprefix("tests/"), sentence))
        proof.runs += 1
        proof.outcomes.add(outcomes.get(node, "not run"))
    return list(found.values())


def collect() -> Collected:
    """The whole suite, slow tests too."""
    plugin, said = Collected(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = pytest.main(["--collect-only", "-q", "-m", ""], plugins=[plugin])
    if code is not pytest.ExitCode.OK:
        sys.exit(f"the tests cannot be collected:\n{said.getvalue()}")
    return plugin


def show(collected: Collected, console: Console) -> bool:
    """Is every row proven?"""
    console.print(f"[dim]{LEGEND}[/]")
    everything: dict[str, list[Proof]] = {}
    for group, rows in GROUPS.items():
        proofs = {row: proofs_of(collected.proofs.get(row, ()), collected.outcomes) for row in rows}
        proven = sum(state_of(found) not in (OPEN, FAILED) for found in proofs.values())
        colour = "green" if proven == len(rows) else "yellow"
        console.print(f"\n[bold]{group}[/]  [{colour}]{proven} of {len(rows)} proven[/]")
        for row, words in rows.items():
            console.print(f"{state_of(proofs[row])} [bold]{row:<4}[/] {words}")
            for proof in proofs[row]:
                _show_proof(proof, console)
        everything |= proofs
    unknown = sorted(collected.proofs.keys() - REQUIREMENTS.keys())
    if unknown:
        console.print(f"\n[bold red]markers name unknown rows[/]: {', '.join(unknown)}")
    return _sum_up(everything, console) and not unknown


def state_of(found: list[Proof]) -> str:
    """A row's mark: open without a proof, failed where one has, else whether all of them have passed here."""
    if not found:
        return OPEN
    if any(proof.failed for proof in found):
        return FAILED
    return PASSED if all(proof.passed for proof in found) else NOT_RUN


def _show_proof(proof: Proof, console: Console) -> None:
    times = f" ×{proof.runs}" if proof.runs > 1 else ""
    line = f"       {state_of([proof])} [dim]{proof.sentence}{times}  {proof.file}[/]"
    console.print(line, no_wrap=True, overflow="ellipsis")


def _sum_up(everything: Mapping[str, list[Proof]], console: Console) -> bool:
    tests = {(proof.file, proof.sentence): proof for found in everything.values() for proof in found}
    passed = sum(proof.passed for proof in tests.values())
    lacking = [row for row, found in everything.items() if not found]
    failed = [row for row, found in everything.items() if state_of(found) == FAILED]
    proven = len(everything) - len(lacking) - len(failed)
    console.print(f"\n[bold]{proven} of {len(everything)} rows proven[/] by {len(tests)} tests, {passed} passed here")
    if failed:
        console.print(f"[bold red]failed[/]: {', '.join(failed)}")
    if lacking:
        console.print(f"[bold yellow]open[/]: {', '.join(lacking)}")
    return not lacking and not failed


if __name__ == "__main__":
    sys.exit(0 if show(collect(), Console(highlight=False)) else 1)
