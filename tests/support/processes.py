"""The processes that a test has started, by what their environment names."""

import os
from pathlib import Path

import pytest

NEEDS_PROC = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="without /proc nobody sees which processes were left running"
)


def processes_of(folder: Path) -> list[int]:
    """Everything that runs with this folder in its environment, besides ourselves."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in environment and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found
