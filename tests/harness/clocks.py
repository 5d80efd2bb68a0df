"""Wall clocks that can be shifted while a process runs: a small library that is compiled here and preloaded.

Enters: a folder. Leaves: the environment for a process whose clock `shift` moves. Where there is no C compiler, or no
preloading as Linux knows it, `Clocks.available` is False and no clock is shifted.
"""

import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")


class Clocks:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._library = folder / "clock.so"
        self.available = self._compile()

    def _compile(self) -> bool:
        compiler = shutil.which("cc")
        if compiler is None or sys.platform != "linux":
            return False
        command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(self._library), str(SOURCE), "-ldl", "-pthread"]
        return subprocess.run(command, capture_output=True).returncode == 0

    def environment(self, name: str) -> dict[str, str]:
        """For a process of this name; its clock is right until it is shifted, and so again after a restart of all."""
        if not self.available:
            return {}
        self.shift(name, 0)
        return {"LD_PRELOAD": str(self._library), "HARNESS_CLOCK": str(self._file(name))}

    def shift(self, name: str, seconds: int) -> None:
        """From the machine's clock, at once and until the next shift."""
        path = self._file(name)
        with path.open("r+b" if path.exists() else "w+b") as file:  # never truncated: it is mapped
            file.write((seconds * 1000).to_bytes(8, sys.byteorder, signed=True))

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.clock"
