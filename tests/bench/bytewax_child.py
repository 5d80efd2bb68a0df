"""The yardstick in Bytewax, at least once: parse, count per key, write. Arguments: bootstrap, topic, output.

Runs with the Python of an environment that has that package and nothing of ours. Its state is kept by its recovery
store. Once it has read the topic to its end it prints the seconds and the CPU seconds since the first record.
"""

import json
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import bytewax.operators as op
import orjson
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import run_main


def main(bootstrap: str, topic: str, output: str) -> None:
    started: list[float] = []

    def parsed(message):
        if not started:
            started.extend((time.monotonic(), time.process_time()))
        return message.key.decode(), orjson.loads(message.value)

    def counted(seen, event):
        seen = (seen or 0) + 1
        return seen, orjson.dumps({"session_id": event["session_id"], "seen": seen})

    flow = Dataflow("yardstick")
    events = op.map("parse", op.input("read", flow, KafkaSource([bootstrap], [topic], tail=False)), parsed)
    counts = op.stateful_map("count", events, counted)
    records = op.map("record", counts, lambda pair: KafkaSinkMessage(pair[0].encode(), pair[1]))
    op.output("write", records, KafkaSink([bootstrap], output))
    store = Path(tempfile.mkdtemp())
    init_db_dir(store, 1)
    run_main(flow, epoch_interval=timedelta(seconds=1), recovery_config=RecoveryConfig(store))
    print(json.dumps({"seconds": time.monotonic() - started[0], "cpu": time.process_time() - started[1]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
