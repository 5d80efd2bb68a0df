"""The baseline: a stock Faust agent that reads raw bytes and does nothing. Arguments: bootstrap, topic, count.

Once it has seen `count` records it prints the seconds and the CPU seconds from the first to the last of them.
"""

import os
import sys
import tempfile
import time
from typing import Any

import faust


def main(bootstrap: str, topic: str, count: int) -> None:
    app = faust.App(
        f"empty-{os.getpid()}",
        broker=f"kafka://{bootstrap}",
        datadir=tempfile.mkdtemp(),  # in the bench's own folder, which goes at the end
        store="memory://",
        web_enabled=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        consumer_auto_offset_reset="earliest",
        stream_wait_empty=False,
    )
    source = app.topic(topic, value_serializer="raw", value_type=None, key_type=bytes, key_serializer="raw")
    seen = 0
    started = started_cpu = 0.0

    @app.agent(source)
    async def empty(stream: Any) -> None:
        nonlocal seen, started, started_cpu
        async for _ in stream:
            if not seen:
                started, started_cpu = time.monotonic(), time.process_time()
            seen += 1
            if seen == count:
                spent = time.monotonic() - started, time.process_time() - started_cpu
                os.write(1, b'\n{"seconds": %.6f, "cpu": %.6f}\n' % spent)  # Faust takes print away
                os._exit(0)

    sys.argv = [sys.argv[0], "worker", "-l", "error"]
    app.main()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
