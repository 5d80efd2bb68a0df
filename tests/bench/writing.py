"""Writes episodes to Redis at a rate, in blocks as the materialiser does; they are made before.

Arguments: URL, prefix, tenant, how many it has, records a second. Answers when it is ready; begins when it is told to,
and at the next word ends with the rate that was reached.
"""

import select
import sys
import time

from tests.bench import memories
from tests.bench.answers import answer
from tests.support.memory import Memory

SECONDS = 12
"""What is made is enough for so long; the rate is that of the time until it is used up."""


def main(url: str, prefix: str, tenant: str, episodes: int, rate: int) -> None:
    memory = Memory(url, prefix)
    words = memories.vocabulary(episodes)
    made = list(memories.blocks(memory.keys, tenant, rate * SECONDS, words, episodes))
    positions: dict[str, int | None] = dict(memory.store.positions())
    answer(ready=True)
    sys.stdin.readline()
    started, written = time.monotonic(), 0
    for partition, _, commands in made:
        ahead = written / rate - (time.monotonic() - started)
        if select.select([sys.stdin], [], [], max(0.0, ahead))[0]:
            break  # what was said is read below
        new = (positions.get(partition) or 0) + memories.BLOCK
        assert memory.blocks.apply(partition, positions.get(partition), new, commands).ours
        positions[partition] = new
        written += memories.BLOCK
    seconds = time.monotonic() - started
    sys.stdin.readline()
    answer(rate=written / seconds)


if __name__ == "__main__":
    main(*sys.argv[1:4], *map(int, sys.argv[4:6]))
