"""Memory that a process holds, as the kernel counts it."""

import os
from pathlib import Path


def resident(pid: int | str = "self") -> int:
    """In bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
