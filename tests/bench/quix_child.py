"""The yardstick in Quix Streams, exactly once: parse, count per key, write. Arguments: bootstrap, topic, output, count.

Runs with the Python of an environment that has that package and nothing of ours. Once `count` records have passed and
the last transaction is committed it prints the seconds and the CPU seconds since the first of them.
"""

import json
import sys
import tempfile
import time

import orjson
from quixstreams import Application
from quixstreams.models import TopicConfig


def main(bootstrap: str, topic: str, output: str, count: int) -> None:
    app = Application(
        bootstrap,
        consumer_group=output,
        processing_guarantee="exactly-once",
        auto_offset_reset="earliest",
        state_dir=tempfile.mkdtemp(),
        loglevel="ERROR",
    )
    source = app.topic(topic, value_deserializer="bytes", key_deserializer="bytes")
    sink = app.topic(
        output,
        value_serializer="bytes",
        key_serializer="bytes",
        config=TopicConfig(num_partitions=source.broker_config.num_partitions, replication_factor=1),
    )
    started: list[float] = []

    def counted(value, state):
        if not started:
            started.extend((time.monotonic(), time.process_time()))
        event = orjson.loads(value)
        seen = state.get("seen", 0) + 1
        state.set("seen", seen)
        return orjson.dumps({"session_id": event["session_id"], "seen": seen})

    app.dataframe(source).apply(counted, stateful=True).to_topic(sink)
    app.run(count=count, collect=False)
    print(json.dumps({"seconds": time.monotonic() - started[0], "cpu": time.process_time() - started[1]}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
