"""Free TCP ports of this machine: random ones, or those of the last run.

Enters: a folder and how many. Leaves: ports from 20000 to 32000 that are free now, noted in the folder's file `ports`.
"""

import random
import socket
from contextlib import suppress
from pathlib import Path

# Below the ephemeral ports of Linux and macOS, so no outgoing connection takes a port before it is used.
LOWEST, HIGHEST = 20_000, 32_000
_given: set[int] = set()


def free_ports(count: int) -> list[int]:
    """Returns ports that this process has not handed out yet, since earlier ones may not be in use yet."""
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
    """Returns the ports that `folder` used last time if all are free, so that addresses stay valid; otherwise new
    ones."""
    file = folder / "ports"
    kept = [int(port) for port in file.read_text().split()] if file.exists() else []
    if len(kept) != count or not all(map(is_free, kept)):
        kept = free_ports(count)
        file.write_text(" ".join(map(str, kept)) + "\n")
    return kept


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        # Without this, connections in TIME_WAIT would make a free port look taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
