"""The baseline: a stock Faust agent that reads raw bytes and does nothing. Arguments: bootstrap, topic, count.

Once it has seen `count` records it prints the CPU seconds from the first to the last of them.
"""

import os
import sys
import time
from typing import Any

import faust


def main(bootstrap: str, topic: str, count: int) -> None:
    app = faust.App(
        f"empty-{os.getpid()}",
        broker=f"kafka://{bootstrap}",
        store="memory://",
        web_enabled=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        consumer_auto_offset_reset="earliest",
        stream_wait_empty=False,
    )
    source = app.topic(topic, value_serializer="raw", value_type=None, key_type=bytes, key_serializer="raw")
    seen = 0
    started = 0.0

    @app.agent(source)
    async def empty(stream: Any) -> None:
        nonlocal seen, started
        async for _ in stream:
            if not seen:
                started = time.process_time()
            seen += 1
            if seen == count:
                os.write(1, b"\n%.6f\n" % (time.process_time() - started))  # Faust takes print away
                os._exit(0)

    sys.argv = [sys.argv[0], "worker", "-l", "error"]
    app.main()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
