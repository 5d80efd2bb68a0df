"""The same turns in zaxy-memory, and the same questions to it. Runs with the Python of an environment that has that
package and nothing of ours.

Arguments: a folder to keep them in. Reads lines of JSON: first the turns, {"role", "content"} each, then lists of
questions. Answers each line: with the seconds that storing took, then with the milliseconds of each question, for what
it finds and for what it makes of that for a prompt.
"""

import asyncio
import json
import sys
import time

from zaxy import MemoryFabric

SESSION = "bench"
BLOCK = 500


async def main(folder: str) -> None:
    fabric = MemoryFabric(eventloom_path=folder, tracer_disabled=True)
    turns = json.loads(sys.stdin.readline())
    started = time.perf_counter()
    for first in range(0, len(turns), BLOCK):
        block = enumerate(turns[first : first + BLOCK], first)
        items = [
            {"event_type": "transcript.turn", "actor": turn["role"], "payload": {**turn, "turn_index": number}}
            for number, turn in block
        ]
        await fabric.append_batch(items, session_id=SESSION)
    answer(seconds=time.perf_counter() - started)
    for line in sys.stdin:
        queried, assembled = [], []
        for question in json.loads(line):
            asked = time.perf_counter()
            found = await fabric.query(question, session_id=SESSION)
            answered = time.perf_counter()
            await fabric.assemble_context(question, session_id=SESSION)
            queried.append((answered - asked) * 1000)
            assembled.append((time.perf_counter() - answered) * 1000)
            assert found, f"nothing was found for {question!r}"
        answer(query=queried, assemble_context=assembled)


def answer(**values: object) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
