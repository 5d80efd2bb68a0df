"""Free TCP ports of this machine: any, or those of the last time."""

import random
import socket
from contextlib import suppress
from pathlib import Path

# Below what Linux and macOS hand out to outgoing connections: none of those takes a port between our look and its use.
LOWEST, HIGHEST = 20_000, 32_000
_given: set[int] = set()


def free_ports(count: int) -> list[int]:
    """None that was given before: who asked then may not listen yet."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.randint(LOWEST, HIGHEST)
        if port in _given and len(_given) < (HIGHEST - LOWEST) // 2:
            continue
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            ports.append(port)
            _given.add(port)
    return ports


def same_ports(folder: Path, count: int) -> list[int]:
    """Those that `folder` had the last time, so that what was told of them still holds; others where one of them is
    taken."""
    file = folder / "ports"
    kept = [int(port) for port in file.read_text().split()] if file.exists() else []
    if len(kept) != count or not all(map(_is_free, kept)):
        kept = free_ports(count)
        file.write_text(" ".join(map(str, kept)) + "\n")
    return kept


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # Connections that a server closed keep its port for a while, from nobody who would listen there again.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
