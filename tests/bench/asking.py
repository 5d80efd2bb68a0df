"""Asks a service for packs with so many clients at once, each on a connection of its own, for some seconds.

Arguments: port, tenant, its episodes, seed, clients. Answers with the packs a second, after some that are not counted.
The requests are written before and the answers not looked into: a client must cost less than what it measures.
"""

import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import cycle

import orjson

from tests.bench import memories
from tests.bench.answers import answer

QUESTIONS = 1_000
WARM_S = 15.0  # each question once
SECONDS = 8.0


class Client(asyncio.Protocol):
    """Asks again as soon as it is answered, until a time. `done`: when each answer was there."""

    def __init__(self, requests: Iterator[bytes], until: float, done: list[float]) -> None:
        self._requests = requests
        self._until = until
        self._done = done
        self._waiting = 0
        """Bytes of the answer that are still to come."""
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        if not self._waiting:
            head, _, _ = data.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
            self._waiting = len(head) + 4 + int(length)
        self._waiting -= len(data)
        if self._waiting:
            return
        now = time.monotonic()
        self._done.append(now)
        if now < self._until:
            self._transport.write(next(self._requests))
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)


def requests(tenant: str, questions: Sequence[str]) -> list[bytes]:
    head = f"POST /v1/hmx/context-packs HTTP/1.1\r\nHost: localhost\r\nX-HMX-Tenant: {tenant}\r\n"
    head += "Content-Type: application/json\r\n"
    bodies = [orjson.dumps({"query": question}) for question in questions]
    return [f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body for body in bodies]


async def main(port: int, tenant: str, episodes: int, seed: int, clients: int) -> None:
    asked = cycle(requests(tenant, memories.queries(QUESTIONS, episodes, seed)))
    started, spent = time.monotonic(), time.process_time()
    until = started + WARM_S + SECONDS
    done: list[float] = []
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(lambda: Client(asked, until, done), "127.0.0.1", port) for _ in range(clients)]
    await asyncio.gather(*(client.ended for _, client in made))
    counted = sum(started + WARM_S <= at < until for at in done)
    answer(rate=counted / SECONDS, client_cpu=(time.process_time() - spent) / (time.monotonic() - started))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:6])))
