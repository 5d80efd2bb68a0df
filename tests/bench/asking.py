"""Asks a service for packs with so many clients at once, each on a connection of its own, for some seconds.

Arguments: port, tenant, its episodes, seed, clients. Answers with the packs a second, after some that are not counted.
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from itertools import cycle

import orjson

from tests.bench import memories
from tests.bench.answers import answer

QUESTIONS = 1_000
WARM_S = 2.0
SECONDS = 8.0


async def client(port: int, tenant: str, questions: Iterator[str], until: float) -> list[float]:
    """When each answer was there."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /v1/hmx/context-packs HTTP/1.1\r\nHost: x\r\nX-HMX-Tenant: {tenant}\r\n"
    head += "Content-Type: application/json\r\n"
    done = []
    while time.monotonic() < until:
        body = orjson.dumps({"query": next(questions)})
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answered = await reader.readuntil(b"\r\n\r\n")
        assert answered.startswith(b"HTTP/1.1 200"), answered
        (length,) = (line for line in answered.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
        done.append(time.monotonic())
    writer.close()
    return done


async def main(port: int, tenant: str, episodes: int, seed: int, clients: int) -> None:
    questions = cycle(memories.queries(QUESTIONS, episodes, seed))
    started = time.monotonic()
    until = started + WARM_S + SECONDS
    done = await asyncio.gather(*(client(port, tenant, questions, until) for _ in range(clients)))
    counted = sum(started + WARM_S <= at < until for times in done for at in times)
    answer(rate=counted / SECONDS)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:6])))
