"""A stand-in between a client and a real Redis, that answers commands with errors which are hard to bring about."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


class Between:
    """Passes everything on, but for commands that are to fail: their name in capitals → the error's line."""

    def __init__(self, url: str) -> None:
        target = urlsplit(url)
        self._target = target.hostname or "127.0.0.1", target.port or 6379
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._server.getsockname()[1]}/0"
        self.refuses: dict[str, str] = {}
        self.refused = 0
        self.cut = ""
        """A command whose connection is closed once it was passed on, before its answer."""

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _pass_on(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection(self._target) as server:
            asked, answers = client.makefile("rb"), server.makefile("rb")
            while command := _whole(asked):
                name = command.split(b"\r\n")[2].decode().upper()
                error = self.refuses.get(name) or self.refuses.get("*")
                if error:
                    self.refused += 1
                    client.sendall(f"-{error}\r\n".encode())
                    continue
                server.sendall(command)
                answer = _whole(answers)
                if name == self.cut:
                    self.cut = ""
                    return
                client.sendall(answer)


def _whole(stream: socket.SocketIO) -> bytes:  # type: ignore[type-arg]
    """One value of the protocol, with all that it holds."""
    line: bytes = stream.readline()
    if line[:1] in b"*%~" and line[1:2].isdigit():
        return line + b"".join(_whole(stream) for _ in range(int(line[1:])))
    if line[:1] == b"$" and int(line[1:]) >= 0:
        return line + stream.read(int(line[1:]) + 2)
    return line


@contextmanager
def between(url: str) -> Iterator[Between]:
    standing = Between(url)
    threading.Thread(target=standing.serve, daemon=True).start()
    try:
        yield standing
    finally:
        standing.close()
