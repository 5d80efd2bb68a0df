"""Memory that a process holds, as the kernel counts it; and what Redis holds, as it says itself."""

import os
from pathlib import Path

import redis


def resident(pid: int | str = "self") -> int:
    """In bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def used_memory(server: redis.Redis) -> int:
    """In bytes."""
    return int(server.info("memory")["used_memory"])  # type: ignore[index]  # typed for async, too
