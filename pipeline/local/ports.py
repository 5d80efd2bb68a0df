"""Free TCP ports of this machine."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

# Below what Linux and macOS hand out to outgoing connections: none of those takes a port between our look and its use.
LOWEST, HIGHEST = 20_000, 32_000


def free_ports(count: int) -> list[int]:
    ports: set[int] = set()
    while len(ports) < count:
        port = random.randint(LOWEST, HIGHEST)
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            ports.add(port)
    return list(ports)
