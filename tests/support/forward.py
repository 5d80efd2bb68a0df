"""A port that stands for a server which is away at first, and then is there."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def forwarding(port: int, to: str) -> Iterator[None]:
    """Connections to `port` reach `to` (host:port) until the end; then they are cut."""
    host, _, target = to.rpartition(":")
    listener = socket.create_server(("127.0.0.1", port))
    held: list[socket.socket] = []

    def pump(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            return
        finally:
            _cut(sink)

    def accept() -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.create_connection((host, int(target)))
            held.extend((near, far))
            for pair in ((near, far), (far, near)):
                threading.Thread(target=pump, args=pair, daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        for end in held:
            _cut(end)
            end.close()


def _cut(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
