"""The benchmark, where it lies: a folder outside the project. It is read, run and imported, and never changed.

Enters: HMX_ACT, else the folder `shared/act` beside the checkout. Leaves: its modules, and worlds that it has made,
kept under build/ for as long as the benchmark stays the same. Fails: MissingError.
"""

import hashlib
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.act import asking

ROOT: Final = Path(__file__).parents[2]
OWN: Final = Path(__file__).parent / "families"
"""Vocabulary of further organisations, by people who had not seen the pipeline."""
FOLDER: Final = Path(os.environ.get("HMX_ACT") or ROOT.parent / "shared" / "act")


class MissingError(Exception):
    """The benchmark is not there, or cannot make a world; the message says what to do."""


class UnplayedError(Exception):
    """The worlds are there, but could not be learnt or played; the message says why."""


@dataclass(frozen=True)
class World:
    folder: Path
    """Holds events.ndjson, tasks.json and truth.json."""

    @property
    def name(self) -> str:
        """Also its tenant."""
        return self.folder.name

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines()]

    def lines(self) -> list[bytes]:
        return (self.folder / "events.ndjson").read_bytes().splitlines()

    def tasks(self) -> list[str]:
        return [task["id"] for task in json.loads((self.folder / "tasks.json").read_text(encoding="utf-8"))]

    def is_called(self, name: str) -> bool:
        """By its whole name or by whole words of it: `spedition`, `spedition-1`, `elbtrans-spedition-1`."""
        return f"-{name.replace('_', '-')}-" in f"-{self.name}-"


class Benchmark:
    def __init__(self, folder: Path, kept: Path) -> None:
        """`kept` is where worlds are written."""
        self.folder, self._kept = folder, kept
        if not (folder / "run.py").exists():
            raise MissingError(f"{folder / 'run.py'} is not there: set HMX_ACT to the folder of the benchmark")

    def families(self, own: bool = False) -> list[str]:
        """The benchmark's, or the project's own."""
        return sorted(file.stem for file in (OWN if own else self.folder / "families").glob("*.json"))

    def worlds(self, families: Sequence[str], seeds: Sequence[int]) -> list[World]:
        """One for each family and seed."""
        return [self._world(family, seed) for family in families for seed in seeds]

    def module(self, name: str) -> Any:
        """One of its modules, imported. No bytecode is written beside it."""
        before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        if str(self.folder) not in sys.path:
            sys.path.insert(0, str(self.folder))
        try:
            return importlib.import_module(name)
        finally:
            sys.dont_write_bytecode = before

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs its command, for what it prints; packs are asked for the person that a query names."""
        argv = [sys.executable, "-B", "-m", asking.__name__, str(self.folder), *arguments]
        return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT)

    def _world(self, family: str, seed: int) -> World:
        out = self._kept / self._version() / f"{family}-{seed}"
        if not list(out.glob("*/tasks.json")):  # what is written last
            file = OWN / f"{family}.json"
            named = str(file) if file.exists() else family
            made = self.run("worlds", "--family", named, "--seed", str(seed), "--out", str(out))
            if made.returncode:
                raise MissingError(f"{self.folder / 'run.py'} makes no world of {family}, seed {seed}:\n{made.stderr}")
        (tasks,) = out.glob("*/tasks.json")
        return World(tasks.parent)

    def _version(self) -> str:
        """Worlds of another benchmark are other worlds."""
        files = sorted([*self.folder.glob("*.py"), *self.folder.glob("families/*.json"), *OWN.glob("*.json")])
        return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
