"""Free TCP ports of this machine."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

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
